"""A whole demo as its users meet it: sign-in, REST, the rows and the cluster behind it, and its processes, to be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import httpx
import psutil
import psycopg
import yaml

from deploy.local.program import NotReady, wait_until
from deploy.local.stack import TREE
from deploy.local.supervise import Supervisor
from deploy.local.testing import RunningDemo
from deploy.testbed import ControlPlane
from tests.identity.provider import sign_in

Found = TypeVar("Found")
Line = tuple[int, int, int, str]
"""Attempt, rank, time in nanoseconds, text."""

FINAL = {"succeeded", "failed", "stopped"}
SCIENTIST, VIEWER, ADMIN, STRANGER, AUDITOR = "chen.jing", "amara.okafor", "lars.lindqvist", "ravi.menon", "ines.duarte"


def until(look: Callable[[], Found], seconds: float, *, what: str = "") -> Found:
    """The first true answer of `look`. Raises AssertionError with its last answer after `seconds`."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {what or look}; last seen: {found!r}"
        pause.wait(0.1)
    return found


def charlm(name: str, **changes: Any) -> dict[str, Any]:
    """A document of the demo's training job: two ranks, about five seconds."""
    return {"template": "charlm", "name": name, "steps": 100, "step_seconds": 0.05, "checkpoint_every": 20} | changes


class Rest:
    """The REST interface as a script with a token uses it. Every method raises AssertionError for what it did not
    expect, with the answer."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=f"{url}/api/v1/", headers=headers, timeout=15, trust_env=False)

    def post(self, document: dict[str, Any], key: str = "", tenant: str = "nlp") -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return self.http.post("jobs", json={"tenant": tenant, "document": document}, headers=headers)

    def submit(self, document: dict[str, Any], key: str = "") -> str:
        """The id of the job."""
        answer = self.post(document, key)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def submit_through_outages(self, document: dict[str, Any], key: str, seconds: float = 90) -> str:
        """As a careful client does: the same request with the same key until it is answered."""

        def tried() -> str:
            try:
                answer = self.post(document, key)
            except httpx.TransportError:
                return ""
            assert answer.status_code == 202 or answer.status_code >= 500, answer.text
            return str(answer.json()["id"]) if answer.status_code == 202 else ""

        return until(tried, seconds, what="the submission is answered")

    def stop_through_outages(self, job_id: str, seconds: float = 90) -> None:
        """Ask until it is noted, or the job has ended by itself."""

        def noted() -> bool:
            try:
                return self.act(job_id, "stop").status_code in (202, 409)
            except httpx.TransportError:
                return False

        until(noted, seconds, what="the stop is noted")

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.get(f"jobs/{job_id}"))

    def act(self, job_id: str, act: str) -> httpx.Response:
        return self.http.post(f"jobs/{job_id}/{act}")

    def await_phase(self, job_id: str, *phases: str, seconds: float = 90) -> dict[str, Any]:
        """The job once it is in one of these phases; fails at once if it ends in another. Outages are sat out."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            try:
                answer = self.http.get(f"jobs/{job_id}")
            except httpx.TransportError:
                return False
            if answer.status_code >= 500:
                return False
            seen.update(answer.json())
            assert seen["phase"] in phases or seen["phase"] not in FINAL, seen
            return seen["phase"] in phases

        try:
            until(there, seconds, what=f"{job_id} is {' or '.join(phases)}")
        except AssertionError as late:
            raise AssertionError(f"{late}; {seen}") from None
        return seen

    def log_frames(self, job_id: str) -> list[dict[str, Any]]:
        """Every kept frame of the merged log, oldest first, read page by page."""
        found: list[dict[str, Any]] = []
        before = ""
        while True:
            page = self.get(f"jobs/{job_id}/log", limit=200, before=before)
            found = page["frames"] + found
            before = page["before"]
            if not before:
                return found

    def lines(self, job_id: str) -> list[Line]:
        """Every kept line, in the order of the log."""
        return [
            (frame["src"]["attempt"], frame["src"]["rank"], line[0], line[4])
            for frame in self.log_frames(job_id)
            for line in frame["lines"]
        ]

    def points(self, job_id: str) -> dict[int, dict[int, float]]:
        """Loss by step, by attempt."""
        curves = self.get(f"jobs/{job_id}/points", series="loss", width=5000)["attempts"]
        return {curve["attempt"]: dict(zip(curve["steps"], curve["values"], strict=True)) for curve in curves}


