"""What people write of a model becomes HTML that does nothing but show."""

from __future__ import annotations

import re

import pytest

from apps.catalog.services.card import html_of


def test_markdown_shows_as_it_should() -> None:
    html = html_of(
        "# 港口\n\nA **small** model, `charlm`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n~~old~~ [docs](https://x.example/a)"
    )
    for part in ("<h2>港口</h2>", "<strong>small</strong>", "<code>charlm</code>", "<td>1</td>", "<s>old</s>"):
        assert part in html
    assert '<a href="https://x.example/a" rel="noopener noreferrer nofollow ugc">docs</a>' in html


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![x](https://tracker.example/pixel.png)",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    '![x](x "onerror=alert(1)")',
    '[x](https://a.example "onmouseover=alert(1)")',
    '<svg onload="alert(1)"><animate onbegin=alert(1)>',
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "<iframe src=//evil.example></iframe>",
    "<style>*{background:url(//evil.example)}</style>",
    "<base href=//evil.example>",
    "<form action=//evil.example><input name=q></form>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "`<script>`\n\n    <script>alert(1)</script>",
    '<https://a.example/"onclick=alert(1)>',
    '```html" onclick=alert(1)\nx\n```',
    "<!--><script>alert(1)</script>-->",
    "[a]: javascript:alert(1)\n\n[a]",
    "<p style='position:fixed;inset:0'>over everything</p>",
]


@pytest.mark.parametrize("card", HOSTILE)
def test_nothing_hostile_passes(card: str) -> None:
    html = html_of(card)
    tags = re.findall(r"<\s*/?\s*([a-z0-9]+)([^>]*)>", html, re.IGNORECASE)
    assert {name.lower() for name, _attributes in tags} <= {"p", "a", "code", "pre", "h2", "em", "strong", "br"}
    for _name, attributes in tags:
        found = re.findall(r'([a-z-]+)="([^"]*)"', attributes)
        assert {key for key, _value in found} <= {"href", "title", "rel"}
        assert all(value.startswith(("https://", "http://", "mailto:")) for key, value in found if key == "href")


def test_a_card_without_end_is_read_in_time_that_grows_with_it() -> None:
    for card in ("[" * 20_000, "*" * 20_000 + "a", "> " * 5_000 + "a", "|a" * 5_000 + "\n" + "|-" * 5_000):
        assert len(html_of(card)) < 2_000_000
