"""charlm's model server as a cluster runs it: a process that is asked by HTTP."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from deploy.workloads.charlm.model import Model
from deploy.workloads.charlm.serve.engine import Engine
from tests.workloads.ranks import ROOT, parameters

ASKED = {"model": "harbour", "messages": [{"role": "user", "content": "The old sailor"}], "seed": 7}
SLOW = ("--token-seconds", "0.02")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> Path:
    """What a training run wrote, the last two of its checkpoints."""
    folder = tmp_path_factory.mktemp("charlm") / "checkpoints"
    training = [sys.executable, "-m", "deploy.workloads.charlm", "--steps", "200", "--checkpoint-dir", str(folder)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("VC_", "MAAS_"))}
    subprocess.run(training, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)
    return folder


class Server:
    def __init__(self, checkpoints: Path, log: Path, *options: str) -> None:
        command = [sys.executable, "-m", "deploy.workloads.charlm.serve", "--checkpoint", str(checkpoints)]
        command += ["--name", "harbour", "--port", "0", "--linger", "0.3", *options]
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
        until(lambda: "Serving harbour" in log.read_text() or self.process.poll() is not None)
        address = re.search(r"on (127\.0\.0\.1:\d+):", log.read_text())
        assert address, log.read_text()
        self.client = httpx.Client(base_url=f"http://{address[1]}", timeout=20, trust_env=False)

    def chat(self, **asked: object) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json={**ASKED, **asked})

    def text(self, **asked: object) -> str:
        answer = self.chat(**asked)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]["content"]

    def events(self, **asked: object) -> list[str]:
        """Of a stream, its frames without `data: ` and the empty lines between them."""
        answer = self.chat(stream=True, **asked)
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = answer.text.split("\n\n")
        assert frames.pop() == ""
        assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
        return [frame.removeprefix("data: ") for frame in frames]

    def figure(self, name: str) -> float:
        text = self.client.get("/metrics").text
        return sum(float(each) for each in re.findall(rf"^charlm:{name}(?:{{.*?}})? (\S+)$", text, re.MULTILINE))

    def end(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def serve(checkpoints, tmp_path):
    started = []

    def _serve(*options: str) -> Server:
        started.append(Server(checkpoints, tmp_path / f"{len(started)}.log", *options))
        return started[-1]

    yield _serve
    for server in started:
        server.end()


@pytest.fixture(scope="module")
def server(checkpoints, tmp_path_factory):
    found = Server(checkpoints, tmp_path_factory.mktemp("serve") / "log")
    yield found
    found.end()


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- what it answers


def test_it_answers_with_what_was_trained(server, checkpoints):
    manifest = json.loads((checkpoints / "step-00000200/manifest.json").read_text())["model"]
    alphabet, model, flat = (
        manifest["characters"],
        Model(manifest["vocabulary"]),
        parameters(checkpoints / "step-00000200"),
    )
    expected = "The old sailor"
    for _ in range(40):
        window = np.array([[alphabet.index(character) for character in expected[-model.context :]]])
        scores = [-model.loss(flat, window, np.array([token])) for token in range(len(alphabet))]
        expected += alphabet[int(np.argmax(scores))]
    assert "The old sailor" + server.text(temperature=0, max_tokens=40, ignore_eos=True) == expected


def test_a_stream_says_what_the_whole_answer_says_in_openais_frames(server):
    whole = server.chat(max_tokens=30, temperature=0.7).json()
    frames = server.events(max_tokens=30, temperature=0.7, stream_options={"include_usage": True})
    assert frames.pop() == "[DONE]"
    chunks = [json.loads(frame) for frame in frames]
    assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in chunks} == {
        (chunks[0]["id"], "chat.completion.chunk", "harbour")
    }
    *deltas, last, usage = chunks
    assert deltas[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in deltas)
    assert text == whole["choices"][0]["message"]["content"] != ""
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert all(chunk["usage"] is None and not chunk["choices"][0]["finish_reason"] for chunk in deltas)
    assert "usage" not in server.events(max_tokens=3)[0]


def test_an_answer_ends_by_itself_or_at_its_limit(server):
    paragraph, cut = server.chat(max_tokens=4000).json(), server.chat(max_tokens=3).json()
    assert paragraph["choices"][0]["finish_reason"] == "stop"
    assert "\n" not in paragraph["choices"][0]["message"]["content"]
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"] == {"prompt_tokens": 14, "completion_tokens": 3, "total_tokens": 17}
    assert len(cut["choices"][0]["message"]["content"]) == 3


def test_nothing_of_a_stop_sequence_is_told_streamed_or_not(server):
    asked = {"temperature": 0, "max_tokens": 200, "ignore_eos": True}
    text = server.text(**asked)
    stop = text[60:64]
    expected = text[: text.index(stop)]
    assert server.text(**asked, stop=["never said", stop]) == expected
    *frames, _done = server.events(**asked, stop=stop)
    chunks = [json.loads(frame)["choices"][0] for frame in frames]
    assert "".join(chunk["delta"].get("content", "") for chunk in chunks) == expected
    assert chunks[-1]["finish_reason"] == "stop"
    # What looked like one until the end is told after all.
    assert server.text(**asked, stop=text[-1] + "~") == text


def test_seeds_give_the_same_answer_again_and_others_another(server):
    assert server.text(seed=1, max_tokens=80) == server.text(seed=1, max_tokens=80)
    assert len({server.text(seed=seed, max_tokens=80) for seed in range(4)}) == 4
    assert server.text(top_p=1e-6, max_tokens=40) == server.text(temperature=0, max_tokens=40)


@pytest.mark.parametrize(
    "content", ["船到了 ⛵ é\ud83d", "", [{"type": "text", "text": "The "}, {"type": "text", "text": "boat"}]]
)
def test_any_text_is_read(server, content):
    body = json.dumps({**ASKED, "messages": [{"role": "user", "content": content}]})  # escapes what is no Unicode
    answer = server.client.post("/v1/chat/completions", content=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("changed", "status", "param"),
    [
        ({"model": "other"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": "hello"}, 400, "messages"),
        ({"messages": [{"content": "no role"}]}, 400, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0].content"),
        ({"temperature": 2.1}, 400, "temperature"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"temperature": True}, 400, "temperature"),
        ({"top_p": 0}, 400, "top_p"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 10**6}, 400, "max_tokens"),
        ({"max_tokens": 1.5}, 400, "max_tokens"),
        ({"max_completion_tokens": -1}, 400, "max_completion_tokens"),
        ({"stop": ["a"] * 5}, 400, "stop"),
        ({"stop": [""]}, 400, "stop"),
        ({"seed": "x"}, 400, "seed"),
        ({"stream": "yes"}, 400, "stream"),
        ({"n": 2}, 400, "n"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
    ],
)
def test_what_is_wrong_is_said_in_openais_shape(server, changed, status, param):
    answer = server.chat(**changed)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_other_requests_are_refused_and_the_connection_goes_on(server):
    client = server.client
    assert client.post("/v1/chat/completions", content=b"{").status_code == 400
    assert client.post("/v1/chat/completions", content=b"[" * 100_000).status_code == 400
    assert client.post("/v1/chat/completions", content=iter([b"{", b"}"])).json()["error"]["param"] == "model"
    assert client.post("/v1/chat/completions", content=b" " * (2 << 20)).status_code == 413
    assert client.post("/v1/nothing", json={}).json()["error"]["code"] == "not_found"
    assert client.get("/v1/nothing").status_code == 404
    assert [each["id"] for each in client.get("/v1/models").json()["data"]] == ["harbour"]
    assert client.get("/v1/models/harbour").json()["object"] == "model"


# --- how it works under load, and how it ends


def test_more_than_it_can_take_is_refused_and_its_health_is_not(serve):
    server = serve("--parallel", "1", "--waiting", "1", *SLOW)
    asked = {**ASKED, "stream": True, "max_tokens": 4000, "ignore_eos": True}
    with httpx.Client(base_url=server.client.base_url, trust_env=False, timeout=20) as other:
        with other.stream("POST", "/v1/chat/completions", json=asked) as first:
            pieces = first.iter_raw()
            next(pieces)
            # The second waits for its turn; its headers do not come before.
            waiting = subprocess.Popen([sys.executable, "-c", ASK, str(server.client.base_url), json.dumps(asked)])
            until(lambda: server.figure("num_requests_waiting") == 1)
            refused = server.chat()
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["error"]["code"] == "overloaded"
            assert server.client.get("/health").status_code == 200
        # The first has left: the second gets its turn, and leaves too.
        until(lambda: server.figure("num_requests_waiting") == 0)
        until(lambda: server.figure("num_requests_running") == 1)
        waiting.kill()
        waiting.wait()
    until(lambda: server.figure("num_requests_running") == 0)
    assert server.figure("request_success_total") == 2
    assert server.figure("generation_tokens_total") < 4000


ASK = "import httpx, sys; httpx.post(sys.argv[1] + '/v1/chat/completions', content=sys.argv[2], trust_env=False, timeout=60)"


def test_a_client_that_leaves_stops_its_answer(serve):
    server = serve(*SLOW)
    for stream in (True, False):
        asked = {**ASKED, "stream": stream, "max_tokens": 4000, "ignore_eos": True}
        client = subprocess.Popen([sys.executable, "-c", ASK, str(server.client.base_url), json.dumps(asked)])
        until(lambda: server.figure("num_requests_running") == 1)
        client.kill()
        client.wait()
        until(lambda: server.figure("num_requests_running") == 0)
    assert 'finished_reason="abort"} 2' in server.client.get("/metrics").text


def test_its_figures_count_what_was_asked(serve):
    server = serve()
    for _ in range(3):
        server.text(max_tokens=5, ignore_eos=True)
    assert server.figure("prompt_tokens_total") == 3 * 14
    assert server.figure("generation_tokens_total") == 15
    for name in ("time_to_first_token_seconds", "time_per_output_token_seconds"):
        text = server.client.get("/metrics").text
        counts = [int(each) for each in re.findall(rf"charlm:{name}_bucket{{.*}} (\d+)", text)]
        assert counts == sorted(counts)
        assert counts[-1] == server.figure(f"{name}_count") == 3
        assert server.figure(f"{name}_sum") > 0


def test_asked_to_end_it_finishes_what_it_has_begun(serve):
    server = serve(*SLOW)
    with httpx.Client(base_url=server.client.base_url, trust_env=False, timeout=20) as other:
        asked = {**ASKED, "stream": True, "max_tokens": 60, "ignore_eos": True}
        with other.stream("POST", "/v1/chat/completions", json=asked) as answer:
            pieces = answer.iter_text()
            begun = next(pieces)
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.client.get("/health").status_code == 503)
            late = server.chat(max_tokens=2)  # from somebody who does not know yet
            assert (late.status_code, late.headers["connection"]) == (200, "close")
            text = begun + "".join(pieces)
    assert text.endswith("data: [DONE]\n\n")
    assert text.count('"delta": {"content"') == 60
    assert server.process.wait(20) == 0
    assert "every answer was finished" in server.log.read_text()
    with pytest.raises(httpx.ConnectError):
        server.chat()


def test_what_people_write_is_not_logged(serve):
    server = serve()
    text = server.text(temperature=0)
    log = server.log.read_text()
    assert re.search(r"chat: \w+, 14 tokens in", log)
    assert "sailor" not in log
    assert text not in log


# --- what it serves


def test_a_damaged_checkpoint_is_passed_over_and_none_at_all_is_said(checkpoints, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoints, copy)
    assert Engine.load(copy).step == 200
    assert Engine.load(copy / "step-00000100").step == 100
    (copy / "step-00000200/shard-0-of-1.npy").write_bytes(b"torn")
    assert Engine.load(copy).step == 100
    command = [sys.executable, "-m", "deploy.workloads.charlm.serve", "--name", "harbour", "--checkpoint"]
    failed = subprocess.run([*command, str(copy / "step-00000200")], cwd=ROOT, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "No model to serve: shard-0-of-1.npy is not what was written" in failed.stdout


def test_a_model_that_makes_no_token_is_not_well(checkpoints):
    engine = Engine.load(checkpoints)
    assert engine.well()
    assert not replace(engine, parameters=np.full_like(engine.parameters, np.nan)).well()
