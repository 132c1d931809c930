"""A model's card from Markdown to safe HTML.

Raw HTML in it is shown as text by the Markdown reader, and what it makes goes through an allow-list besides: one fault
in either lets nothing through.
"""

from __future__ import annotations

import functools

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

TAGS = {
    "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li",
    "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
"""No pictures: one would tell another site who reads the card, and the page's policy forbids them anyway."""
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}


def _whole_address(_tag: str, attribute: str, value: str) -> str | None:
    """Links name their site: one without would lead into the portal itself."""
    return None if attribute == "href" and value.partition(":")[0].lower() not in SCHEMES else value


@functools.cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    return reader.disable(["image"])


def html_of(card: str) -> SafeString:
    """The card as HTML. Its headings begin one level below the page's own."""
    tokens = _reader().parse(card)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    made = _reader().renderer.render(tokens, _reader().options, {})
    clean = nh3.clean(
        made, tags=TAGS, attributes=ATTRIBUTES, url_schemes=SCHEMES, attribute_filter=_whole_address,
        link_rel="noopener noreferrer nofollow ugc",
    )  # fmt: skip
    return mark_safe(clean)  # noqa: S308 (cleaned by the line before)
