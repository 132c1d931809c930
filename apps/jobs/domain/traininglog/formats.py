"""The forms in which frameworks print figures, each a function: what the line told, or None for another's line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from apps.jobs.domain.traininglog.line import Line, Told
from apps.jobs.domain.traininglog.values import NUMBER, named, number, whole

MAX_SEARCHED = 4096
"""Characters of a line that are searched."""
BAR_TAIL = 400
"""Characters, from the end, of what was drawn over in which a progress bar's last state is looked for."""


@dataclass
class Progress:
    """What lines before have said: how many steps an epoch has, which of Ray's workers spoke first, how many iterations
    Megatron skipped."""

    epoch_steps: int = 0
    last_step: int = 0
    worker: str = ""
    skipped: float = 0


Format = Callable[[Line, Progress], Told | None]

_NAME = r"[A-Za-z][\w/]*(?: [\w/]+){0,3}"
_ITEM = rf"{_NAME} ?[:=] ?[^\s,:=]+(?: [^\W\d_]{{1,3}})?"
_ITEMS = re.compile(rf"{_ITEM}(?:, {_ITEM})*")
_ONE_ITEM = re.compile(rf"({_NAME}) ?[:=] ?([^\s,]+)")


def platform(line: Line, _progress: Progress) -> Told | None:
    """`Loss: 2.456, LR: 1.5e-4, GPU Util: 95%`, with the step in the line's head."""
    if line.step is None:
        return None
    text = line.text[:MAX_SEARCHED]
    return Told(line.step, named(_ONE_ITEM.findall(text)) if _ITEMS.fullmatch(text) else {})


_MEGATRON = re.compile(r"\s*(?:\[[\d :.-]+\]\s*)?iteration\s+(\d+)/\s*\d+\s*\|(.*)", re.DOTALL)


def megatron(line: Line, progress: Progress) -> Told | None:
    """` iteration 122/ 250000 | lm loss: 2.504220E+00 | loss scale: 1.0 | …`. An iteration that was NaN has no loss.
    How many were, and how many were skipped, is told of those since the line before."""
    match = _MEGATRON.fullmatch(line.text[:MAX_SEARCHED])
    if match is None:
        return None
    pairs = [(name, value.strip()) for name, _, value in (part.partition(":") for part in match[2].split("|"))]
    counts = {name.strip(): number(value) or 0.0 for name, value in pairs}
    nan, marks = counts.get("number of nan iterations", 0.0), dict[str, float]()
    if (skipped := counts.get("number of skipped iterations")) is not None:
        progress.skipped += skipped if math.isfinite(skipped) else 0
        marks["skipped_steps"] = progress.skipped
    if nan:
        marks["nan_iterations"] = nan
    return Told(int(match[1]), named(pairs), ("nan_iterations",) if nan else (), marks)


_DEEPSPEED = re.compile(r"(?:\[[^\]]*\] ){2,5}step=(\d+), skipped=(\d+), lr=\[(" + NUMBER + r")[,\]].*", re.IGNORECASE)


def deepspeed(line: Line, _progress: Progress) -> Told | None:
    """`[…] [Rank 0] step=510, skipped=8, lr=[9.65e-06, …], mom=[…]`. The engine prints no loss."""
    match = _DEEPSPEED.fullmatch(line.text[:MAX_SEARCHED])
    if match is None:
        return None
    return Told(int(match[1]), named([("lr", match[3])]), marks={"skipped_steps": float(match[2])})


_MMENGINE = re.compile(
    r".{0,80} - (?:INFO - )?(?:Epoch\(train\)\s+\[(\d+)\]|Iter\(train\)\s+)\[\s*(\d+)/(\d+)\]\s+(.*)"
)
_SPACED = re.compile(r"([A-Za-z][\w./-]*)\s*[:=]\s*([^\s,]+)")


def mmengine(line: Line, _progress: Progress) -> Told | None:
    """`… - Epoch(train) [2][10/735]  lr: 1.9e-04 … loss: 2.54  grad_norm: 2.9`."""
    match = _MMENGINE.fullmatch(line.text[:MAX_SEARCHED])
    if match is None:
        return None
    epoch, iteration, length, rest = match.groups()
    return Told((int(epoch or 1) - 1) * int(length) + int(iteration), named(_SPACED.findall(rest)))


_MINDSPORE = re.compile(rf"epoch: (\d+),? step: (\d+), loss is ({NUMBER})", re.IGNORECASE)
_MINDSPORE_EPOCH = re.compile(rf"(?:Train )?epoch time: ({NUMBER}) ms, per step time: ({NUMBER}) ms(?:/step)?", re.I)


