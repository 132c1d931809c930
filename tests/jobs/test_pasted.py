"""Secrets in documents: what is found, and what is left alone."""

from __future__ import annotations

import base64

import pytest

from apps.jobs.domain import pasted
from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.domain.spec import read_spec
from apps.jobs.services.messages import PROBLEMS

# Built at run time: no scanner of this repository shall take them for the real thing.
R = "aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4fG6hJ8kL0nM2qR4tV6wY8"
UP = "Q7RT2WX9ZK4LM8NP"
JWT = ".".join(["eyJ" + R[:20], "eyJ" + R[5:30], R[:30]])
PEM = "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n" + R + "\n-----END OPENSSH PRIVATE KEY-----"

SECRETS = [
    ("key", PEM),
    ("key", "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow"),
    ("key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n" + R),
    ("key", "users:\n- user:\n    client-key-data: " + base64.b64encode(R.encode()).decode()),
    ("token", "aws configure set id AKIA" + UP),
    ("token", "hf_" + R[:34]),
    ("token", "python get.py --auth=hf_" + R[:34]),
    ("token", "git clone with ghp_" + R[:36]),
    ("token", "github_pat_" + R[:22] + "_" + R[:59]),
    ("token", "glpat-" + R[:20]),
    ("token", "sk-" + R[:48]),
    ("token", "sk-ant-api03-" + R[:40]),
    ("token", "sk-proj-" + R[:40]),
    ("token", "xoxb-" + "123456789012-" + R[:24]),
    ("token", "npm_" + R[:36]),
    ("token", "AIza" + R[:35]),
    ("token", "hvs." + R[:24]),
    ("token", "VAULT s." + R[:24]),
    ("token", "mp_" + R[:43]),
    ("token", f"Authorization: Bearer {JWT}"),
    ("password", "git clone https://li:" + R[:12] + "@git.example/team/data.git"),
    ("password", "postgres://app:hunter2@db.example/x"),
    ("password", "s3cmd --secret-key " + R[:40]),
    ("password", "WANDB_API_KEY=" + R[:40]),
    ("password", "password: " + R[:16]),
    ("password", '{"api_key": "' + R[:32] + '"}'),
    ("password", "export DB_PASSWORD='" + R[:20] + "' && python train.py"),
]

HARMLESS = [
    "python train.py --max-tokens 4096 --eos-token '<|endoftext|>' --pad_token [PAD]",
    "torchrun train.py --tokenizer /models/qwen-14b/tokenizer.json --tokens-per-batch 1048576",
    "TOKENIZERS_PARALLELISM=false\nMAX_NEW_TOKENS=512\nNCCL_DEBUG=INFO",
    "HF_TOKEN_PATH=/run/secrets/maas/hf-token/token",
    "HF_TOKEN=$(cat /run/secrets/maas/hf-token/token)",
    "registry.example/team/trainer@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "git checkout 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "resume from step 12000 of run 01JDQ8ZP4W7R8V5K2M3N6T9XYB",
    "see https://wiki.example:8443/secret-santa?token=none",
    "s3://bucket/user:name/part-00001.parquet",
    "postgres://app:$PASSWORD@db.example/x",
    "postgres://app:<password>@db.example/x",
    "git@git.example:team/repo.git",
    "The secret of a good curve is a small learning rate, says arXiv:2001.08361v1.",
    "sk-learn-pipeline-with-standard-scaler",
    "hf_hub_download, hf_transfer",
    "--model deepseek-ai/DeepSeek-R1-Distill-Qwen-14B --adapter lora-r16-a32",
    "secret_name=hf-token-of-the-team-2026",
    "the token embedding has 151936 x 5120 entries",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----",
    "凭据在“凭据”页录入，作业里按文件读取。",
]


@pytest.mark.parametrize(("kind", "text"), SECRETS, ids=[text[:24] for _kind, text in SECRETS])
def test_a_pasted_secret_is_found_and_not_told(kind: str, text: str) -> None:
    problem = pasted.problem("note", text)
    assert problem is not None
    assert problem.code == f"pasted-{kind}"
    assert not problem.params
    cleaned = pasted.without(text)
    assert R[:10] not in cleaned
    assert "hunter2" not in cleaned
    again = pasted.problem("note", cleaned)
    assert again is not None
    assert again.code == "pasted-removed"


@pytest.mark.parametrize("text", HARMLESS, ids=[text[:24] for text in HARMLESS])
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert pasted.problem("note", text) is None
    assert pasted.without(text) == text


def test_only_the_secret_is_taken_out() -> None:
    text = f"LEVEL=3\nHUB=hf_{R[:34]}\nURL=https://li:{R[:12]}@git.example/x"
    gone = pasted.REMOVED
    assert pasted.without(text) == f"LEVEL=3\nHUB={gone}\nURL=https://li:{gone}@git.example/x"


TORCHRUN = {"template": "torchrun", "name": "n", "image": "x", "script": "t.py"}


@pytest.mark.parametrize(
    ("field", "raw"),
    [("name", "hf_" + R[:34]), ("note", PEM), ("image", "hf_" + R[:34]), ("script", ["t.py", "--token", R[:40]]),
     ("script", f"t.py --token {R[:40]}"), ("environment", {"SOME": "ghp_" + R[:36]}),
     ("environment", {"WANDB_API_KEY": R[:40]}), ("ranks", "hf_" + R[:34]), ("secrets", ["hf_" + R[:34]])],
)  # fmt: skip
def test_no_field_takes_a_secret_or_quotes_it(field: str, raw: object) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read_spec({**TORCHRUN, field: raw})
    (problem,) = caught.value.problems
    assert (problem.field, problem.code[:7]) == (field, "pasted-")
    assert R[:10] not in repr(problem)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("HF_TOKEN", True), ("WANDB_API_KEY", True), ("awsSecretAccessKey", True), ("DB_PASSWORD", True), ("passwd", True),
     ("GIT_CREDENTIALS", True), ("MAX_TOKENS", False), ("EOS_TOKEN", False), ("TOKENIZERS_PARALLELISM", False),
     ("HF_TOKEN_PATH", False), ("SECRET_NAME", False), ("KEYBOARD", False), ("NUM_TOKEN", False)],
)  # fmt: skip
def test_names_that_promise_a_secret(name: str, secret: bool) -> None:
    assert pasted.is_secret_name(name) is secret


def test_every_kind_has_words_that_say_where_secrets_go() -> None:
    assert all("Secrets" in str(PROBLEMS[f"pasted-{kind}"]) for kind in ("key", "token", "password", "removed"))
