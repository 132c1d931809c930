"""Codes of the domain in words for people: what happened and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _

from apps.jobs.domain.phases import Phase
from apps.jobs.domain.problems import Problem

PHASES: dict[Phase, Promise] = {
    Phase.SUBMITTED: _("Submitted"),
    Phase.WAITING: _("Waiting"),
    Phase.STARTING: _("Starting"),
    Phase.RUNNING: _("Running"),
    Phase.RESTARTING: _("Restarting"),
    Phase.SUSPENDING: _("Suspending"),
    Phase.SUSPENDED: _("Suspended"),
    Phase.STOPPING: _("Stopping"),
    Phase.STOPPED: _("Stopped"),
    Phase.SUCCEEDED: _("Succeeded"),
    Phase.FAILED: _("Failed"),
}

REASONS: dict[str, Promise] = {
    "": _("Nothing to report."),
    "waiting.cluster": _("The cluster does not answer. The job is kept and goes in as soon as it is back."),
    "waiting.secrets": _(
        "The secrets server does not answer, so the cluster cannot be asked. The job is kept and goes in by itself."
    ),
    "waiting.right": _(
        "The portal's account in the cluster lacks a right, which a platform operator must give it. The job is kept and"
        " goes in by itself."
    ),
    "waiting.account": _(
        "The tenant's account in the cluster is missing or lacks a right. Restore the tenant's objects on its page, and"
        " this goes on by itself; if that changes nothing, tell a platform operator."
    ),
    "waiting.placement": _("The tenant's place in the cluster is still being prepared."),
    "waiting.maintenance": _("The cluster is in maintenance. The job is kept and goes in when that ends."),
    "waiting.scheduler": _("The scheduler has not looked at the job yet."),
    "waiting.queue-limit": _(
        "The queue's limit leaves too few free GPUs for all ranks at once. It starts when other jobs of the queue end."
    ),
    "waiting.cluster-full": _(
        "The cluster has too few free GPUs for all ranks at once. It starts by itself when other jobs end."
    ),
    "waiting.nodes": _("No set of nodes has room for all ranks at once: {text}"),
    "waiting.quota": _("The namespace's quota refuses its pods: {text}"),
    "waiting.pods": _("The cluster refuses to make its pods: {text}"),
    "waiting.queue-never": _(
        "The job asks for {asked}, and its queue {queue} may have at most {limit}. It cannot start as it is: clone it"
        " with fewer, or ask for a larger quota."
    ),
    "waiting.fleet-never": _(
        "The job asks for {asked}, and all nodes of the cluster together have {most}. It cannot start as it is:"
        " clone it with fewer."
    ),
    "waiting.node-never": _(
        "A rank asks for {asked}, and the largest node has {most}. It cannot start as it is: clone it with smaller"
        " ranks."
    ),
    "waiting.queue-closed": _(
        "The queue {queue} is closed and lets nothing in. A platform operator must open it; the job is kept."
    ),
    "waiting.queue-full": _(
        "The queue {queue} has {free} left of at most {limit}, and the job asks for {asked}; missing: {short}. It"
        " starts by itself when other work of the queue ends."
    ),
    "waiting.queue-unnamed": _(
        "The scheduler keeps the job out for the limit of its queue {queue}, though by the portal's count there is"
        " room. The limit does not name {unnamed}, which some versions of Volcano take for zero: a platform operator"
        " should name them in the queue."
    ),
    "waiting.nodes-out": _(
        "The job asks for {asked}, and the nodes that take work have {limit}; {most} lie on nodes that are cordoned,"
        " kept back or not ready. It starts by itself when they are back."
    ),
    "waiting.fleet-full": _(
        "Of {limit} in the cluster {free} are free, and the job asks for {asked}; missing: {short}. It starts by itself"
        " when other work ends."
    ),
    "waiting.pieces": _(
        "{free} are free, but in pieces: {places} of {ranks} ranks find a node with {each} free. It starts by itself"
        " when there is room for all of them at once."
    ),
    "waiting.node-short": _(
        "Nodes with free GPUs lack something else: a rank asks for {asked} besides, and {places} of {ranks} ranks find"
        " room. It starts by itself when other work ends; smaller ranks may start now."
    ),
    "waiting.volume": _("A volume the job needs is missing: {text}"),
    "waiting.plugin": _("Volcano could not prepare the job: {text}"),
    "starting.placed": _("Every rank has a node; the containers are being started."),
    "starting.stranded": _(
        "{placed} of {ranks} ranks have a node and wait for the others, which have none. Until all are there, nothing"
        " is computed. Should it last, suspend the job and resume it: it gives its nodes back and queues as a whole."
    ),
    "starting.image": _(
        "The image of rank {rank} cannot be pulled. Check its name, then stop this job and clone it with the right one."
    ),
    "starting.containers": _("Rank {rank} is not running yet: {text}"),
    "failed.exit": _("Rank {rank} ended with exit code {code}. Its last log lines say why."),
    "failed.wordless": _(
        "Rank {rank} ended with exit code {code}, and the log holds no line of its last run: it ended before it wrote"
        " one, or the lines are no longer kept. Check its image and command; the raw pod state is under Ranks."
    ),
    "failed.cluster": _("The cluster ended the job and gave no exit code. The history below has the order of events."),
    "failed.disappeared": _(
        "Somebody deleted the job's objects in the cluster outside the portal. Clone it to run it again."
    ),
    "failed.refused": _("The cluster refused the job: {text}. Change it in a clone and submit again."),
    "failed.secret": _(
        "The secret {name} was removed before the job went in. Enter it under Secrets again, then clone the job."
    ),
    "failed.conflict": _("The cluster already holds a foreign object under this job's name. Clone the job."),
    "stopped.by": _("Stopped by {name}."),
    "suspended.by": _("Suspended by {name}. It keeps its checkpoints and holds no GPU."),
    "suspended.watch": _("Suspended by the loss watch. It keeps its checkpoints and holds no GPU."),
}

RELEASES: dict[str, Promise] = {
    "waiting.queue-never": _("The limit of the queue {queue} is raised by {short} or more"),
    "waiting.fleet-never": _("Nodes with {asked} in all are there"),
    "waiting.node-never": _("A node that offers {asked} is there"),
    "waiting.queue-closed": _("A platform operator opens the queue {queue}"),
    "waiting.queue-full": _(
        "Work of the queue {queue} ends that holds {short} in all, or its limit is raised by {short}"
    ),
    "waiting.queue-unnamed": _("A platform operator names {unnamed} in the limit of the queue {queue}"),
    "waiting.nodes-out": _("Nodes that are cordoned, kept back or not ready take work again"),
    "waiting.fleet-full": _("Work in the cluster ends that holds {short} in all, whoever has it"),
    "waiting.pieces": _("Other work ends so that {ranks} ranks find {each} on one node each"),
    "waiting.node-short": _("Other work ends so that nodes with free GPUs have {asked} left for each rank"),
    "waiting.quota": _("Other work of the tenant ends, or its quota is raised"),
}
"""What would let a waiting job start, by what is in its way."""

SHORT: dict[str, Promise] = {
    "waiting.cluster": _("Waiting for the cluster"),
    "waiting.secrets": _("Waiting for the secrets server"),
    "waiting.placement": _("Waiting for a place"),
    "waiting.maintenance": _("Waiting for the end of a maintenance"),
    "waiting.scheduler": _("Waiting for the scheduler"),
    "waiting.queue-limit": _("Waiting for quota"),
    "waiting.quota": _("Waiting for quota"),
    "waiting.cluster-full": _("Waiting for GPUs"),
    "waiting.nodes": _("Waiting for GPUs"),
    "waiting.queue-never": _("Cannot start as it is"),
    "waiting.fleet-never": _("Cannot start as it is"),
    "waiting.node-never": _("Cannot start as it is"),
    "waiting.queue-closed": _("Waiting for the queue"),
    "waiting.queue-full": _("Waiting for quota"),
    "waiting.queue-unnamed": _("Waiting for quota"),
    "waiting.nodes-out": _("Waiting for nodes"),
    "waiting.fleet-full": _("Waiting for GPUs"),
    "waiting.pieces": _("Waiting for GPUs"),
    "waiting.node-short": _("Waiting for nodes"),
    "waiting.volume": _("Waiting for a volume"),
    "failed.exit": _("Failed: exit code {code}"),
    "failed.refused": _("Failed: refused by the cluster"),
    "failed.secret": _("Failed: a secret is gone"),
    "failed.disappeared": _("Failed: deleted in the cluster"),
    "failed.conflict": _("Failed: name taken in the cluster"),
    "stopped.by": _("Stopped by {name}"),
    "suspended.by": _("Suspended by {name}"),
    "suspended.watch": _("Suspended: diverged"),
}
"""The same in as few words as a list has room for."""

PROBLEMS: dict[str, Promise] = {
    "required": _("Fill this in."),
    "not-whole": _("“{value}” is not a whole number."),
    "not-number": _("“{value}” is not a number."),
    "out-of-range": _("“{value}” is out of range: choose from {minimum} to {maximum}."),
    "not-text": _("This must be text."),
    "too-long": _("This has {length} characters; at most {maximum} fit."),
    "unprintable": _("Remove line breaks and other characters that cannot be shown."),
    "name-characters": _("A name may not contain / \\ < or >."),
    "not-image": _(
        "“{value}” is not an image reference. It reads like team/trainer:1.4, in lower case, without spaces."
    ),
    "unclosed-quote": _("A quotation mark is opened and never closed."),
    "env-line": _("“{line}” is not of the form NAME=value."),
    "env-name": _("“{name}” cannot name a variable: use letters, digits and _, and do not begin with a digit."),
    "env-secret": _(
        "“{name}” looks like a secret. Variables can be read by everybody in the tenant. Enter it under Secrets and"
        " choose it here: the job finds it as a file."
    ),
    "pasted-key": _(
        "This holds a private key. Enter it under Secrets and choose it here: the job finds it as a file, and nobody"
        " reads it in the document."
    ),
    "pasted-token": _(
        "This holds an access token. Enter it under Secrets and choose it here: the job finds it as a file, and nobody"
        " reads it in the document."
    ),
    "pasted-password": _(
        "This seems to hold a password or a key. Enter it under Secrets and choose it here: the job finds it as a file,"
        " and nobody reads it in the document."
    ),
    "pasted-removed": _(
        "A secret stood here and was not kept. Enter it under Secrets, choose it here, and take out what is left of it."
    ),
    "not-names": _("Name secrets of the tenant, such as hf-token."),
    "not-metric": _("“{line}” is not series=metric, such as loss=train_loss."),
    "too-many-metrics": _("At most {maximum} metrics of a job are read."),
    "metrics-step": _("One of them must be step=…: the metric that says to which step the others belong."),
    "too-many-secrets": _("A job can be given at most {maximum} secrets."),
    "unknown-secret": _("The tenant has no secret “{name}”. Enter it under Secrets, or leave it out."),
    "not-choice": _("“{value}” is not one of: {options}."),
    "not-checkpoint": _("“{value}” names no checkpoint: write the id of a job, @ and a step."),
    "unknown-checkpoint": _("The tenant has no job {value}. Name one of its jobs, or leave this empty."),
    "checkpoint-elsewhere": _("The checkpoints of {name} are in another cluster, where this job will not run."),
    "quarantined-checkpoint": _(
        "The checkpoint of step {step} of {name} is in quarantine: it was saved after the loss watch's last good step."
        " Choose an older one."
    ),
    "unknown-template": _("There is no template “{value}”."),
    "unknown-field": _("This template has no such field."),
    "batch-ranks": _("A batch of {batch} cannot be shared evenly by {ranks} ranks: choose a multiple of {ranks}."),
    "too-many-gpus": _(
        "{gpus} GPUs are more than the tenant's limit of {limit}. Take fewer, or ask for more under “Quota and usage”."
    ),
    "no-room": _(
        "{gpus} GPUs are more than the {left} left of the tenant's limit of {limit}. Wait until other work ends,"
        " take fewer, or ask for more under “Quota and usage”."
    ),
    "no-placement": _("This tenant has no place in a cluster yet. Ask a platform operator to provision it."),
    "maintenance": _("{cluster} is in maintenance and takes nothing new: {reason}"),
}

FIELDS: dict[str, tuple[Promise, Promise]] = {
    "name": (_("Name"), _("What people read. The objects in the cluster are named after the job's id.")),
    "note": (_("Note to the team"), _("Why this run, in a sentence. Optional.")),
    "steps": (_("Steps"), _("Optimizer steps to make in all.")),
    "learning_rate": (_("Learning rate"), _("0.1 learns well; 10 diverges, to see what that looks like.")),
    "global_batch": (_("Global batch"), _("Samples in a step over all ranks.")),
    "checkpoint_every": (_("Checkpoint every"), _("Steps between checkpoints; a restart loses at most these.")),
    "seed": (_("Seed"), _("The same seed gives the same run.")),
    "step_seconds": (_("Least time per step"), _("Seconds a step takes at least, so that there is time to watch.")),
    "image": (_("Image"), _("Any image with torchrun in it, such as team/trainer:1.4.")),
    "command": (
        _("Command"),
        _("What every rank runs, such as python train.py. RANK, WORLD_SIZE and MASTER_ADDR are set."),
    ),
    "script": (_("Script and arguments"), _("What torchrun starts, such as train.py --config base.yaml.")),
    "processes": (_("Processes per rank"), _("torchrun's nproc_per_node, usually one for each GPU.")),
    "environment": (
        _("Environment"),
        _("One NAME=value a line. No secrets here: everybody in the tenant can read them."),
    ),
    "secrets": (_("Secrets"), _("Each becomes a folder of files in every rank: /run/secrets/maas/<name>/<key>.")),
    "metrics": (
        _("Metrics for Prometheus"),
        _("What ranks expose, one series=metric a line, such as step=train_step and loss=train_loss. Optional."),
    ),
    "resume_from": (
        _("Begin with a checkpoint"),
        _("Of another job of the tenant, as ID@STEP; found under /resume, its step in MAAS_RESUME_STEP. Optional."),
    ),
    "ranks": (_("Number of ranks"), _("Pods that run together. All of them start, or none.")),
    "gpus_per_rank": (_("GPUs per rank"), _("Whole GPUs in one pod.")),
    "cpus_per_rank": (_("CPU cores per rank"), _("0.5 is half a core.")),
    "memory_gib_per_rank": (_("Memory per rank"), _("In GiB.")),
    "attempts": (_("Attempts"), _("How often the job may run in all; a restart or a resume takes one.")),
    "grace_seconds": (_("Grace"), _("Seconds a rank gets to save a checkpoint when it is told to end.")),
}

FIELDS |= {
    "watch": (_("Rules"), _("When a run counts as diverged. A loss that is no number always does.")),
    "watch_factor": (_("Times as high"), _("As the mean of the last good losses. Empty: as the rules have it.")),
    "watch_sigmas": (_("Deviations above the mean"), _("Of the last 100 good losses. Empty: as the rules have it.")),
    "watch_limit": (_("Highest loss"), _("A loss above it trips at once. Empty: as the rules have it.")),
    "watch_run": (_("In a row"), _("So many abnormal steps of the log trip. Empty: as the rules have it.")),
    "watch_actions": (_("What is done"), _("A job is suspended like by hand: its ranks get their grace to save.")),
}

TEMPLATES: dict[str, tuple[Promise, Promise]] = {
    "charlm": (
        _("Character language model"),
        _("A small model trained from scratch by several ranks. Nothing to prepare; see a loss curve within a minute."),
    ),
    "torchrun": (
        _("PyTorch with torchrun"),
        _("Your own image and script, started on every rank with its rank, world size and master address filled in."),
    ),
    "command": (
        _("Any command"),
        _("Your own image and command, as they are, with rank, world size and master address in variables."),
    ),
}


def phase_name(value: str) -> Promise | str:
    """A phase in words."""
    return {phase.value: word for phase, word in PHASES.items()}.get(value, value)


def template_name(key: str) -> Promise | str:
    """A template in words."""
    return TEMPLATES[key][0] if key in TEMPLATES else key


def reason_text(code: str, params: Mapping[str, Any]) -> str:
    """A reason as a sentence in the reader's language. A code without words is shown as it is."""
    return _filled(str(REASONS.get(code, code)), _counted(params))


