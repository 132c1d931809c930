"""Web processes speak to no cluster, hand the secrets server values and read none, and carry no SDK of either."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("entry", ["maasportal.asgi", "maasportal.wsgi"])
def test_the_web_imports_no_sdk(entry: str) -> None:
    code = (
        f"import sys, django.urls, {entry}\n"
        "django.urls.get_resolver().url_patterns\n"
        "print([name for name in ('kubernetes', 'hvac', 'boto3', 'tensorflow') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == "[]"
