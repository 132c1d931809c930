"""The readers of logs: with some that operators added, and the form of one."""

from __future__ import annotations

from typing import Any

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.jobs.services.readers import save_reader
from tests import factories

PAGES: dict[str, tuple[str, str]] = {
    "readers": ("data-scientist", "/log-readers/"),
    "reader": ("platform-operator", "/log-readers/{log_reader}"),
}


def seed(world: factories.World, _me: User) -> dict[str, Any]:
    operator = world.people[Role.OPERATOR].actor()
    save_reader(
        operator, name="Speech team's trainer", pattern=r"upd (?P<step>\d+) \| ctc=(?P<loss>\S+) \| wer=(?P<wer>\S+)%"
    )
    one = save_reader(
        operator,
        name="PaddlePaddle",
        pattern=r".*global_step: (?P<step>\d+), loss: (?P<loss>\S+), learning_rate: (?P<lr>\S+).*",
        is_on=False,
    )
    return {"log_reader": one.pk}
