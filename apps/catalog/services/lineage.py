"""Where a version comes from and what it serves, as columns of boxes with lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.types import Actor, Permission
from apps.catalog.models import ModelVersion
from apps.catalog.services.uses import Use

MOST_USES = 4


@dataclass(frozen=True)
class Box:
    icon: str
    title: str
    text: str = ""
    url: str = ""
    mine: bool = False
    """The version that is looked at."""


@dataclass(frozen=True)
class Column:
    """Boxes one below the other; `lines` are SVG paths to the next column, in a square of 100 by 100."""

    title: str
    boxes: list[Box]
    lines: list[str]


def picture(actor: Actor, version: ModelVersion, uses: Sequence[Use]) -> list[Column]:
    """From data and code over the job to the version that its checkpoint became, and what serves it."""
    columns = [
        (_("made from"), _sources(version.lineage)),
        (_("by job"), [_job(actor, version)]),
        (_("version"), [Box("tag", f"v{version.number}", _checkpoint(version.lineage), mine=True)]),
        (_("used by"), used_by(actor, uses) or [Box("circle-dashed", _("nothing yet"))]),
    ]
    found = []
    for index, (title, boxes) in enumerate(columns):
        following = len(columns[index + 1][1]) if index + 1 < len(columns) else 0
        found.append(Column(title, boxes, _lines(len(boxes), following)))
    return found


def used_by(actor: Actor, uses: Sequence[Use]) -> list[Box]:
    """What is alive of it: by name where the reader may see it, the others counted."""
    seen = actor.tenants_where(Permission.DEPLOYMENT_VIEW)
    mine = [use for use in uses if seen is None or use.tenant_id in seen]
    boxes = [Box("rocket", use.name, use.state, use.url) for use in mine[:MOST_USES]]
    more, foreign = len(mine) - len(boxes), len(uses) - len(mine)
    if more:
        boxes.append(Box("dots", ngettext("{n} more", "{n} more", more).format(n=formats.number_format(more))))
    if foreign:
        words = ngettext("{n} of another tenant", "{n} of other tenants", foreign)
        boxes.append(Box("rocket", words.format(n=formats.number_format(foreign))))
    return boxes


def _sources(lineage: dict[str, Any]) -> list[Box]:
    data, code = lineage.get("data", {}), lineage.get("code", {})
    digest = str(data.get("digest") or "")
    about = _("digest {digest}").format(digest=digest[:12]) if digest else _("its digest is not known")
    return [
        Box("database", str(data.get("name") or _("data of the job")), about),
        Box("box", str(code.get("image") or "–"), " ".join(map(str, code.get("command", [])))[:60]),
    ]


def _job(actor: Actor, version: ModelVersion) -> Box:
    job = version.lineage.get("job", {})
    attempt = _("attempt {n}").format(n=job.get("attempt", 1))
    visible = actor.tenants_where(Permission.JOB_VIEW)
    link = visible is None or version.tenant_id in visible
    return Box("player-play", str(job.get("name") or "–"), attempt, f"/jobs/{job.get('id')}/" if link else "")


def _checkpoint(lineage: dict[str, Any]) -> str:
    found = lineage.get("checkpoint", {})
    if not found.get("name"):
        return _("checkpoint not found yet")
    step = found.get("step")
    if step is None:
        return str(found["name"])
    return _("step {n}").format(n=formats.number_format(step, force_grouping=True))


def _lines(here: int, there: int) -> list[str]:
    found = []
    for a in range(here):
        for b in range(there):
            y, z = 100 * (a + 0.5) / here, 100 * (b + 0.5) / there
            found.append(f"M0 {y:.1f}C50 {y:.1f} 50 {z:.1f} 100 {z:.1f}")
    return found
