"""A real Prometheus that scrapes an exporter of ours."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.adapters.scripted import Exchange, scripted
from tests.needs import require
from tests.ports import free_port

CONFIG = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - {{job_name: exporter, honor_labels: true, static_configs: [{{targets: ["{target}"]}}]}}
"""


@dataclass
class Exposed:
    """What the exporter says: values by a series as Prometheus writes it."""

    url: str = ""
    values: dict[str, float] = field(default_factory=dict)

    def serve(self, exchange: Exchange) -> None:
        text = "".join(f"{series} {value}\n" for series, value in self.values.items())
        exchange.answer(200, text.encode(), Content_Type="text/plain; version=0.0.4")

    def wait_for(self, series: str, value: float) -> None:
        """Wait until the Prometheus knows a value."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = httpx.get(f"{self.url}/api/v1/query", params={"query": series}).json()["data"]["result"]
            if found and float(found[0]["value"][1]) == value:
                return
            time.sleep(0.05)
        raise AssertionError(f"{series} was not scraped.")


@contextmanager
def prometheus(folder: Path) -> Iterator[Exposed]:
    require("prometheus")
    exposed = Exposed()
    with scripted(exposed.serve) as exporter:
        (folder / "prometheus.yml").write_text(CONFIG.format(target=exporter.url.removeprefix("http://")))
        exposed.url = f"http://127.0.0.1:{free_port()}"
        arguments = [
            f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={exposed.url.removeprefix('http://')}", "--log.level=error",
        ]  # fmt: skip
        with subprocess.Popen(["prometheus", *arguments]) as process:
            try:
                _wait(process, exposed.url)
                yield exposed
            finally:
                process.terminate()


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise AssertionError("Prometheus did not start.")
