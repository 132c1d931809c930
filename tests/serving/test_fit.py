"""Whether a model fits a shape: the arithmetic by hand, and what is not known said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apps.serving.domain.engines import ENGINES, Device, Operand, engine_for
from apps.serving.domain.fit import GIB, SHAPES, Verdict, fit, fits, memory_of_product, smallest

CHARLM = ENGINES["charlm"]
# 70 billion parameters of two bytes, and a context of 4,096 tokens of 327,680 bytes for each of 8 requests.
WEIGHTS, CACHE = 140 * 10**9, 4096 * 327_680 * 8
LARGE = replace(
    CHARLM,
    device=Device.ACCELERATOR,
    splits=True,
    need=lambda facts: [Operand("weights", WEIGHTS), Operand("cache", CACHE)],
)


def test_a_small_model_takes_the_smallest_shape_and_shows_its_terms() -> None:
    facts = {"format": "charlm", "parameters": 22_000, "bytes": 360_000, "context": 12}
    terms = {operand.code: operand.bytes for operand in CHARLM.need(facts)}
    assert terms["weights"] == 22_000 * 8
    assert terms["loading"] == 360_000
    assert terms["cache"] == 12 * 8 * 16
    best = smallest(fits(CHARLM, facts, None))
    assert best
    assert (best.shape.key, best.need, best.room) == ("1-small", sum(terms.values()), int(4 * GIB * 0.9))


@pytest.mark.parametrize(
    ("shape", "accelerator", "verdict"),
    [
        ("1-small", 80 * GIB, Verdict.TOO_LARGE),
        ("2", 80 * GIB, Verdict.FITS),  # 150.7 of 154.6 GB: 160 GiB less a tenth
        ("2", 40 * GIB, Verdict.TOO_LARGE),
        ("4", 40 * GIB, Verdict.FITS),
        ("2", None, Verdict.UNKNOWN),
    ],
)
def test_weights_and_context_together_have_to_fit(shape: str, accelerator: int | None, verdict: Verdict) -> None:
    assert fit(LARGE, {}, SHAPES[shape], accelerator).verdict is verdict


def test_an_engine_that_cannot_split_is_offered_one_accelerator() -> None:
    alone = replace(LARGE, splits=False)
    answers = fits(alone, {}, 80 * GIB)
    assert [answer.verdict for answer in answers[2:]] == [Verdict.CANNOT_SPLIT] * 3
    assert smallest(answers) is None


@pytest.mark.parametrize(
    ("product", "gib"),
    [
        ("NVIDIA-A800-SXM4-80GB", 80),
        ("A800-80G", 80),
        ("NVIDIA-A10", None),
        ("Tesla-T4-SHARED", None),
        ("Ascend910B-64GiB", 64),
        ("NVIDIA-H100-100GbE", None),
        ("", None),
    ],
)
def test_memory_is_read_from_a_products_name_or_said_to_be_unknown(product: str, gib: int | None) -> None:
    assert memory_of_product(product) == (None if gib is None else gib * GIB)


def test_facts_may_be_missing_or_odd() -> None:
    assert engine_for({}) is None
    assert engine_for({"format": "pickle"}) is None
    assert engine_for({"format": "charlm"}) is CHARLM
    need = CHARLM.need({"parameters": None, "bytes": "many", "context": True})
    assert [operand.bytes for operand in need[:3]] == [0, 0, 0]
    assert CHARLM.startup_seconds({}) == 60


def test_the_time_to_start_grows_with_the_model() -> None:
    assert CHARLM.startup_seconds({"bytes": 10 << 30}) > 200
