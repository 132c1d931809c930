"""The loss watch of a job as pages and REST show it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.jobs.domain.losswatch import Action, Finding, Settings
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Job
from apps.jobs.services import loss_words
from apps.jobs.services.checkpoints import Saved, checkpoints_of, watch_of
from apps.jobs.services.losswatch import settings_of
from apps.jobs.services.messages import FIELDS
from apps.jobs.services.predicting import PLAN, Prediction


@dataclass(frozen=True)
class Watched:
    """`sentence` says what was found, or "" for nothing, `before` what was good until then; `alerts` are pairs of what
    was noticed and what to do; `offer` is the checkpoint to go on from, None for the beginning; `offers` whether it
    is."""

    state: str
    since: datetime | None
    rule: str
    step: int | None
    sentence: str
    before: str
    done: list[str]
    alerts: list[tuple[str, str]]
    checkpoints: list[Saved]
    offers: bool
    knows_rate: bool
    suspended: bool
    settings: Settings
    predicted: Prediction | None

    @property
    def offer(self) -> Saved | None:
        return next((saved for saved in self.checkpoints if saved.good), None)

    @property
    def rules(self) -> list[tuple[Any, str]]:
        """The settings by their names."""
        document = self.settings.document()
        document["watch"] = str(loss_words.preset_name(document["watch"]))
        document["watch_actions"] = ", ".join(str(loss_words.ACTIONS[key]) for key in document["watch_actions"])
        return [(FIELDS[key][0], "" if value is None else str(value)) for key, value in document.items()]


def watched(job: Job) -> Watched:
    """What the watch made of a job so far."""
    row = watch_of(job)
    settings, found = settings_of(job, row), Finding.load(row.finding) if row.finding else None
    verdict = row.verdict is not None
    return Watched(
        state=row.state,
        since=row.since,
        rule=found.rule if found else "",
        step=found.step if found else None,
        sentence=loss_words.finding_text(row.finding) if row.finding else "",
        before=loss_words.since_text(found) if found else "",
        done=[text for done in row.done if (text := loss_words.done_text(done, row.good_step))],
        alerts=[(loss_words.finding_text(alert), str(loss_words.NEXT.get(alert["rule"], ""))) for alert in row.alerts],
        checkpoints=checkpoints_of(job),
        offers=verdict and Action.OFFER in settings.actions,
        knows_rate=bool(TEMPLATES[job.document["template"]].rate_field),
        suspended=verdict and job.reason == "suspended.watch",
        settings=settings,
        predicted=Prediction.load(row.snapshot.get(PLAN)),
    )


def told_plainly(told: Watched) -> dict[str, Any]:
    """The same as JSON, for programs."""
    return {
        "state": told.state,
        "since": told.since,
        "rule": told.rule,
        "step": told.step,
        "found": " ".join(filter(None, (told.sentence, told.before))),
        "done": told.done,
        "alerts": [text for text, _advice in told.alerts],
        "settings": told.settings.document(),
        "predicted": told.predicted.dump() if told.predicted else None,
        "checkpoints": [
            {"step": saved.step, "attempt": saved.attempt, "saved_at": saved.at, "quarantined": not saved.good}
            for saved in told.checkpoints
        ],
    }
