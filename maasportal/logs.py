"""Structured logs: one JSON object a line (or readable text), each with the id of the request that caused it."""

from __future__ import annotations

from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def logging_config(*, as_json: bool) -> dict[str, Any]:
    """Configure structlog and return Django's LOGGING, so that both kinds of loggers end in the same lines."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    # Its own way of showing exceptions would print local variables, and with them what a person typed.
    text = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    renderer: Any = structlog.processors.JSONRenderer() if as_json else text
    tail: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    tail += [structlog.processors.format_exc_info] if as_json else []
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [*tail, renderer],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "httpx": {"level": "WARNING"},
            "urllib3": {"level": "WARNING"},
            "kombu": {"level": "WARNING"},
            "uvicorn.access": {"level": "WARNING"},
        },
    }
