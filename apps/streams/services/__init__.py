"""What other apps may do with streams: hint at changes, keep and read log lines and points, say who may follow."""

from apps.streams.domain.frames import Gap, LivePoint, LogFrame, LogLine, Look, PointsFrame, Source, jsonable
from apps.streams.services.buffer import Move, after, append, forget, page, tail, wrote
from apps.streams.services.hints import hint, revoked
from apps.streams.services.live import LiveBuffer
from apps.streams.services.points import LastPoint, latest, recent, record_points, series, series_names, spans
from apps.streams.services.topics import may_follow, register_topic, topic_kinds
from apps.streams.services.words import LOG_WORDS

__all__ = [
    "LOG_WORDS",
    "Gap",
    "LastPoint",
    "LiveBuffer",
    "LivePoint",
    "LogFrame",
    "LogLine",
    "Look",
    "Move",
    "PointsFrame",
    "Source",
    "after",
    "append",
    "forget",
    "hint",
    "jsonable",
    "latest",
    "may_follow",
    "page",
    "recent",
    "record_points",
    "register_topic",
    "revoked",
    "series",
    "series_names",
    "spans",
    "tail",
    "topic_kinds",
    "wrote",
]
