"""Why a job failed, in words, with what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from redis.exceptions import RedisError

from apps.adapters.errors import OutsideError
from apps.jobs.domain.failing import Cause, End, Line, classed
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.streams import services as streams

LINES = 2000
"""The newest lines of the log in which causes are looked for."""

WORDS: dict[str, tuple[Promise, Promise]] = {
    "gpu_out_of_memory": (
        gettext_lazy("A GPU ran out of memory."),
        gettext_lazy("Make the batch per rank smaller, or take more ranks; activation checkpointing saves memory too."),
    ),
    "memory": (
        gettext_lazy("A rank used more memory than it asked for, and the system ended it."),
        gettext_lazy("Ask for more memory per rank, or let fewer data loader workers run."),
    ),
    "killed": (
        gettext_lazy("A rank was killed (signal 9)."),
        gettext_lazy("Most often by lack of memory: ask for more per rank. Else somebody or the node ended it."),
    ),
    "evicted": (
        gettext_lazy("The cluster took a rank off its node."),
        gettext_lazy("Clone the job to run it again; it goes on where its program finds a checkpoint."),
    ),
    "disk_full": (
        gettext_lazy("A disk is full."),
        gettext_lazy("Keep fewer checkpoints, and write nothing large outside /checkpoints."),
    ),
    "not_found": (
        gettext_lazy("The command is not in the image."),
        gettext_lazy("Check its name and the image's PATH, then clone the job."),
    ),
    "not_executable": (
        gettext_lazy("The command may not be executed."),
        gettext_lazy("Give the file the right to be executed in the image, or start it by its interpreter."),
    ),
    "module_missing": (
        gettext_lazy("A Python module is not in the image."),
        gettext_lazy("Install it in the image, then clone the job with that."),
    ),
    "file_missing": (
        gettext_lazy("A file is not where the program looks for it."),
        gettext_lazy("Check paths: a job sees its image, /checkpoints, /resume and its secrets."),
    ),
    "loss": (
        gettext_lazy("The loss became no number, and the program ended itself."),
        gettext_lazy("Lower the learning rate and go on from a checkpoint of before; see the loss watch."),
    ),
    "cuda_error": (
        gettext_lazy("CUDA reported an error."),
        gettext_lazy("Run it once with CUDA_LAUNCH_BLOCKING=1, which tells where. On one node only? Tell an operator."),
    ),
    "segfault": (
        gettext_lazy("A rank crashed (signal 11)."),
        gettext_lazy("Usually a library that does not fit driver or image; PYTHONFAULTHANDLER=1 shows where."),
    ),
    "nccl_timeout": (
        gettext_lazy("Ranks waited for each other until NCCL gave up."),
        gettext_lazy("Look for the rank that fell silent first: the others followed. NCCL_DEBUG=INFO tells more."),
    ),
    "ssh_permission_denied": (
        gettext_lazy("SSH between the ranks was refused."),
        gettext_lazy("The portal's jobs need no SSH: every rank has RANK, WORLD_SIZE and MASTER_ADDR."),
    ),
    "address_in_use": (
        gettext_lazy("A port was taken."),
        gettext_lazy("Use MASTER_PORT as it is given, once; two launchers in one rank take it from each other."),
    ),
    "worker_failed": (
        gettext_lazy("The launcher says that one of its workers failed."),
        gettext_lazy("Its own last lines, above, say why."),
    ),
}  # fmt: skip

XIDS: dict[int, tuple[Promise, Promise]] = {
    31: (
        gettext_lazy("A program reached for GPU memory that is not its own (Xid 31)."),
        gettext_lazy("Usually the program's fault: look for an index out of range in a kernel of its own."),
    ),
    43: (
        gettext_lazy("A GPU stopped working on a program (Xid 43)."),
        gettext_lazy("Usually the program's fault; the GPU itself is well."),
    ),
    48: (
        gettext_lazy("A GPU's memory had an error that cannot be corrected (Xid 48)."),
        gettext_lazy("Tell a platform operator which node: the GPU must be reset or replaced. Clone the job."),
    ),
    63: (
        gettext_lazy("A GPU has taken a bad piece of its memory out of use (Xid 63)."),
        gettext_lazy("Tell a platform operator: the GPU should be reset soon."),
    ),
    64: (
        gettext_lazy("A GPU could not take a bad piece of its memory out of use (Xid 64)."),
        gettext_lazy("Tell a platform operator which node: the GPU must be replaced."),
    ),
    79: (
        gettext_lazy("A GPU has fallen off the bus (Xid 79)."),
        gettext_lazy("Tell a platform operator which node: it must take no work meanwhile. Clone the job."),
    ),
}


@dataclass(frozen=True)
class Told:
    """A cause in words: what happened, what to do, and where that was seen."""

    cause: Cause
    text: str
    advice: str
    where: str


def causes_of(job: Job) -> list[Told]:
    """What the end of a failed job is put down to, the likeliest first; nothing for any other job."""
    if job.state is not Phase.FAILED:
        return []
    ranks = JobRank.objects.filter(job=job, attempt=job.attempt).order_by("rank")
    ends = [End(one.rank, one.node, one.exit_code, f"{one.end_reason} {one.message}".strip()) for one in ranks]
    return [_in_words(cause) for cause in classed(_lines(job), ends)]


def _lines(job: Job) -> list[Line]:
    try:
        frames = streams.lines(job.topic, streams.Question(limit=LINES))["frames"]
    except (RedisError, OutsideError):
        return []
    last = [frame for frame in frames if frame["src"].attempt == job.attempt]
    return [Line(line.at, line.rank, line.text) for frame in last for line in frame["lines"]]


def _in_words(cause: Cause) -> Told:
    if cause.xid is not None:
        other = gettext_lazy("A GPU's driver reported an error."), gettext_lazy("Tell a platform operator which node.")
        text, advice = XIDS.get(cause.xid, other)
        known = str(text) if cause.xid in XIDS else f"{text} (Xid {cause.xid})"
    else:
        text, advice = WORDS[cause.code]
        known = str(text)
    where = ""
    if cause.rank is not None:
        where = _("rank {rank} on {node}") if cause.node else _("rank {rank}")
    return Told(cause, known, str(advice), where.format(rank=cause.rank, node=cause.node))


def told_plainly(found: list[Told]) -> list[dict[str, Any]]:
    """The same as JSON, for programs."""
    return [
        {
            "code": told.cause.code,
            "xid": told.cause.xid,
            "rank": told.cause.rank,
            "node": told.cause.node,
            "line": told.cause.line,
            "count": told.cause.count,
            "text": told.text,
            "advice": told.advice,
        }
        for told in found
    ]
