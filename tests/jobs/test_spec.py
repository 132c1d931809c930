"""Reading what people type into a job document."""

from __future__ import annotations

import pytest

from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.domain.spec import read_spec
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.services.messages import FIELDS, PROBLEMS, problem_text

GOOD = {"template": "charlm", "name": "first light"}


def problems(**changes: object) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as caught:
        read_spec({**GOOD, **changes})
    return {problem.field: problem.code for problem in caught.value.problems}


@pytest.mark.parametrize("name", ["Llama-7B", "v1.2", "my_run", "语料清洗 一号", "x" * 63, "  padded  "])
def test_a_name_is_for_people(name: str) -> None:
    assert read_spec({**GOOD, "name": name}).name == name.strip()


@pytest.mark.parametrize(
    ("name", "code"),
    [("", "required"), ("  ", "required"), ("x" * 64, "too-long"), ("../etc", "name-characters"), ("a\n", "unprintable"),
     ("a\u202eb", "unprintable"), ("<b>", "name-characters"), (7, "required"), (None, "required")],
)  # fmt: skip
def test_a_name_that_cannot_be_shown_is_refused(name: object, code: str) -> None:
    assert problems(name=name) == {"name": code}


@pytest.mark.parametrize("raw", ["0", "-1", 0, -3, "9", "512"])
def test_gpus_out_of_range(raw: object) -> None:
    assert problems(gpus_per_rank=raw) == {"gpus_per_rank": "out-of-range"}


@pytest.mark.parametrize("raw", ["1.5", "1e400", "1e0", "", "two", "０x1", None, True, [], "1_000", "9" * 30])
def test_gpus_that_are_no_whole_number(raw: object) -> None:
    assert problems(gpus_per_rank=raw) == {"gpus_per_rank": "not-whole"}


@pytest.mark.parametrize("raw", ["nan", "inf", "1e400", "0x10", "", True])
def test_a_learning_rate_must_be_finite(raw: object) -> None:
    assert problems(learning_rate=raw) == {"learning_rate": "not-number"}


def test_every_problem_is_told_at_once() -> None:
    assert problems(name="", ranks="no", steps="-1", extra=1).keys() == {"name", "ranks", "steps", "extra"}


@pytest.mark.parametrize(
    ("image", "good"),
    [("trainer", True), ("team/trainer:1.4", True), ("host.example:5000/team/trainer@sha256:" + "0" * 64, True),
     ("Trainer", False), ("a b", False), ("x:", False), ("-x", False), ("", False), ("a/../b", False)],
)  # fmt: skip
def test_images_are_read_as_container_runtimes_do(image: str, good: bool) -> None:
    document = {"template": "torchrun", "name": "n", "image": image, "script": "train.py"}
    if good:
        assert read_spec(document).container.image == image
    else:
        with pytest.raises(InvalidDocument):
            read_spec(document)


def test_a_secret_in_the_environment_is_refused() -> None:
    document = {"template": "torchrun", "name": "n", "image": "x", "script": "t.py", "environment": "HF_TOKEN=abc"}
    with pytest.raises(InvalidDocument) as caught:
        read_spec(document)
    assert [(p.field, p.code) for p in caught.value.problems] == [("environment", "env-secret")]
    assert "abc" not in problem_text(caught.value.problems[0])


@pytest.mark.parametrize("lost", ["\0", "\x1a", "\ud800"])
def test_what_the_database_cannot_hold_is_refused_by_field(lost: str) -> None:
    document = {"template": "command", "name": f"n{lost}", "image": "x", "command": f"echo {lost}", "note": lost}
    with pytest.raises(InvalidDocument) as caught:
        read_spec({**document, "environment": {"A": f"x{lost}"}})
    assert {p.field: p.code for p in caught.value.problems} == dict.fromkeys(
        ("name", "command", "note", "environment"), "unprintable"
    )


def test_a_document_read_and_written_is_the_same_spec() -> None:
    spec = read_spec({**GOOD, "learning_rate": "3e-3", "note": "why"})
    assert read_spec(spec.document()) == spec


def test_every_field_has_words_and_every_problem_a_sentence() -> None:
    named = {field for template in TEMPLATES.values() for field in template.fields}
    assert named <= FIELDS.keys()
    assert all(str(text) for text in PROBLEMS.values())
