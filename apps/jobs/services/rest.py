"""What REST answers where a use-case says no."""

from __future__ import annotations

from rest_framework import exceptions, status

from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.services.messages import problem_text


class Busy(exceptions.APIException):
    """409: the job is in a phase in which this cannot be done."""

    status_code = status.HTTP_409_CONFLICT


def errors_of(invalid: InvalidDocument) -> dict[str, list[str]]:
    """Every problem in words, by field."""
    errors: dict[str, list[str]] = {}
    for problem in invalid.problems:
        errors.setdefault(problem.field or "document", []).append(problem_text(problem))
    return errors
