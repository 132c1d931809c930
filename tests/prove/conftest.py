"""The portal served on the tests' own database, a whole demo beside it, and a browser to look at them with."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from deploy.local.browser import chromium
from deploy.local.home import Home
from deploy.local.testing import RunningDemo, demo
from deploy.testbed import SERVER_ONLY, control_plane
from tests.needs import require

if TYPE_CHECKING:
    from tests.prove.stack import Stack

ROOT = Path(__file__).parents[2]
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


class Portal:
    """The portal as it is served; it can be ended and started again at the same address."""

    def __init__(self, url: str, seeds: Any, env: dict[str, str]) -> None:
        self.url, self.seeds, self._env = url, seeds, env
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "maasportal.asgi:application", f"--port={urlsplit(self.url).port}"]
        self._server = subprocess.Popen([*command, "--log-level=warning"], cwd=ROOT, env=self._env)
        _wait(f"{self.url}/healthz")

    def change(self, sql: str, *values: str) -> None:
        """Change a row at once; a test's own transaction would hide it from the served portal."""
        with psycopg.connect(self._env["DATABASE_URL"], autocommit=True) as database:
            database.execute(sql, values)

    def stop(self) -> None:
        if self._server:
            self._server.kill()  # as a crash would: open sockets get no farewell
            self._server.wait(20)
            self._server = None


def _wait(url: str) -> None:
    for _try in range(150):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(url)


@pytest.fixture(scope="module")
def seeding() -> Callable[[], Any]:
    """Makes what the portal shows; a module that wants to look at something else has its own."""
    # Models can be imported only once Django is set up, after this file was read.
    from tests.prove.seeded import seed

    return seed


@pytest.fixture(scope="module")
def portal(
    django_db_setup: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
    seeding: Callable[[], Any],
) -> Iterator[Portal]:
    require("chromium")
    from django.core.management import call_command
    from django.db import connection

    with django_db_blocker.unblock():
        seeds = seeding()
        database = connection.settings_dict["NAME"]
    env = environment_of(database, tmp_path_factory.mktemp("static"))
    subprocess.run([sys.executable, "manage.py", "collectstatic", "--noinput", "-v0"], cwd=ROOT, env=env, check=True)
    served = Portal(env["MAAS_BASE_URL"], seeds, env)
    try:
        served.start()
        yield served
    finally:
        served.stop()
        with django_db_blocker.unblock():
            call_command("flush", interactive=False, verbosity=0)


def environment_of(database: str, static: Path) -> dict[str, str]:
    """As in production, but on the tests' database; static files are collected anew."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = urlsplit(os.environ["DATABASE_URL"])
    return os.environ | {
        "DATABASE_URL": urlunsplit(address._replace(path=f"/{database}")),
        "MAAS_BASE_URL": f"http://127.0.0.1:{port}",
        "MAAS_ALLOWED_HOSTS": "127.0.0.1",
        "MAAS_STATIC_STORAGE": "maasportal.storage.ModuleStaticFilesStorage",
        "MAAS_STATIC_ROOT": str(static),
        "OIDC_CHECK_SECONDS": "3600",
        "DJANGO_SETTINGS_MODULE": "maasportal.settings",
    }


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread; Django would refuse to end the test's transaction beside it.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        one = playwright.chromium.launch(executable_path=str(chromium()), args=QUIET)
        yield one
        one.close()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A demo of its own for walks and for breaking things; MAAS_PROVE_DEMO names the folder of a running one instead.

    MAAS_PROVE_CLUSTER=apiserver puts a real control plane under it, MAAS_PROVE_VOLCANO (a folder) real Volcano besides.
    """
    if folder := os.environ.get("MAAS_PROVE_DEMO"):
        from tests.prove.stack import Stack

        yield Stack(RunningDemo(Home(Path(folder))))
        return
    with _new_stack(tmp_path_factory.mktemp("plane"), port=8400) as one:
        yield one


@pytest.fixture(scope="session")
def second_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One more of them, for what leaves too much behind to share the first: thousands of jobs, other clusters."""
    with _new_stack(tmp_path_factory.mktemp("second"), port=8450) as one:
        yield one


@contextmanager
def _new_stack(directory: Path, port: int) -> Iterator[Stack]:
    require("postgres", "valkey", "openbao", "oidc")
    from tests.prove.stack import Stack

    with ExitStack() as opened:
        plane, options = None, ["--port", str(port)]
        if os.environ.get("MAAS_PROVE_CLUSTER", "small") != "small":
            require("apiserver")
            volcano = os.environ.get("MAAS_PROVE_VOLCANO")
            # Pods that bring a model's files ask for no GPU: the cluster's own scheduler places them.
            theirs = Path(volcano).absolute() if volcano else None
            parts = replace(SERVER_ONLY, scheduler=True, crds=("volcano",), volcano=theirs)
            plane = opened.enter_context(control_plane(directory, parts))
            options += ["--kubeconfig", str(plane.kubeconfig), *(("--without", "volcano") if volcano else ())]
        yield Stack(opened.enter_context(demo(None, *options)), plane)


@pytest.fixture
def desk(portal: Portal, chrome: Browser) -> Iterator[BrowserContext]:
    """A browser signed in as the data scientist."""
    context = chrome.new_context(viewport={"width": 1440, "height": 900}, base_url=portal.url)
    context.add_cookies([{"name": "sessionid", "value": portal.seeds.cookies["data-scientist"], "url": portal.url}])
    yield context
    context.close()