def mindspore(line: Line, progress: Progress) -> Told | None:
    """`epoch: 2 step: 100, loss is 2.30`. How many steps an epoch has is known when the first one has ended; until then
    lines of later epochs say no step."""
    text = line.text[:MAX_SEARCHED]
    if ended := _MINDSPORE_EPOCH.fullmatch(text):
        total, each = number(ended[1]) or 0, number(ended[2]) or 0
        progress.epoch_steps = round(total / each) if each > 0 else progress.epoch_steps
        return Told()
    match = _MINDSPORE.fullmatch(text)
    if match is None:
        return None
    epoch, step = int(match[1]), int(match[2])
    if epoch > 1 and not progress.epoch_steps:
        progress.epoch_steps = progress.last_step
    progress.last_step = step if epoch == 1 else progress.last_step
    known = epoch == 1 or progress.epoch_steps > 0
    return Told((epoch - 1) * progress.epoch_steps + step if known else None, named([("loss", match[3])]))


_RAY = re.compile(r"\(\w+ pid=(\d+)(?:, ip=([\w.:]+))?\) +(.*?)(?: \[repeated \d+x across cluster\])?")
_SCALAR = rf"""{NUMBER}|"[^"\\]*"|'[^'\\]*'|true|false|null|none"""
_PAIR = re.compile(rf"""\s*(["'])([\w/. -]{{1,80}})\1\s*:\s*({_SCALAR})\s*(?:,|$)""", re.IGNORECASE)
_STEP_NAMES = ("step", "global_step", "iteration", "iter")
_BAR = re.compile(r"\d+%\|[^|]*\| (\d+)/\d+ \[")


def dictionary(line: Line, progress: Progress) -> Told | None:
    """A flat Python or JSON dictionary, also behind the name of a Ray worker. The step is in it, or it is where the
    progress bar stood that was drawn on the line before (Hugging Face's Trainer).

    Ray's workers all report the same step; those of the first that spoke are taken.
    """
    text = line.text[:MAX_SEARCHED].strip()
    worker = _RAY.fullmatch(text)
    inner = worker[3] if worker else text
    if not (inner.startswith("{") and inner.endswith("}")):
        return None
    pairs = _entries(inner[1:-1])
    if pairs is None:
        return None
    if worker:
        name = f"{worker[1]}@{worker[2]}"
        progress.worker = progress.worker or name
        if name != progress.worker:
            return Told()
    step = next((whole(pairs[name]) for name in _STEP_NAMES if name in pairs), None)
    bars = _BAR.findall(line.drawn[-BAR_TAIL:]) if step is None else []
    return Told(int(bars[-1]) if bars else step, named(pairs.items()))


def _entries(body: str) -> dict[str, str] | None:
    """The entries of a flat dictionary; None where something else stands between them."""
    found, at = dict[str, str](), 0
    while at < len(body):
        match = _PAIR.match(body, at)
        if match is None:
            return None
        found[match[2]] = match[3].strip("\"'")
        at = match.end()
    return found


_HEAD = r"(?:\[[^\]]{1,60}\][: ]?\s*)*(?:\d{4}-\d\d-\d\d[ T][\d:,.]+\s+)?(?:-? ?[\w.]+ - )*(?:[A-Z]{4,8}[: ] ?)?"
_VALUE = r"(?:[^\s,|]|,(?=\d{3}(?!\d)))+"
_STEPPED = re.compile(
    rf"{_HEAD}(?:step|global_step|iteration|iter)\s*[:=]\s*(\d+)"
    rf"((?:[\s,|]+[A-Za-z][\w./-]*\s*[:=]\s*{_VALUE})+)[\s|]*",
    re.IGNORECASE,
)
_STEPPED_PAIR = re.compile(rf"([A-Za-z][\w./-]*)\s*[:=]\s*({_VALUE})")
_BARE = re.compile(r"loss\s*[:=]\s*([^\s,]+)(?:[\s,]+[A-Za-z][\w./-]*\s*[:=]\s*[^\s,]+)*", re.IGNORECASE)


def stepped(line: Line, _progress: Progress) -> Told | None:
    """`step: 10  loss: 7.9320  grad_norm: 1.4530  tps: 7,411`, as torchtitan and many scripts print it: the step first,
    nothing but pairs after it. A loss that stands alone says no step, but may still be infinite."""
    text = line.text[:MAX_SEARCHED]
    if match := _STEPPED.fullmatch(text):
        return Told(whole(match[1]), named(_STEPPED_PAIR.findall(match[2])))
    if bare := _BARE.fullmatch(text):
        return Told(None, named([("loss", bare[1])]))
    return None


FORMATS: tuple[Format, ...] = (platform, megatron, deepspeed, mmengine, mindspore, dictionary, stepped)
