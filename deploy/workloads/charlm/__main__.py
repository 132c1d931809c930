"""Command line: python -m deploy.workloads.charlm --help."""

import argparse
import math
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from deploy.workloads.charlm.checkpoint import CheckpointError
from deploy.workloads.charlm.events import EventFile
from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.rendezvous import RendezvousError, Terms, join
from deploy.workloads.charlm.ring import PeerLost
from deploy.workloads.charlm.training import Settings, Trainer
from deploy.workloads.charlm.world import World, WorldError

EXIT_FAILED = 1
EXIT_USAGE = 2
DIVERGE_AT = 150


class Interrupted(BaseException):
    """A signal to end arrived while there was nothing to save."""


class Signals:
    """SIGTERM and SIGINT: noted during training, which ends at the next step, and obeyed at once before it."""

    def __init__(self) -> None:
        self.received = 0
        self.training = False
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        if not self.training:
            raise Interrupted


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    log = Log(os.environ.get("MAAS_JOB_NAME") or "charlm", 0)
    signals = Signals()
    try:
        world = World.from_environment(os.environ)
        log = Log(world.job, world.rank)
        return _train(options, world, log, signals)
    except WorldError as error:
        log.error(f"Bad environment: {error}")
        return EXIT_USAGE
    except RendezvousError as error:
        log.error(f"Rendezvous failed: {error}")
    except PeerLost as error:
        log.error(f"All-reduce failed: {error}")
        if signals.received:  # all are being ended; the other was quicker
            return 128 + signals.received
    except CheckpointError as error:
        log.error(f"Checkpoint: {error}")
    except Interrupted:
        log.warn(f"{signal.Signals(signals.received).name} before the first step: nothing to save")
        return 128 + signals.received
    return EXIT_FAILED


def _train(options: argparse.Namespace, world: World, log: Log, signals: Signals) -> int:
    settings = _settings(options)
    if settings.global_batch < world.size:
        raise WorldError(f"--global-batch {settings.global_batch} leaves nothing to some of {world.size} ranks")
    where = f"master {world.master_host}:{world.master_port}" if world.size > 1 else "no peers"
    log.info(
        f"Starting: rank {world.rank} of {world.size}, {where}, host {socket.gethostname()}, process {os.getpid()}"
    )
    token = os.environ.get("MAAS_RENDEZVOUS_TOKEN", "")
    ring = join(world, Terms(token, settings.digest(), options.rendezvous_timeout, options.comm_timeout), log)
    events = EventFile(options.events_dir) if options.events_dir and world.rank == 0 else None
    trainer = Trainer(settings, ring, log, lambda: signals.received, events)
    log.info(
        f"Joined: rank {world.rank} of {world.size}, global batch {settings.global_batch}, "
        f"{settings.steps} steps, {trainer.model.size} parameters"
    )
    signals.training = True
    code = trainer.run()
    ring.close()
    return code


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        steps=options.steps,
        lr=options.lr,
        global_batch=options.global_batch,
        seed=options.seed,
        diverge=options.diverge,
        step_seconds=options.step_seconds,
        log_every=options.log_every,
        checkpoint_dir=options.checkpoint_dir,
        checkpoint_every=options.checkpoint_every,
        resume_dir=options.resume_dir,
        resume_step=options.resume_step,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="charlm", description="Train a small character language model.")
    add = parser.add_argument
    add("--steps", type=_count, default=1500, help="updates in all, those before a resume included (%(default)s)")
    add("--lr", type=_positive, default=0.1, help="highest learning rate (%(default)s)")
    add("--global-batch", type=_count, default=256, help="samples a step, over all ranks (%(default)s)")
    add("--seed", type=_natural, default=1, help="of first weights and data order (%(default)s)")
    add("--checkpoint-dir", type=Path, help="shared by all ranks; resumes from there; none: no checkpoints")
    add("--checkpoint-every", type=_count, default=100, metavar="STEPS", help="(%(default)s)")
    add(
        "--resume-dir",
        type=Path,
        default=os.environ.get("MAAS_RESUME_DIR") or None,
        metavar="DIR",
        help="checkpoints of another run, to begin with while there is none of this one (MAAS_RESUME_DIR)",
    )
    add(
        "--resume-step",
        type=_count,
        default=os.environ.get("MAAS_RESUME_STEP") or None,
        metavar="STEP",
        help="which of them (MAAS_RESUME_STEP)",
    )
    add("--events-dir", type=Path, metavar="DIR", help="where rank 0 writes a TensorBoard event file; none: no file")
    add("--log-every", type=_count, default=5, metavar="STEPS", help="rank 0; the others 10 times less (%(default)s)")
    add("--step-seconds", type=_seconds, default=0.0, help="least duration of a step, for watching (%(default)s)")
    add("--rendezvous-timeout", type=_positive, default=300.0, metavar="SECONDS", help="(%(default)s)")
    add("--comm-timeout", type=_positive, default=60.0, metavar="SECONDS", help="silence of a peer (%(default)s)")
    add(
        "--diverge",
        type=_count,
        nargs="?",
        const=DIVERGE_AT,
        metavar="STEP",
        help=f"let the learning rate run away from this step on ({DIVERGE_AT} if not said), until the loss is NaN",
    )
    return parser


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _count(text: str) -> int:
    if not (number := _natural(text)):
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of 0 or more")
    return number


def _positive(text: str) -> float:
    if not (number := _seconds(text)):
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
