"""The gateway's files with the real Envoy behind them: what clients, the portal and model servers see of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from apps.adapters.errors import Unavailable
from apps.adapters.gateway import (
    AUTHORIZE_PATH,
    CLUSTERS,
    LINGER_SECONDS,
    ROUTES,
    Backend,
    Endpoint,
    Gateway,
    Route,
    Timeouts,
)
from deploy.gateway.bootstrap import Setup, bootstrap
from deploy.local.gateway import require as envoy_binary
from tests.needs import require
from tests.ports import free_port

KEY = {"Authorization": "Bearer right"}
CHAT = "/team-a/chat/v1/chat/completions"
ENOUGH = Timeouts()


class Server(ThreadingHTTPServer):
    """A model server or the portal. What it was asked stands in `asked`, with lower-case header names."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, name: str, answer: Callable[[Request], None]) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.name, self.answer = name, answer
        self.asked: list[dict[str, str]] = []
        self.connections: list[socket.socket] = []
        self.go_on, self.left = threading.Event(), threading.Event()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.server_address[1])

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def end(self) -> None:
        """Closes its connections too, as a process does that ends."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed already

    def handle_error(self, *_: object) -> None:
        """Tests break connections."""


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def handle_any(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append({**said, ":path": self.path, ":method": self.command})
        self.server.answer(self)

    do_GET = do_POST = handle_any  # noqa: N815

    def send(self, status: int, body: bytes | dict[str, object], **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def names_itself(request: Request) -> None:
    request.send(200, {"server": request.server.name})


def streams(request: Request) -> None:
    """Two pieces; the second when the test lets it go on, unless the client has left before."""
    request.send_response(200)
    request.send_header("content-type", "text/event-stream")
    request.send_header("transfer-encoding", "chunked")
    request.end_headers()
    request.wfile.write(b"5\r\nfirst\r\n")
    while not request.server.go_on.wait(0.02):
        request.connection.setblocking(False)
        try:
            if request.connection.recv(1) == b"":
                return request.server.left.set()
        except BlockingIOError:
            pass
        finally:
            request.connection.setblocking(True)
    request.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")
    return None


def portal(request: Request) -> None:
    """Lets one key in; the others say what they are answered."""
    credential = request.headers.get("authorization", "").removeprefix("Bearer ")
    if credential == "slow":
        request.server.go_on.wait(20)
    status = 200 if credential == "right" else int(credential) if credential.isdigit() else 401
    body: dict[str, object] = {"error": {"message": f"the portal says {status}"}}
    told = {"x_maas_key": "key-1", "x_ratelimit_remaining_requests": "59", "retry_after": "7", "set_cookie": "a=b"}
    request.send(status, b"" if status == 200 else body, **told)


class Running:
    """Envoy with its portal. `clients` and `hosts` speak to it over connections of their own."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.stack, self.folder, self.log = stack, root / "routes", root / "envoy.log"
        self.gateway = Gateway(self.folder, ["127.0.0.1"])
        self.gateway.write([])
        self.portal = self.server("portal", portal)
        port = free_port()
        asked = ("127.0.0.1", self.portal.server_address[1])
        setup = Setup(("127.0.0.1", port), asked, self.folder, root / "admin.sock", "the-gateways-secret")
        (root / "envoy.json").write_text(json.dumps(bootstrap(setup)))
        self.command = [str(envoy_binary()), "-c", str(root / "envoy.json"), "--concurrency", "1"]
        self.start()
        stack.callback(self.end)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.url = f"http://127.0.0.1:{port}"
        self.client = stack.enter_context(
            httpx.Client(base_url=self.url, headers=KEY, timeout=20, trust_env=False, limits=limits)
        )
        until(self.answers)

    def start(self) -> None:
        command = [*self.command, "--disable-hot-restart", "--log-level", "warn"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.client.get("/").status_code == 404
        except httpx.ConnectError:
            return False

    def server(self, name: str, answer: Callable[[Request], None]) -> Server:
        server = Server(name, answer)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.stack.callback(server.end)
        return server

    def lead_to(self, *backends: Backend, timeouts: Timeouts = ENOUGH) -> None:
        """One deployment; returns when Envoy has taken up exactly this."""
        # A second route that answers once everything before it has been read.
        mark = f"/team-a/mark-{time.monotonic_ns()}"
        marking = Route("mark", mark, (Backend("v1", 1, ()),))
        self.gateway.write([Route("7", "/team-a/chat", backends, timeouts), marking])
        until(lambda: self.client.get(f"{mark}/v1/models").status_code == 503)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    require("envoy")
    with ExitStack() as stack:
        yield Running(tmp_path_factory.mktemp("gateway"), stack)


def only(*servers: Server) -> Backend:
    return Backend("v1", 1, tuple(server.endpoint for server in servers))


def nobody() -> Endpoint:
    return Endpoint("127.0.0.1", free_port())


# --- routes


def test_routes_are_live_without_a_restart_and_gone_when_they_are(envoy: Running) -> None:
    a, b = envoy.server("a", names_itself), envoy.server("b", names_itself)
    envoy.lead_to(only(a))
    assert envoy.client.post(CHAT).json() == {"server": "a"}
    envoy.lead_to(only(b))
    assert envoy.client.post(CHAT).json() == {"server": "b"}
    envoy.gateway.write([])
    until(lambda: envoy.client.post(CHAT).status_code == 404)
    assert envoy.client.post(CHAT).json()["error"]["code"] == "not_found"


def test_routes_outlive_the_gateway(tmp_path: Path) -> None:
    require("envoy")
    with ExitStack() as stack:
        envoy = Running(tmp_path, stack)
        envoy.lead_to(only(envoy.server("a", names_itself)))
        envoy.process.kill()
        envoy.process.wait()
        envoy.start()
        until(envoy.answers)
        assert envoy.client.post(CHAT).json() == {"server": "a"}


def test_weights_hold(envoy: Running) -> None:
    old, new = envoy.server("old", names_itself), envoy.server("new", names_itself)

    def shares(weights: tuple[int, int], requests: int) -> Counter[str]:
        envoy.lead_to(Backend("v1", weights[0], (old.endpoint,)), Backend("v2", weights[1], (new.endpoint,)))
        return Counter(envoy.client.post(CHAT).json()["server"] for _ in range(requests))

    assert shares((100, 0), 50) == {"old": 50}
    # Of 1000 with one in ten, 100 are expected, give or take 9.5: six times that is one wrong alarm in 500 million.
    assert 43 <= shares((90, 10), 1000)["new"] <= 157
    assert shares((0, 3), 50) == {"new": 50}


def test_no_request_is_lost_while_versions_change(envoy: Running) -> None:
    servers = [envoy.server(name, names_itself) for name in "abc"]
    envoy.lead_to(only(*servers))
    ended = threading.Event()

    def ask() -> Counter[int]:
        with httpx.Client(base_url=envoy.url, headers=KEY, timeout=20, trust_env=False) as client:
            found: Counter[int] = Counter()
            while not ended.is_set():
                found[client.post(CHAT).status_code] += 1
            return found

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        for turn in range(15):
            backends = [
                Backend(f"v{turn + each}", 1 + turn % 3, (servers[each].endpoint,)) for each in range(turn % 3 + 1)
            ]
            envoy.lead_to(*backends)
        ended.set()
        found = sum((each.result() for each in asking), Counter[int]())
    assert found.keys() == {200}


def test_only_one_spelling_of_a_path_leads_to_a_model(envoy: Running) -> None:
    server = envoy.server("a", names_itself)
    envoy.lead_to(only(server))

    def status(path: str, **headers: str) -> int:
        return envoy.client.send(httpx.Request("GET", envoy.url + path, headers={**KEY, **headers})).status_code

    for other in ("/team-a/chat/metrics", "/team-a/chat/v1", "/team-a/chatter/v1/models", "/TEAM-A/chat/v1/models"):
        assert status(other) == 404, other
    raw = httpx.Client(base_url=envoy.url, headers=KEY, trust_env=False)
    for spelled, expected in {
        b"/team-a/chat/v1/../metrics": 404,
        b"/team-a/chat/v1/%2e%2e/metrics": 404,
        b"/team-b/x/v1/../../../team-a/chat/v1/models": 200,
        b"/team-a//chat/v1/models": 200,
        b"/team-a%2fchat/v1/models": 400,
    }.items():
        request = raw.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=spelled)
        answer = raw.send(request)
        assert answer.status_code == expected, spelled
    # What was asked about is what was served.
    assert {each[":path"] for each in server.asked} == {"/v1/models"}
    assert {each[":path"] for each in envoy.portal.asked if each.get("x-maas-deployment") == "7"} >= {
        f"{AUTHORIZE_PATH}/team-a/chat/v1/models"
    }
    envoy.portal.asked.clear()
    assert status("/team-a/chat/v1/models", host="elsewhere.example") == status("/") == 404
    assert envoy.portal.asked == []


