"""What a job can be started from. A template says which fields it asks for and which container they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.jobs.domain.fields import Command, Decimal, Environment, Field, Image, Integer
from apps.jobs.domain.losswatch.settings import ACTIONS, GENTLE

CHECKPOINTS = "/checkpoints"
"""Where the job's own volume is mounted in every rank."""
RESUME = "/resume"
"""Where the volume of the job is that it goes on from, to be read only."""


@dataclass(frozen=True)
class Container:
    """The image and command each rank runs, with the environment people asked for."""

    image: str
    command: list[str]
    env: dict[str, str]


@dataclass(frozen=True)
class Template:
    """`fields` in the order the form shows them; `build` turns their read values into a container.

    `steps_field` names the parameter that says how many steps the job means to make, for progress; `rate_field` the one
    that is its learning rate. `data` is what every job of the template trains on, by name and SHA-256 digest, where
    that is known. `watch_actions` are what the loss watch does unless somebody says otherwise. `event_files`: whether
    what runs may write TensorBoard event files, as far as is known.
    """

    key: str
    fields: Mapping[str, Field]
    build: Callable[[Mapping[str, Any]], Container]
    icon: str
    steps_field: str = ""
    rate_field: str = ""
    data: tuple[str, str] | None = None
    watch_actions: tuple[str, ...] = GENTLE
    event_files: bool = True


def _charlm(values: Mapping[str, Any]) -> Container:
    arguments = {
        "--steps": values["steps"],
        "--lr": values["learning_rate"],
        "--global-batch": values["global_batch"],
        "--checkpoint-every": values["checkpoint_every"],
        "--seed": values["seed"],
        "--step-seconds": values["step_seconds"],
        "--checkpoint-dir": CHECKPOINTS,
    }
    flags = [part for flag, value in arguments.items() for part in (flag, str(value))]
    return Container("maas/charlm:1", ["python", "-m", "deploy.workloads.charlm", *flags], {})


def _torchrun(values: Mapping[str, Any]) -> Container:
    # The pytorch plugin's WORLD_SIZE and RANK count pods, which are torchrun's nodes.
    launch = [
        "torchrun",
        "--nnodes=$(WORLD_SIZE)",
        "--node_rank=$(RANK)",
        f"--nproc_per_node={values['processes']}",
        "--master_addr=$(MASTER_ADDR)",
        "--master_port=$(MASTER_PORT)",
    ]
    return Container(values["image"], [*launch, *values["script"]], values["environment"])


def _command(values: Mapping[str, Any]) -> Container:
    return Container(values["image"], values["command"], values["environment"])


TEMPLATES: dict[str, Template] = {
    "charlm": Template(
        "charlm",
        {
            "steps": Integer(1, 1_000_000, 1500),
            "learning_rate": Decimal(1e-8, 100, 0.1),
            "global_batch": Integer(1, 65_536, 256),
            "checkpoint_every": Integer(1, 1_000_000, 100),
            "seed": Integer(0, 2**31 - 1, 1),
            "step_seconds": Decimal(0, 60, 0.05),
        },
        _charlm,
        icon="letter-case",
        steps_field="steps",
        rate_field="learning_rate",
        watch_actions=ACTIONS,
        event_files=False,
        data=("charlm text", "ac50cd10f49f818cff6933e288df61508a2037feaf63a7d089ed38dd46fdf415"),
    ),
    "torchrun": Template(
        "torchrun",
        {
            "image": Image(),
            "script": Command(),
            "processes": Integer(1, 16, 1),
            "environment": Environment(),
        },
        _torchrun,
        icon="brand-python",
    ),
    "command": Template(
        "command",
        {"image": Image(), "command": Command(), "environment": Environment()},
        _command,
        icon="terminal-2",
    ),
}


def may_write_events(document: Mapping[str, Any]) -> bool:
    """Whether what a document runs may write TensorBoard event files, as far as is known."""
    template = TEMPLATES.get(str(document.get("template", "")))
    return template is not None and template.event_files
