"""The training loop of one rank.

What step n trains on depends on the seed and n alone, so a run that was broken off and resumed sees what an unbroken
one sees, and the ranks, each taking its part of the same batch, together see what one alone would.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deploy.workloads.charlm.checkpoint import CheckpointError, Checkpoints, State
from deploy.workloads.charlm.events import EventFile
from deploy.workloads.charlm.log import Log, short
from deploy.workloads.charlm.model import Model
from deploy.workloads.charlm.ring import Alone, Ring
from deploy.workloads.charlm.text import Corpus, batch

MOMENTUM = 0.9
WARM_UP = 50  # steps
FINAL_SHARE = 0.1  # of the learning rate, at the last step
RUNAWAY = 1.1  # --diverge: growth of the learning rate a step
OTHERS_LOG_EVERY = 10  # ranks above 0 log so many times less often
EVALUATED_AT_ONCE = 512  # windows; bounds the memory

EXIT_DONE = 0
EXIT_DIVERGED = 3


@dataclass(frozen=True)
class Settings:
    steps: int
    lr: float
    global_batch: int
    seed: int
    diverge: int | None = None  # first step of a learning rate that runs away
    step_seconds: float = 0.0  # least duration of a step
    log_every: int = 5
    checkpoint_dir: Path | None = None
    checkpoint_every: int = 100
    resume_dir: Path | None = None  # checkpoints of another run, and the step of the one to begin with
    resume_step: int | None = None

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then a half cosine."""
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        rate = self.lr * min(1.0, step / WARM_UP) * (FINAL_SHARE + (1 - FINAL_SHARE) * cosine)
        return rate if self.diverge is None or step < self.diverge else rate * RUNAWAY ** (step - self.diverge + 1)

    def digest(self) -> str:
        """Equal on ranks that compute the same: paths and paces may differ."""
        own = ("step_seconds", "log_every", "checkpoint_dir", "resume_dir")
        same = {k: v for k, v in asdict(self).items() if k not in own}
        same["checkpoints"] = self.checkpoint_dir is not None
        return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]