class Cluster:
    """The demo's cluster as its administrator sees it, by plain Kubernetes API."""

    JOBS = "apis/batch.volcano.sh/v1alpha1/namespaces/tenant-nlp/jobs"
    PODS = "api/v1/namespaces/tenant-nlp/pods"

    def __init__(self, demo: RunningDemo) -> None:
        config = yaml.safe_load(demo.kubeconfig.read_text())
        headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        self.http = httpx.Client(
            base_url=config["clusters"][0]["cluster"]["server"], headers=headers, verify=False, trust_env=False
        )

    def items(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        return list(self._list(path, parameters)["items"])

    def pods(self, job_id: str) -> list[dict[str, Any]]:
        return self.items(self.PODS, labelSelector=f"maas.portal/job={job_id}")

    def answers(self) -> bool:
        try:
            return self.http.get("readyz").status_code == 200
        except httpx.TransportError:
            return False

    def version(self) -> str:
        """The place in the history of workload objects at which to begin a later `uids_since`."""
        return str(self._list(self.JOBS, {})["metadata"]["resourceVersion"])

    def uids_since(self, version: str, job_id: str) -> set[str]:
        """Uids of every workload object that has borne this job's name since then, told by the server's history."""
        parameters = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
        answer = self.http.get(self.JOBS, params=parameters)
        assert answer.status_code == 200, answer.text
        events = [json.loads(line) for line in answer.text.splitlines()]
        assert all(event["type"] != "ERROR" for event in events), events
        objects = [event["object"]["metadata"] for event in events]
        return {each["uid"] for each in objects if each["name"] == f"j-{job_id.lower()}"}

    def _list(self, path: str, parameters: dict[str, Any]) -> dict[str, Any]:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@dataclass
class Stack:
    """A running demo, on a control plane of its own where `plane` is one. Passwords, tokens and connections are found
    when they are first needed."""

    demo: RunningDemo
    plane: ControlPlane | None = None
    _rest: dict[str, Rest] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.demo.url

    @cached_property
    def supervisor(self) -> Supervisor:
        return Supervisor(self.demo.home, TREE)

    @cached_property
    def cluster(self) -> Cluster:
        return Cluster(self.demo)

    def password(self, username: str) -> str:
        return self.demo.people()[username]["password"]

    # --- people -----------------------------------------------------------------------------------------------------

    def rest(self, username: str = SCIENTIST) -> Rest:
        """A person's REST interface, with a token they made on the settings page."""
        if username not in self._rest:
            self._rest[username] = Rest(self.url, self._new_token(username))
        return self._rest[username]

    @contextmanager
    def browser(self, username: str) -> Iterator[httpx.Client]:
        """A signed-in client with cookies, without JavaScript."""
        with httpx.Client(base_url=self.url, timeout=15, trust_env=False) as client:
            address = client.get("/oidc/authenticate/?next=/settings/").headers["location"]
            answer = client.get(sign_in(client, address, username, self.password(username)))
            assert answer.headers.get("location") == "/settings/", (answer.status_code, answer.text[:500])
            yield client

    def _new_token(self, username: str) -> str:
        with self.browser(username) as client:
            page = client.get("/settings/").text
            data = {"csrfmiddlewaretoken": csrf(page), "name": f"prove {uuid.uuid4()}"[:40], "days": "7"}
            action = re.search(r'action="([^"#]+)#tokens"', page)
            assert action
            answer = client.post(action[1], data=data, headers={"Referer": self.url})
            shown = re.search(r'id="new-token"[^>]*>([^<]+)<', answer.text)
            assert shown, "no token is shown"
            return shown[1]

    # --- what is behind it ------------------------------------------------------------------------------------------

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.demo.env()["MIGRATE_DATABASE_URL"]) as connection:
            yield connection

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.database() as connection:
            return connection.execute(sql, values).fetchall()

    def audited(self, job_id: str, action: str) -> int:
        """How often the audit log says so of this job."""
        sql = "SELECT count(*) FROM audit_entry WHERE target = %s AND action = %s"
        return int(self.rows(sql, f"job:{job_id}", action)[0][0])

    def give_room(self, tenant: str, gpus: int) -> None:
        """So much of a tenant's accelerators that no submission lacks room."""
        self.demo.manage(
            "shell", "-v0", "-c",
            "from apps.accounts.types import Actor; from apps.quotas import services as quotas;"
            "from apps.tenants import services as tenants; from apps.tenants.models import Placement;"
            f"place = Placement.objects.for_system().get(tenant__slug='{tenant}');"
            f"quotas.set_base(Actor.system('demo'), place.tenant_id, place.pool, {gpus})",
        )  # fmt: skip

    # --- what can be broken -----------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """kill -9 of a program, which is then started again."""
        if name == "apiserver" and self.plane:
            self.plane.restart("kube-apiserver")
        else:
            assert self.demo.kill(name), f"{name} does not run"

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """A program that says nothing and takes nothing, with its connections open."""
        parent = psutil.Process(int(self.supervisor.states()[name]["pid"]))
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def rank_process(self, job_id: str, rank: int) -> psutil.Process | None:
        """The training process of a rank, which a shim of the node agent started."""
        master = f"j-{job_id.lower()}-master-0"
        for process in psutil.process_iter():
            try:
                environ = process.environ()
            except psutil.Error:
                continue
            if environ.get("RANK") == str(rank) and environ.get("MASTER_ADDR", "").split(".")[0] == master:
                return process
        return None

    @contextmanager
    def held_down(self, name: str) -> Iterator[Callable[[], None]]:
        """Kill -9, and no new start before the block ends or calls what it is given."""

        def start_again() -> None:
            self.supervisor.start(name)

        pid = int(self.supervisor.states()[name]["pid"])
        self.supervisor.stop([name], 0)  # from now on supervisord expects it to end, and leaves it ended
        if pid and psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
        until(lambda: self.supervisor.states()[name]["statename"] in ("STOPPED", "EXITED"), 10, what=f"{name} is down")
        try:
            yield start_again
        finally:
            start_again()

    @contextmanager
    def without_api(self) -> Iterator[None]:
        """The cluster's API server killed (-9), and started again at the end of the block."""
        if self.plane:
            program = self.plane.processes.kill("kube-apiserver")
            try:
                yield
            finally:
                self.plane.processes.start(program)
        else:
            with self.held_down("apiserver"):
                yield
            until(self.cluster.answers, 60, what="the API server answers")

    def await_all(self, seconds: float = 60) -> None:
        """Every program runs, and the portal says it is ready."""

        def up() -> None:
            down = {name: s["statename"] for name, s in self.supervisor.states().items() if s["statename"] != "RUNNING"}
            if down:
                raise NotReady(str(down))

        wait_until(up, seconds)
        self.demo.await_portal(seconds)
        until(self.cluster.answers, seconds, what="the API server answers")


def csrf(page: str) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found, page[:500]
    return found[1]
