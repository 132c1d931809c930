"""Telling people, and asking what waits for them."""

from apps.notices.domain import Kind, Waiting
from apps.notices.services.inbox import Wish, inbox, mark_all_read, mark_read, unread_count
from apps.notices.services.telling import Line, kind, kinds, lines, register_words, sentence, tell, topic_of
from apps.notices.services.waiting import first, register_waiting, waiting_for

__all__ = [
    "Kind",
    "Line",
    "Waiting",
    "Wish",
    "first",
    "inbox",
    "kind",
    "kinds",
    "lines",
    "mark_all_read",
    "mark_read",
    "register_waiting",
    "register_words",
    "sentence",
    "tell",
    "topic_of",
    "unread_count",
    "waiting_for",
]
