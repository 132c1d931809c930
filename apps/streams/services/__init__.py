"""What other apps may do with streams: hint at changes, keep and read log lines and points, say who may follow."""

from apps.streams.domain.frames import (
    Gap,
    LivePoint,
    LogFrame,
    LogLine,
    Look,
    Packed,
    PointsFrame,
    Source,
    jsonable,
    pack,
)
from apps.streams.domain.lines import Filter
from apps.streams.domain.origins import Origin, origins_of
from apps.streams.domain.rows import Rows
from apps.streams.models import Curve
from apps.streams.services import owed
from apps.streams.services.answering import (
    PAGE_PARAMETERS,
    TEXT_PARAMETERS,
    line_answer,
    page_answer,
    rest_page,
    rest_text,
    text_answer,
    text_file,
)
from apps.streams.services.asking import BadQuestion, Question, Range, question, text_range
from apps.streams.services.buffer import Kept, Move, after, append, forget, tail
from apps.streams.services.hints import hint, revoked
from apps.streams.services.live import LiveBuffer
from apps.streams.services.merging import due_merges, merge_topic
from apps.streams.services.points import (
    STEP_LIMIT,
    LastPoint,
    LoggedPoint,
    Reading,
    Stretch,
    Told,
    curves_known,
    has_pushed,
    latest,
    logged,
    packed,
    recent,
    record_points,
    series,
    series_names,
    spans,
    told,
)
from apps.streams.services.reading import encoded, known, lines, text, wrote
from apps.streams.services.retention import due_segments, remove_segment
from apps.streams.services.telling import tell_points
from apps.streams.services.topics import may_follow, register_topic, topic_kinds
from apps.streams.services.words import LOG_WORDS

__all__ = [
    "LOG_WORDS",
    "PAGE_PARAMETERS",
    "STEP_LIMIT",
    "TEXT_PARAMETERS",
    "BadQuestion",
    "Curve",
    "Filter",
    "Gap",
    "Kept",
    "LastPoint",
    "LiveBuffer",
    "LivePoint",
    "LogFrame",
    "LogLine",
    "LoggedPoint",
    "Look",
    "Move",
    "Origin",
    "Packed",
    "PointsFrame",
    "Question",
    "Range",
    "Reading",
    "Rows",
    "Source",
    "Stretch",
    "Told",
    "after",
    "append",
    "curves_known",
    "due_merges",
    "due_segments",
    "encoded",
    "forget",
    "has_pushed",
    "hint",
    "jsonable",
    "known",
    "latest",
    "line_answer",
    "lines",
    "logged",
    "may_follow",
    "merge_topic",
    "origins_of",
    "owed",
    "pack",
    "packed",
    "page_answer",
    "question",
    "recent",
    "record_points",
    "register_topic",
    "remove_segment",
    "rest_page",
    "rest_text",
    "revoked",
    "series",
    "series_names",
    "spans",
    "tail",
    "tell_points",
    "text",
    "text_answer",
    "text_file",
    "text_range",
    "told",
    "topic_kinds",
    "wrote",
]