class Trainer:
    """`signalled` tells whether this rank was asked to end; the ranks agree on the step at which all do."""

    def __init__(
        self,
        settings: Settings,
        ring: Ring | Alone,
        log: Log,
        signalled: Callable[[], int],
        events: EventFile | None = None,
    ) -> None:
        self.settings = settings
        self.ring = ring
        self.log = log
        self.signalled = signalled
        self.events = events
        self.corpus = Corpus.make()
        self.model = Model(len(self.corpus.vocabulary))
        self.state = State(0, np.zeros((2, self.model.size)))
        self.state.parameters[:] = self.model.initial(settings.seed)
        described = {**self.model.describe(), "characters": self.corpus.vocabulary}
        self.checkpoints = settings.checkpoint_dir and Checkpoints(settings.checkpoint_dir, described, ring, log)
        self.others = settings.resume_dir and Checkpoints(settings.resume_dir, described, ring, log)
        self._sums = np.empty(self.model.size + 2)  # gradient, loss, how many ranks were asked to end
        self._reported = (0, time.monotonic(), 0.0)  # step, when, seconds waited for others

    def run(self) -> int:
        """Train to the end and return the exit code. Raise PeerLost, CheckpointError."""
        self._resume()
        for step in range(self.state.step + 1, self.settings.steps + 1):
            started = time.monotonic()
            self.log.step = step
            loss, norm, ending = self._step(step)
            last = ending or step == self.settings.steps or not math.isfinite(loss)
            if self._is_due(step) or last:
                self._report(loss, norm)
            if not math.isfinite(loss):
                self.log.error(f"Loss is {loss}: the model has diverged, nothing more to learn")
                return EXIT_DIVERGED
            if ending:
                self.log.warn("Asked to end (SIGTERM): saving an emergency checkpoint")
            if last or step % self.settings.checkpoint_every == 0:
                self._save(loss)
            if ending:
                return 128 + ending
            time.sleep(max(0.0, self.settings.step_seconds - (time.monotonic() - started)))
        self._evaluate()
        return EXIT_DONE

    def _resume(self) -> None:
        """Go on from this run's newest checkpoint, else begin with the one of another run that was named."""
        restored = self.checkpoints and self.checkpoints.restore(self.model.size)
        if not restored and self.others:
            restored = self.others.restore(self.model.size, self.settings.resume_step)
            if not restored:
                raise CheckpointError(f"{self.settings.resume_dir} has no good checkpoint to begin with")
        if restored:
            self.state = restored
            self.log.step = restored.step
            self.log.info(f"Resumed from checkpoint: step {restored.step}")
        self._reported = (self.state.step, time.monotonic(), self.ring.waited)

    def _step(self, step: int) -> tuple[float, float, int]:
        """Mean loss, norm of the gradient, and the signal to end by, if any rank got one."""
        settings, corpus = self.settings, self.corpus
        random = np.random.default_rng([settings.seed, step])
        starts = random.integers(0, len(corpus.training) - self.model.context, settings.global_batch)
        mine = starts[self.ring.rank :: self.ring.size]
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported once, by its loss
            sums = self._sums
            sums[-2] = self.model.gradient(
                self.state.parameters, *batch(corpus.training, self.model.context, mine), out=sums[:-2]
            )
            sums[-1] = self.signalled() > 0
            self.ring.all_reduce(sums)
            sums[:-1] /= settings.global_batch
            gradient, loss, ending = sums[:-2], float(sums[-2]), sums[-1] > 0
            norm = float(np.linalg.norm(gradient))
            if math.isfinite(loss):
                self.state.velocity[:] = MOMENTUM * self.state.velocity + gradient
                self.state.parameters[:] -= settings.learning_rate(step) * self.state.velocity
                self.state.step = step
        return loss, norm, (self.signalled() or 15) if ending else 0

    def _is_due(self, step: int) -> bool:
        every = self.settings.log_every * (1 if self.ring.rank == 0 else OTHERS_LOG_EVERY)
        return step % every == 0 or step == 1

    def _report(self, loss: float, norm: float) -> None:
        step, now = self.log.step, time.monotonic()
        before, then, waited = self._reported
        self._reported = (step, now, self.ring.waited)
        took, steps = max(now - then, 1e-9), max(step - before, 1)
        numbers = f"Loss: {loss:{'.6f' if loss < 1e6 else '.6e'}}, LR: {short(self.settings.learning_rate(step))}"
        if self.ring.rank == 0:
            rate = steps * self.settings.global_batch / took
            self.log.info(f"{numbers}, Grad Norm: {norm:.4g}, Tokens/s: {rate:.0f}")
            if self.events:
                told = {"train/loss": loss, "train/grad_norm": norm, "train/perplexity": _perplexity(loss)}
                self.events.write(step, told)
        else:
            idle = (self.ring.waited - waited) / steps
            self.log.info(f"{numbers}, Step Time: {took / steps * 1e3:.1f} ms, Waiting: {idle * 1e3:.1f} ms")

    def _save(self, loss: float) -> None:
        if self.checkpoints:
            folders = ("checkpoint_dir", "resume_dir")
            settings = {k: str(v) if k in folders and v else v for k, v in asdict(self.settings).items()}
            self.checkpoints.save(self.state, {"loss": loss, **settings})

    def _evaluate(self) -> None:
        text, context = self.corpus.held_out, self.model.context
        starts = np.arange(self.ring.rank, len(text) - context, self.ring.size)
        total = np.zeros(1)
        for first in range(0, len(starts), EVALUATED_AT_ONCE):
            part = batch(text, context, starts[first : first + EVALUATED_AT_ONCE])
            total += self.model.loss(self.state.parameters, *part)
        mean = self.ring.all_reduce(total)[0] / (len(text) - context)
        if self.ring.rank == 0:
            self.log.info(
                f"Done: {mean:.4f} nats per character on held-out text, "
                f"{self.corpus.entropy:.4f} by character frequency alone"
            )


def _perplexity(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
