"""Settings and wiring. Nobody imports this package; Django, Celery and uvicorn are given its names."""

from maasportal.celery import app as celery_app

__all__ = ["celery_app"]
