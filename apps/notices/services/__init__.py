"""Telling people, and asking what waits for them."""

from apps.notices.domain import Kind, Waiting
from apps.notices.services.inbox import mark_all_read, mark_read, unread_count
from apps.notices.services.telling import forget_old, kind, kinds, sentence, tell, topic_of
from apps.notices.services.waiting import register_waiting, waiting_for

__all__ = [
    "Kind",
    "Waiting",
    "forget_old",
    "kind",
    "kinds",
    "mark_all_read",
    "mark_read",
    "register_waiting",
    "sentence",
    "tell",
    "topic_of",
    "unread_count",
    "waiting_for",
]
