"""Lines that say a checkpoint is saved, as frameworks write them when it is."""

from __future__ import annotations

import re

from apps.jobs.domain.traininglog.line import Line

MAX_SEARCHED = 4096

_SAVED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"checkpoint saved: step (\d{1,18})\b.*",  # the platform's format
        r"\s*successfully saved checkpoint (?:from|at) iteration\s+(\d{1,18})\b.*",  # Megatron-LM
        r"(?:\[[^\]]*\] ?)*saving model checkpoint to \S*checkpoint-(\d{1,18})/?",  # Hugging Face's Trainer
        r".{0,120}\[Torch\] Saved \S*global_step(\d{1,18})/mp_rank_\d+_model_states\.pt\.",  # DeepSpeed
    )
)


def saved(line: Line) -> int | None:
    """The step of the checkpoint that the line says was saved."""
    text = line.text[:MAX_SEARCHED]
    if "checkpoint" not in text.lower() and "global_step" not in text:
        return None
    return next((int(match[1]) for pattern in _SAVED if (match := pattern.fullmatch(text))), None)
