"""Quantities: what Kubernetes' own parser answered (1.36, `resource.ParseQuantity`), and what must hold for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.quotas.domain.quantity import LARGEST_EXPONENT, BadQuantity, Quantity, Style, parse

RECORDED = json.loads((Path(__file__).parents[1] / "cases/kubernetes/quantities.json").read_text())


@pytest.mark.parametrize(("text", "canonical", "base"), RECORDED, ids=[repr(row[0]) for row in RECORDED])
def test_it_is_read_and_written_as_kubernetes_does(text: str, canonical: str | None, base: str | None) -> None:
    if canonical is None:
        with pytest.raises(BadQuantity):
            parse(text)
    else:
        assert (parse(text).canonical, parse(text).base) == (canonical, base)


@pytest.mark.parametrize("text", ["-", "+", ".", "-.", f"1e{LARGEST_EXPONENT * 10}", "1e-9999999999"])
def test_no_number_and_an_endless_one_are_refused_though_kubernetes_takes_them(text: str) -> None:
    with pytest.raises(BadQuantity):
        parse(text)


def test_a_number_beyond_all_suffixes_keeps_its_value() -> None:
    """Kubernetes 1.36 writes 905000E as 905."""
    assert parse("905000E").canonical == "905000E"


numbers = st.builds(
    lambda sign, before, after, suffix: f"{sign}{before}{after}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**25).map(str),
    st.one_of(st.just(""), st.just("."), st.text("0123456789", min_size=1, max_size=12).map(lambda digits: f".{digits}")),
    st.one_of(
        st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        st.builds(lambda e, sign, power: f"{e}{sign}{power}", st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 30)),
    ),
)  # fmt: skip


@given(numbers)
def test_the_canonical_form_means_the_same_and_is_its_own(text: str) -> None:
    read = parse(text)
    again = parse(read.canonical)
    assert again.nanos == read.nanos
    assert again.canonical == read.canonical
    assert parse(read.base).nanos == read.nanos


@given(st.integers(-(10**30), 10**30), st.sampled_from([Style.DECIMAL, Style.EXPONENT]))
def test_every_value_can_be_written_and_read_back(nanos: int, style: Style) -> None:
    assert parse(Quantity(nanos, style).canonical).nanos == nanos


def test_the_command_prints_json_and_names_what_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("quantity", "--json", "--", "0.5", "-1Gi")
    assert json.loads(capsys.readouterr().out) == [
        {"input": "0.5", "canonical": "500m", "base": "0.5"},
        {"input": "-1Gi", "canonical": "-1Gi", "base": "-1073741824"},
    ]
    with pytest.raises(CommandError) as caught:
        call_command("quantity", "--json", "--", "1", "eight", "1GB")
    assert caught.value.returncode == 2
    assert "'eight' is no quantity" in str(caught.value)
    assert "'1GB' is no quantity: the suffix is unknown" in str(caught.value)