# --- who is let in


def test_the_portal_and_the_model_server_are_told_what_each_needs(envoy: Running) -> None:
    server = envoy.server("a", names_itself)
    envoy.lead_to(only(server))
    envoy.portal.asked.clear()
    forged = {
        "X-Maas-Deployment": "8",
        "x_maas_deployment": "8",
        "X-Maas-Key": "somebody",
        "X-Maas-Gateway-Secret": "guess",
        "X-Envoy-Upstream-Rq-Timeout-Ms": "1",
        "X-Envoy-Original-Path": "/elsewhere",
        "Cookie": "session=1",
        "Proxy-Authorization": "Basic x",
    }
    answer = envoy.client.post(f"{CHAT}?a=b", content=b"what people write", headers=forged)
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-requests"] == "59"
    assert not {"set-cookie", "x-maas-key", "x-envoy-upstream-service-time"} & answer.headers.keys()
    [question], [asked] = envoy.portal.asked, server.asked
    assert question[":path"] == f"{AUTHORIZE_PATH}{CHAT}?a=b"
    assert (question[":method"], question["content-length"]) == ("POST", "0")
    assert question["authorization"] == "Bearer right"
    assert question["x-maas-deployment"] == "7"
    assert question["x-maas-gateway-secret"] == "the-gateways-secret"
    assert not {"cookie", "x_maas_deployment", "proxy-authorization"} & question.keys()
    assert asked[":path"] == "/v1/chat/completions?a=b"
    assert (asked["x-maas-deployment"], asked["x-maas-key"]) == ("7", "key-1")
    assert asked["x-request-id"] == question["x-request-id"] == answer.headers["x-request-id"]
    assert not {"authorization", "cookie", "proxy-authorization", "x-maas-gateway-secret"} & asked.keys()
    assert "guess" not in asked.values()


