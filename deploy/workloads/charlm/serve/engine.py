"""The model as something that writes text, one token (here a character) after the other."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploy.workloads.charlm.checkpoint import NotGood, read_manifest, read_state
from deploy.workloads.charlm.model import Model, Vector
from deploy.workloads.charlm.serve.ask import Ask

END = "\n"
"""The model ends a paragraph with it, and an answer is one paragraph."""


@dataclass(frozen=True)
class Engine:
    """`alphabet`: one character a token, in the order of the model's indices. `made`: seconds since 1970."""

    model: Model
    parameters: Vector
    alphabet: str
    step: int
    made: int
    token_seconds: float = 0.0  # least duration of a token, for watching

    @classmethod
    def load(cls, directory: Path, token_seconds: float = 0.0) -> Engine:
        """From a checkpoint's folder, or from the newest good one in a folder of checkpoints. Raises NotGood."""
        if (directory / "manifest.json").exists():
            return cls._load(directory, token_seconds)
        why = f"there is no checkpoint in {directory}"
        for folder in sorted(directory.glob("step-*"), reverse=True):
            try:
                return cls._load(folder, token_seconds)
            except NotGood as error:
                why = f"{folder.name}: {error}"
        raise NotGood(why)

    @classmethod
    def _load(cls, folder: Path, token_seconds: float) -> Engine:
        manifest = read_manifest(folder)
        sizes = {name: manifest["model"].get(name) for name in ("vocabulary", "context", "embedding", "hidden")}
        alphabet = manifest["model"].get("characters")
        if not all(isinstance(size, int) for size in sizes.values()) or not isinstance(alphabet, str):
            raise NotGood("its manifest does not describe the model")
        model = Model(**sizes)
        if {**model.describe(), "characters": alphabet} != manifest["model"] or len(alphabet) != model.vocabulary:
            raise NotGood("its model is not one that this program computes")
        made = int(datetime.fromisoformat(manifest["saved_at"]).timestamp())
        parameters = read_state(folder, manifest, model.size).parameters
        return cls(model, parameters, alphabet, manifest["step"], made, token_seconds)

    def encode(self, text: str) -> list[int]:
        """A token a character. One that the model does not know becomes its letter without marks (é: e), or a space."""
        index = {character: number for number, character in enumerate(self.alphabet)}
        other = index.get(" ", 0)
        return [index[c] if c in index else index.get(unicodedata.normalize("NFKD", c)[0], other) for c in text]

    def next(self, tokens: list[int]) -> Vector:
        """log p of each token of the alphabet to come after these; shape (vocabulary,)."""
        window = tokens[-self.model.context :]
        fill = self.alphabet.find(END) if END in self.alphabet else 0
        window = [fill] * (self.model.context - len(window)) + window
        found: Vector = self.model.log_probabilities(self.parameters, np.array([window], dtype=np.int64))[0]
        return found

    def well(self) -> bool:
        """Whether one token could really be made just now."""
        made = self.next(self.encode("The "))
        return bool(np.isfinite(made).all() and abs(np.exp(made).sum() - 1) < 1e-6)


class Completion:
    """One answer in the making: iterate for its text, piece by piece; the counts hold at any time."""

    def __init__(self, engine: Engine, ask: Ask) -> None:
        self.engine, self.ask = engine, ask
        self.tokens = engine.encode(ask.prompt)
        self.prompt_tokens = len(self.tokens)
        self.made = 0
        self.finish_reason: str | None = None
        self._random = np.random.default_rng(None if ask.seed is None else [ask.seed & (2**64 - 1)])

    def __iter__(self) -> Iterator[str]:
        """A piece for each token, as soon as it is made; empty while it may yet turn out to begin a stop sequence."""
        held = ""
        while self.made < self.ask.max_tokens:
            started = time.monotonic()
            character = self._make()
            if character == END and not self.ask.whole:
                self.finish_reason = "stop"
                break
            held += character
            if found := [held.index(stop) for stop in self.ask.stop if stop in held]:
                held = held[: min(found)]
                self.finish_reason = "stop"
                break
            kept = _may_begin(held, self.ask.stop)
            yield held[: len(held) - kept]
            held = held[len(held) - kept :]
            time.sleep(max(0.0, self.engine.token_seconds - (time.monotonic() - started)))
        self.finish_reason = self.finish_reason or "length"
        yield held

    def _make(self) -> str:
        log_p = self.engine.next(self.tokens)
        if not self.made and not self.ask.whole and (end := self.engine.alphabet.find(END)) >= 0:
            log_p[end] = -np.inf  # an answer says something
        token = _pick(log_p, self.ask, self._random)
        self.tokens.append(token)
        self.made += 1
        return self.engine.alphabet[token]


def _pick(log_p: Vector, ask: Ask, random: np.random.Generator) -> int:
    if ask.temperature == 0:
        return int(log_p.argmax())
    p = np.exp((log_p - log_p.max()) / ask.temperature)
    order: NDArray[np.int64] = np.argsort(-p, kind="stable")
    sums = np.cumsum(p[order])
    # The fewest of the likeliest that together have top_p; the first one always.
    kept = int(np.searchsorted(sums, ask.top_p * sums[-1])) + 1
    sums = sums[:kept]
    return int(order[min(np.searchsorted(sums, random.random() * sums[-1], side="right"), len(sums) - 1)])


def _may_begin(text: str, stops: tuple[str, ...]) -> int:
    """Length of the longest end of `text` that is the beginning of a stop sequence."""
    longest = min(len(text), max(map(len, stops), default=1) - 1)
    return next((n for n in range(longest, 0, -1) if any(stop.startswith(text[-n:]) for stop in stops)), 0)
