"""One recorded case against one cluster."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from tests.localcluster.contract import cases, offered, streams
from tests.localcluster.contract.cases import OWES_REASON, Case, pointed
from tests.localcluster.contract.exchange import Answer, Exchange
from tests.localcluster.contract.matching import STATUS_CODE, Comparison, fits, header_difference
from tests.localcluster.contract.rows import APPENDED, LOGS, Row
from tests.localcluster.contract.traces import Traces
from tests.localcluster.contract.webhook import Webhook, webhook


class Refused(Exception):
    """405, 501 or 404: the cluster says that it does not do this."""


class Replay:
    def __init__(self, row: Row, case: Case) -> None:
        self.row, self.case = row, case
        self.exchange = Exchange(row)
        self.traces = Traces(self.exchange, case)
        self.names: dict[str, str] = {}
        self.hook: Webhook | None = None
        self.own_words = case["embedded"] == OWES_REASON

    def run(self) -> None:
        """Raises AssertionError with the first difference, Refused."""
        with ExitStack() as stack:
            stack.callback(self.exchange.close)
            self.traces.prepare()
            stack.callback(self.traces.undo)
            if "<port>" in json.dumps(self.case["setup"]):
                said = re.search(r"the webhook answers (\{.*\})", self.case.get("note", ""))
                self.hook = stack.enter_context(webhook(json.loads(said[1]) if said else None))
            hanging = stack.enter_context(ThreadPoolExecutor(16))
            for step in self.case["setup"]:
                self._prepare(step, hanging)
            self._fill_namespace()
            self._ask()

    # --- what comes before ------------------------------------------------------------------------------------------

    def _prepare(self, step: dict[str, Any], hanging: ThreadPoolExecutor) -> None:
        if "sleep_seconds" in step:
            threading.Event().wait(step["sleep_seconds"])
        elif "wait_for" in step:
            self._wait_for(cases.filled(step["wait_for"], self.names))
        elif "method" in step:
            self._set_up(self._filled(step))
        elif found := re.search(r"(\d+) creates by the same user hang", step.get("note", "")):
            user = cases.filled(self.case["request"]["user"], self.names)
            path = f"/api/v1/namespaces/{self.traces.own[0]}/configmaps"
            for number in range(int(found[1])):
                body = {"metadata": {"name": f"hanging-{number}"}}
                hanging.submit(self.exchange.send, {"method": "POST", "path": path, "user": user, "body": body})
            threading.Event().wait(1)

    def _filled(self, step: dict[str, Any]) -> dict[str, Any]:
        step = dict(cases.filled(step, self.names))
        if "body_ref" in step:
            step["body"] = cases.body_of(step["body_ref"])
        if self.hook and "body" in step:
            text = json.dumps(step["body"]).replace("<port>", str(self.hook.port))
            step["body"] = json.loads(text.replace("<ca>", self.hook.authority))
        return step

    def _set_up(self, step: dict[str, Any]) -> None:
        self.traces.about_to(step)
        wanted = step["status"] if isinstance(step["status"], list) else [step["status"]]
        if step["path"] == "/api/v1/nodes":
            wanted = [*wanted, 409]  # several cases lean on the same node
        answer = self.exchange.send(step, patient=429 not in wanted)
        if answer.status not in wanted:
            self._refused(answer)
            raise AssertionError(f"setup {step['method']} {step['path']}: {answer}")
        for name, pointer in step.get("save", {}).items():
            self.names[name] = str(pointed(answer.json, pointer))
        if "response_body" in step:
            wanted_body = cases.filled(step["response_body"], self.names)
            found = Comparison(part=True).difference(wanted_body, answer.json)
            assert found is None, f"setup {step['method']} {step['path']}: {found}"

    def _wait_for(self, wanted: dict[str, Any]) -> None:
        deadline, pause = time.monotonic() + self.row.patience, threading.Event()
        while True:
            answer = self.exchange.send({"method": "GET", "path": wanted["path"]}, patient=True)
            value = pointed(answer.json, wanted["at"]) if "at" in wanted else None
            fine = wanted.get("contains", "") in json.dumps(value) and value == wanted.get("equals", value)
            if answer.status == wanted["status"] and fine:
                return
            if time.monotonic() > deadline:
                self._refused(answer)
                raise AssertionError(f"waited in vain for {wanted}: {answer.text[:300]}")
            pause.wait(0.1)

    def _fill_namespace(self) -> None:
        if found := re.search(r"holds (\d+) ConfigMaps of (\d+) kB", self.case["request"].get("note", "")):
            path, text = f"/api/v1/namespaces/{self.traces.own[0]}/configmaps", "x" * 1000 * int(found[2])
            for number in range(int(found[1])):
                self.exchange.ask("POST", path, {"metadata": {"name": f"large-{number}"}, "data": {"k": text}})

    # --- the request that counts ------------------------------------------------------------------------------------

    def _ask(self) -> None:
        request = self._filled(self.case["request"])
        wanted = cases.filled(self.case["response"], self.names)
        self.traces.about_to(request)
        if "ended_by" in wanted:
            self._follow(request, wanted)
            return
        if "at_once" in request:
            self._judge(wanted, self._at_once(request, wanted))
        else:
            self._await_answer(request, wanted)
        if "timeline" in wanted:
            self._await_kind(request["body"]["spec"], wanted["timeline"])
        for event in wanted.get("events", []):
            self._find_event(event)

    def _await_answer(self, request: dict[str, Any], wanted: dict[str, Any]) -> None:
        """A read is repeated where controllers had a hand in what is read: they may still be at it."""
        settling = request["method"] == "GET" and any("wait_for" in step for step in self.case["setup"])
        deadline, pause = time.monotonic() + (self.row.patience if settling else 0), threading.Event()
        while True:
            try:
                return self._judge(wanted, self.exchange.send(request))
            except AssertionError:
                if time.monotonic() >= deadline:
                    raise
            pause.wait(0.3)

    def _judge(self, wanted: dict[str, Any], answer: Answer) -> None:
        found = None
        if answer.status != wanted["status"]:
            found = f"{answer}, not {wanted['status']}"
        found = found or header_difference(
            wanted.get("headers", {}), answer.headers, answer.status, own_words=self.own_words
        )
        found = found or self._body_difference(wanted, answer)
        if found:
            self._refused(answer)
            raise AssertionError(found)
        if "deletionTimestamp_minus_now_seconds" in wanted:
            ends = datetime.fromisoformat(answer.json["metadata"]["deletionTimestamp"])
            away = (ends - datetime.now(UTC)).total_seconds()
            assert abs(away - wanted["deletionTimestamp_minus_now_seconds"]) < 4, f"it ends in {away} s"
        if "token_claims" in wanted:
            _judge_token(wanted, answer.json["status"]["token"])

    def _body_difference(self, wanted: dict[str, Any], answer: Answer) -> str | None:
        kind = wanted.get("body_is", "")
        if "body" in wanted:
            body, got = wanted["body"], answer.json
            if self.own_words and body.get("status") == "Failure":
                same = isinstance(got, dict) and all(got.get(key) == body.get(key) for key in STATUS_CODE)
                return None if same else f"{answer.text[:300]}, not {body}"
            if self.row.offers_less and offered.tells_of_version(body) and offered.tells_of_version(got):
                return offered.difference(self.exchange, body, got)
            return self._comparison(kind).difference(body, got)
        if "bytes_on_the_wire" in wanted:
            return None if len(answer.wire) * 4 < len(answer.text) else f"{len(answer.wire)} bytes came"
        if "body_text" not in wanted or (self.own_words and wanted["status"] >= 300):
            return None
        text, got = wanted["body_text"], answer.text
        got = got[: len(text)] if kind == "beginning" else got
        return None if fits(text, got) else f"{got[:300]!r}, not {text[:300]!r}"

    def _comparison(self, kind: str) -> Comparison:
        return Comparison(
            part=kind.startswith("part"),
            shortened="shortened" in kind,
            any_order=bool(self.case.get("order_varies")),
            own_words=self.own_words,
            repeated=self.case["id"].startswith("12-"),
        )

    def _refused(self, answer: Answer) -> None:
        """Raises Refused where the cluster says that it does not do this."""
        if answer.refuses:
            raise Refused(str(answer))

    def _at_once(self, request: dict[str, Any], wanted: dict[str, Any]) -> Answer:
        """Copies side by side, their names numbered; gives one that was answered with the recorded status."""
        text = json.dumps(request)
        name = pointed(request, "/body/metadata/name") or ""
        copies = [
            json.loads(text.replace(json.dumps(name), json.dumps(f"{name[:-1]}{number}")))
            for number in range(request["at_once"])
        ]
        with ThreadPoolExecutor(len(copies)) as pool:
            answers = list(pool.map(self.exchange.send, copies))
        statuses = sorted(answer.status for answer in answers)
        assert statuses == sorted(wanted.get("statuses", statuses))
        assert set(statuses) <= set(wanted.get("statuses_seen", statuses))
        return next((answer for answer in answers if answer.status == wanted["status"]), answers[0])

    def _await_kind(self, spec: dict[str, Any], timeline: dict[str, Any]) -> None:
        """A new kind is there after a while; until then come only the answers that were recorded."""
        version, plural = spec["versions"][0]["name"], spec["names"]["plural"]
        path = f"/apis/{spec['group']}/{version}/namespaces/{self.traces.own[0]}/{plural}"
        allowed = {answer["status"] for answers in timeline.values() for answer in answers}
        deadline, pause = time.monotonic() + self.row.patience, threading.Event()
        while (answer := self.exchange.send({"method": "GET", "path": path})).status != 200:
            assert answer.status in allowed, str(answer)
            assert time.monotonic() < deadline, str(answer)
            pause.wait(0.05)

    def _find_event(self, wanted: dict[str, Any]) -> None:
        comparison = Comparison(part=True, own_words=self.own_words)
        deadline, pause = time.monotonic() + self.row.patience, threading.Event()
        while True:
            listed = self.exchange.ask("GET", f"/api/v1/namespaces/{self.traces.own[0]}/events").json["items"]
            if any(comparison.difference(wanted, event) is None for event in listed):
                return
            assert time.monotonic() < deadline, f"no event like {wanted}"
            pause.wait(0.3)

    def _follow(self, request: dict[str, Any], wanted: dict[str, Any]) -> None:
        def meanwhile() -> None:
            for step in request.get("during", []):
                threading.Event().wait(step["after_seconds"])
                filled = self._filled(step)
                self.traces.about_to(filled)
                answer = self.exchange.send(filled, patient=True)
                assert answer.status == step["status"], f"meanwhile {step['method']} {step['path']}: {answer}"
            if "lines" in wanted and LOGS in self.row.has and self.row.pod_log:
                threading.Event().wait(0.8)
                with self.row.pod_log.open("a") as log:
                    log.write(APPENDED)

        stream = streams.follow(self.exchange, request, wanted, meanwhile)
        self._judge({key: wanted[key] for key in ("status", "headers")}, stream.head)
        streams.judge(stream, wanted, self._comparison(wanted.get("body_is", "")))


def _judge_token(wanted: dict[str, Any], token: str) -> None:
    part = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert abs(claims["exp"] - claims["iat"] - wanted["lifetime_seconds"]) <= 1
    assert Comparison().difference(wanted["token_claims"], claims) is None