def test_a_page_is_reached_as_it_is_and_judged_by_its_cookie(envoy: Running) -> None:
    """Such as a TensorBoard: no cookie goes beyond the portal, and the way in is the portal's own."""
    server, model = envoy.server("page", names_itself), envoy.server("model", names_itself)
    page = Route("board-1", "/team-a/board-1", (only(server),), is_page=True)
    envoy.gateway.write([page, Route("7", "/team-a/chat", (only(model),))])
    until(lambda: envoy.client.get("/team-a/board-1/").status_code == 200)
    until(lambda: envoy.client.post(CHAT).status_code == 200)
    envoy.portal.asked.clear()
    server.asked.clear()
    headers = {"Cookie": "maas-board-1=good", "X-Maas-Deployment": "board-2", "Accept-Language": "zh-CN"}
    assert envoy.client.get("/team-a/board-1/data/runs?a=b", headers=headers).json() == {"server": "page"}
    [question], [asked] = envoy.portal.asked, server.asked
    assert question[":path"] == f"{AUTHORIZE_PATH}/team-a/board-1/data/runs?a=b"
    assert (question["cookie"], question["x-maas-deployment"]) == ("maas-board-1=good", "board-1")
    assert question["accept-language"] == "zh-CN", "the portal answers people"
    assert asked[":path"] == "/team-a/board-1/data/runs?a=b"
    assert not {"cookie", "authorization", "x-maas-gateway-secret"} & asked.keys()
    assert envoy.client.get("/team-a/board-1/", headers={"Authorization": "Bearer 401"}).status_code == 401
    assert envoy.client.get("/team-a/board-12/").status_code == 404
    envoy.portal.asked.clear()
    envoy.client.get("/team-a/board-1/enter?pass=p", headers={**headers, "Authorization": "Bearer 401"})
    [entered] = envoy.portal.asked
    assert entered[":path"] == "/gateway/enter?pass=p", "the portal is not asked about its own way in"
    assert not {"cookie", "authorization", "x-maas-gateway-secret"} & entered.keys()


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_whom_the_portal_refuses_is_told_so_in_its_words(envoy: Running, status: int) -> None:
    server = envoy.server("a", names_itself)
    envoy.lead_to(only(server))
    answer = envoy.client.post(CHAT, headers={"Authorization": f"Bearer {status}"})
    assert (answer.status_code, answer.json()) == (status, {"error": {"message": f"the portal says {status}"}})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["retry-after"] == "7"
    assert not {"set-cookie", "x-maas-key"} & answer.headers.keys()
    assert server.asked == []


