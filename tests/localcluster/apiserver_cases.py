"""Replays recorded requests of a real API server and compares the answers.

A case has `setup` steps, one `request` and its `response`. Values in angle brackets stand for anything of that form;
`${name}` is a value that a setup step has saved. `embedded` says how close the answer must come.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import httpx

CASES = Path(__file__).parents[1] / "cases/kubernetes/apiserver"
FORMS = {
    "uid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "rv": r"\d+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    "continue": r"[\w=+/-]+",
    "jwt": r"[\w-]+\.[\w-]+\.[\w-]+",
    "suffix": r"[a-z0-9]+",
    "text": r".*",
    "server": r"[\w.:]+",
    "ip": r"[0-9a-f.:]+",
    "exp": r"\d+",
    "iat": r"\d+",
    "nbf": r"\d+",
}
PLACEHOLDER = re.compile("<(" + "|".join(FORMS) + ")>")
NEVER_UNASKED = {"warning", "retry-after", "location", "allow", "www-authenticate"}


def load() -> list[dict[str, Any]]:
    return [case for path in sorted(CASES.glob("*.json")) for case in json.loads(path.read_text())]


def fits(wanted: str, got: Any) -> bool:
    if isinstance(got, int) and not isinstance(got, bool) and PLACEHOLDER.fullmatch(wanted):
        got = str(got)
    parts = PLACEHOLDER.split(wanted)
    pattern = "".join(FORMS[part] if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return isinstance(got, str) and re.fullmatch(pattern, got, re.DOTALL) is not None


def difference(wanted: Any, got: Any, part: bool, path: str = "") -> str | None:
    """The first difference, None when there is none. `part`: only what was recorded counts, null is "anything"."""
    if wanted is None and part:
        return None
    if isinstance(wanted, dict) and isinstance(got, dict):
        seen = set()
        for name, value in wanted.items():
            key = next((key for key in got if key == name or fits(name, key)), None)
            if key is None:
                return f"{path}/{name} is missing"
            seen.add(key)
            if found := difference(value, got[key], part, f"{path}/{key}"):
                return found
        extra = set() if part else got.keys() - seen - {"managedFields"}
        return f"{path}/{min(extra)} was not recorded" if extra else None
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return f"{path} has {len(got)} items, not {len(wanted)}"
        pairs = enumerate(zip(wanted, got, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, part, f"{path}/{i}"))), None)
    same = fits(wanted, got) if isinstance(wanted, str) else wanted == got and type(wanted) is type(got)
    return None if same else f"{path} is {got!r}, not {wanted!r}"


def pointed(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


class Replay:
    """One case against one server."""

    def __init__(self, server: str, token: str, trust: ssl.SSLContext, case: dict[str, Any]) -> None:
        self.server, self.token, self.trust, self.case = server, token, trust, case
        self.client = httpx.Client(verify=trust, trust_env=False, timeout=30)
        self.names: dict[str, str] = {}
        self.exact = not case["embedded"].startswith("code and reason")

    def run(self) -> None:
        with self.client:
            for step in self.case["setup"]:
                self._step(self._filled(step))
            request, wanted = self._filled(self.case["request"]), self._filled(self.case["response"])
            if "ended_by" in wanted:
                self._watch(request, wanted)
            else:
                self._judge(wanted, self.client.send(self._build(request)))

    def _filled(self, value: Any) -> Any:
        text = json.dumps(value)
        for name, saved in self.names.items():
            text = text.replace("${" + name + "}", json.dumps(saved)[1:-1])
        return json.loads(text)

    def _build(self, request: dict[str, Any]) -> httpx.Request:
        headers = dict(request.get("headers", {}))
        content = request.get("body_text", "").encode()
        if "body" in request:
            content = json.dumps(request["body"], ensure_ascii=False).encode()
            headers.setdefault("Content-Type", "application/json")
        if request.get("user") != "none":
            headers["Authorization"] = f"Bearer {request.get('user', self.token)}"
        # The path goes as it is: httpx would tidy `//` away.
        target = request["path"] + ("?" + str(httpx.QueryParams(request["query"])) if "query" in request else "")
        return httpx.Request(
            request["method"],
            self.server,
            headers=headers,
            content=content,
            extensions={"target": target.encode(), "timeout": httpx.Timeout(30).as_dict()},
        )

    def _step(self, step: dict[str, Any]) -> None:
        if "sleep_seconds" in step:
            time.sleep(step["sleep_seconds"])
        elif "wait_for" in step:
            self._wait_for(step["wait_for"])
        elif "method" in step:
            answer = self.client.send(self._build(step))
            wanted = step["status"] if isinstance(step["status"], list) else [step["status"]]
            if step["path"] == "/api/v1/nodes":
                wanted = [*wanted, 409]  # several cases lean on the same node
            assert answer.status_code in wanted, f"setup {step['method']} {step['path']}: {answer.text[:300]}"
            for name, pointer in step.get("save", {}).items():
                self.names[name] = str(pointed(answer.json(), pointer))

    def _wait_for(self, wanted: dict[str, Any]) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            answer = self.client.send(self._build({"method": "GET", "path": wanted["path"]}))
            value = pointed(answer.json(), wanted["at"]) if "at" in wanted else None
            fine = wanted.get("contains", "") in json.dumps(value) and value == wanted.get("equals", value)
            if answer.status_code == wanted["status"] and fine:
                return
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for {wanted}")

    def _judge(self, wanted: dict[str, Any], answer: httpx.Response) -> None:
        assert answer.status_code == wanted["status"], answer.text[:500]
        for name, value in wanted.get("headers", {}).items() if self.exact else ():
            values = value if isinstance(value, list) else [value]
            assert answer.headers.get_list(name) == values, name
        recorded = {name.lower() for name in wanted.get("headers", {})}
        assert not self.exact or not NEVER_UNASKED & {name.lower() for name in answer.headers} - recorded
        if "ended_by" in wanted:
            return
        if not self.exact and wanted["status"] >= 400:
            assert answer.json().get("reason") == wanted["body"].get("reason"), answer.text[:300]
        elif "body" in wanted:
            found = difference(wanted["body"], answer.json(), wanted.get("body_is", "").startswith("part"))
            assert found is None, found
        else:
            assert fits(wanted.get("body_text", ""), answer.text), answer.text[:300]

    def _watch(self, request: dict[str, Any], wanted: dict[str, Any]) -> None:
        recorded = [event for event in wanted["events"] if not _is_plain_bookmark(event)]
        writer = threading.Thread(target=self._meanwhile, args=(request.get("during", []),))
        response = self.client.send(self._build(request), stream=True)
        try:
            self._judge(wanted, response)
            writer.start()
            events = []
            for line in response.iter_lines():
                event = json.loads(line)
                if not _is_plain_bookmark(event):
                    events.append(event)
                if wanted["ended_by"] == "client" and len(events) >= len(recorded):
                    break
        finally:
            response.close()
            writer.join(10)
        for index, (a, b) in enumerate(zip(recorded, events, strict=True)):
            a.pop("_at", None)
            whole = a["type"] in ("ERROR", "BOOKMARK")
            found = difference(a, b, not whole)
            assert found is None, f"event {index}: {found}"

    def _meanwhile(self, steps: list[dict[str, Any]]) -> None:
        with httpx.Client(verify=self.trust, trust_env=False) as client:
            for step in steps:
                time.sleep(step["after_seconds"])
                client.send(self._build(self._filled(step)))


def _is_plain_bookmark(event: dict[str, Any]) -> bool:
    return event["type"] == "BOOKMARK" and "annotations" not in event["object"]["metadata"]