def release_text(code: str, params: Mapping[str, Any]) -> str:
    """What would put an end to a reason to wait; "" where nobody can say."""
    return _filled(str(RELEASES.get(code, "")), _counted(params))


def amount_text(resource: str, value: int) -> str:
    """ "16 GPUs", "4 CPU cores", "64 GiB of memory": an amount; of cpu in thousandths, of memory in bytes."""
    if resource == "cpu":
        cores = number_format(value / 1000 if value % 1000 else value // 1000)
        return ngettext("{n} CPU core", "{n} CPU cores", value // 1000 if value >= 1000 else 1).format(n=cores)
    if resource == "memory":
        return gettext("{n} GiB of memory").format(n=number_format(value / (1 << 30), 1))
    return ngettext("{n} GPU", "{n} GPUs", value).format(n=number_format(value))


_AMOUNTS = ("asked", "free", "limit", "most", "short", "used")


def _counted(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Numbers of a resource as phrases with their unit."""
    if "resource" not in params:
        if "unnamed" in params:
            return {**params, "unnamed": pgettext("between the parts of a list", ", ").join(params["unnamed"])}
        return params
    phrases = {key: amount_text(params["resource"], params[key]) for key in _AMOUNTS if key in params}
    return {**params, **phrases, "each": amount_text(params["accelerator"], params["each"])}


def problem_text(problem: Problem) -> str:
    """A problem of a field as a sentence in the reader's language."""
    return _filled(str(PROBLEMS.get(problem.code, problem.code)), problem.params)


def _filled(text: str, params: Mapping[str, Any]) -> str:
    return text.format_map({key: str(value) for key, value in params.items()}) if params else text