def test_a_stranger_cannot_tell_what_is_deployed(envoy: Running) -> None:
    envoy.lead_to(only(envoy.server("a", names_itself)))
    bad = {"Authorization": "Bearer wrong"}
    there, not_there = (envoy.client.post(path, headers=bad) for path in (CHAT, "/team-a/nothing/v1/models"))
    assert (there.status_code, there.json()) == (not_there.status_code, not_there.json())
    assert there.status_code == 401


def test_nobody_is_let_in_while_the_portal_is_away(tmp_path: Path) -> None:
    require("envoy")
    with ExitStack() as stack:
        envoy = Running(tmp_path, stack)
        server = envoy.server("a", names_itself)
        envoy.lead_to(only(server))
        for status in (500, 502, 503):
            answer = envoy.client.post(CHAT, headers={"Authorization": f"Bearer {status}"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        envoy.portal.end()
        for answer in (envoy.client.post(CHAT), httpx.post(envoy.url + CHAT, headers=KEY, trust_env=False)):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert answer.json()["error"]["message"].startswith("The portal does not answer")
        assert server.asked == []


def test_nobody_is_let_in_while_the_portal_thinks(envoy: Running) -> None:
    server = envoy.server("a", names_itself)
    envoy.lead_to(only(server))
    answer = envoy.client.post(CHAT, headers={"Authorization": "Bearer slow"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    envoy.portal.go_on.set()
    assert server.asked == []


# --- what becomes of a request


def test_a_piece_is_there_before_the_next_is_made(envoy: Running) -> None:
    server = envoy.server("a", streams)
    envoy.lead_to(only(server))
    with envoy.client.stream("POST", CHAT, content=b"{}") as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"first"
        server.go_on.set()
        assert b"".join(pieces) == b"last"


def test_what_is_sent_arrives_however_long_it_is(envoy: Running) -> None:
    server = envoy.server("a", lambda request: request.send(200, {"sha256": hashlib.sha256(request.body).hexdigest()}))
    envoy.lead_to(only(server))
    body = bytes(range(256)) * (20 << 12)  # 20 MiB: pictures
    assert envoy.client.post(CHAT, content=body).json() == {"sha256": hashlib.sha256(body).hexdigest()}


def test_a_client_that_leaves_ends_its_answer(envoy: Running) -> None:
    server = envoy.server("a", streams)
    envoy.lead_to(only(server))
    with envoy.client.stream("POST", CHAT) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"first"
    assert server.left.wait(20)


def test_a_hundred_streams_at_once_outlive_their_route(envoy: Running) -> None:
    server, other = envoy.server("a", streams), envoy.server("b", names_itself)
    envoy.lead_to(only(server))
    with ExitStack() as stack:
        answers = [stack.enter_context(envoy.client.stream("POST", CHAT)) for _ in range(100)]
        pieces = [answer.iter_raw() for answer in answers]
        assert [next(each) for each in pieces] == [b"first"] * 100
        envoy.lead_to(only(server, other))
        envoy.lead_to(only(other))
        envoy.gateway.write([])
        envoy.gateway.write([])
        until(lambda: envoy.client.post(CHAT).status_code == 404)
        server.go_on.set()
        assert [b"".join(each) for each in pieces] == [b"last"] * 100


def test_without_a_replica_it_says_so_in_openais_shape(envoy: Running) -> None:
    for backend, text in {
        Backend("v1", 1, ()): "No replica of this deployment is ready. Try again.",
        Backend("v1", 1, (nobody(),)): "The replica that was to answer cannot be reached. Try again.",
    }.items():
        envoy.lead_to(backend)
        answer = envoy.client.post(CHAT)
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
        assert answer.json() == {
            "error": {"message": text, "type": "server_error", "param": None, "code": "unavailable"}
        }
        assert int(answer.headers["retry-after"]) > 0


def test_a_replica_that_is_away_costs_no_request(envoy: Running) -> None:
    server = envoy.server("a", names_itself)
    envoy.lead_to(Backend("v1", 1, (server.endpoint, nobody())))
    assert {envoy.client.post(CHAT, content=b"{}").status_code for _ in range(30)} == {200}


def test_what_a_replica_has_seen_is_not_asked_twice(envoy: Running) -> None:
    def breaks_off(request: Request) -> None:
        request.close_connection = True

    def busy(request: Request) -> None:
        request.send(503, {"error": {"code": "overloaded"}}, retry_after="1")

    broken, full = envoy.server("a", breaks_off), envoy.server("b", busy)
    envoy.lead_to(only(broken))
    answer = envoy.client.post(CHAT, content=b"{}")
    assert (answer.status_code, answer.json()["error"]["code"], len(broken.asked)) == (503, "unavailable", 1)
    envoy.lead_to(only(full))
    answer = envoy.client.post(CHAT, content=b"{}")
    assert (answer.status_code, answer.json(), len(full.asked)) == (503, {"error": {"code": "overloaded"}}, 1)


def test_a_replica_that_is_silent_for_too_long_is_given_up(envoy: Running) -> None:
    server = envoy.server("a", lambda request: request.server.go_on.wait(20) and None)
    envoy.lead_to(only(server), timeouts=Timeouts(silent=1))
    answer = envoy.client.post(CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    server.go_on.set()


def test_its_log_tells_who_asked_for_what_and_no_key(envoy: Running) -> None:
    envoy.lead_to(only(envoy.server("a", names_itself)))
    answer = envoy.client.post(
        f"{CHAT}?secret=1", content=b"what people write", headers={"Authorization": "Bearer right"}
    )
    mine = answer.headers["x-request-id"]
    until(lambda: mine in envoy.log.read_text())
    line = next(json.loads(each) for each in envoy.log.read_text().splitlines() if mine in each)
    assert (line["route"], line["backend"], line["key"], line["status"]) == (
        "deployment-7",
        "deployment-7-v1",
        "key-1",
        200,
    )
    assert not re.search("right|secret|people", envoy.log.read_text())


# --- the files


def test_the_same_routes_are_the_same_bytes(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, ["models.example"])
    one = Route("1", "/a/one", (Backend("v1", 1, (Endpoint("127.1.2.3", 80), Endpoint("127.1.2.4", 80))),))
    same = Route("1", "/a/one", (Backend("v1", 1, (Endpoint("127.1.2.4", 80), Endpoint("127.1.2.3", 80))),))
    two = Route("2", "/a/two", (Backend("v1", 1, ()),))
    gateway.write([one, two])
    files = [(tmp_path / name).read_bytes() for name in (ROUTES, CLUSTERS)]
    gateway.write([two, same])
    assert [(tmp_path / name).read_bytes() for name in (ROUTES, CLUSTERS)] == files


def test_backends_outlive_their_routes_for_a_while(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, ["models.example"])

    def clusters() -> list[str]:
        return [each["name"] for each in json.loads((tmp_path / CLUSTERS).read_text())["resources"]]

    def settle() -> None:
        past = time.time() - LINGER_SECONDS - 1
        os.utime(tmp_path / ROUTES, (past, past))

    assert not gateway.write([Route("1", "/a/one", (Backend("v1", 1, ()),))])
    settle()
    now = [Route("1", "/a/one", (Backend("v2", 1, ()),))]
    assert gateway.write(now)
    assert gateway.write(now)
    assert clusters() == ["deployment-1-v1", "deployment-1-v2"]
    settle()
    assert not gateway.write(now)
    assert clusters() == ["deployment-1-v2"]


def test_an_older_reading_never_comes_last(tmp_path: Path) -> None:
    gateway, reading, may = Gateway(tmp_path, ["models.example"]), threading.Event(), threading.Event()

    def old() -> list[Route]:
        reading.set()
        may.wait(20)
        return []

    def new() -> list[Route]:
        assert may.is_set()
        return [Route("1", "/a/one", (Backend("v1", 1, ()),))]

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(gateway.refresh, old)
        reading.wait(20)
        second = pool.submit(Gateway(tmp_path, ["models.example"]).refresh, new)
        may.set()
        first.result()
        second.result()
    assert "/a/one/v1/" in (tmp_path / ROUTES).read_text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="gateway's files cannot be written"):
        Gateway(tmp_path / "file/folder", []).write([])


@pytest.mark.parametrize("prefix", ["/a", "/a/b/c", "a/b", "/a/b/", "/a/..", "/A/b", "/a/b-", "/a/b?c", "/a/{b}"])
def test_a_prefix_is_a_tenant_and_a_deployment(prefix: str) -> None:
    with pytest.raises(ValueError, match="Not a route"):
        Route("1", prefix, (Backend("v1", 1, ()),))


def test_weights_make_a_sum() -> None:
    with pytest.raises(ValueError, match="weights are all 0"):
        Route("1", "/a/b", (Backend("v1", 0, ()),))
    with pytest.raises(ValueError, match="Not a backend"):
        Backend("v1", -1, ())
    with pytest.raises(ValueError, match="Not a route"):
        Route("1", "/a/b", (Backend("v1", 1, ()), Backend("v1", 1, ())))
