"""How each case ends on a cluster: matched, refused, wrong, or skipped for want of something."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import yaml

from tests.localcluster.contract.cases import Case, load, steps
from tests.localcluster.contract.replay import Refused, Replay
from tests.localcluster.contract.rows import HISTORY, KWOK, LOGS, NODES, SCHEDULER, VOLCANO_1_13, WEBHOOKS, Row

LEFT: dict[str, tuple[str, str]] = {
    name: (outcome, why)
    for outcome, reasons in yaml.safe_load(Path(__file__).with_name("left.yaml").read_text()).items()
    for why, names in reasons.items()
    for name in names
}
"""What the small cluster owes and does not give: outcome and reason, by case."""

RECORDED_WITH = {
    "12-preempted-victim": KWOK,
    "12-taint-noexecute": KWOK,
    "10-volcano-job-negative": VOLCANO_1_13,
    "10-volcano-queue": VOLCANO_1_13,
}
"""Cases that show how these behave, not how Kubernetes does."""

BROKEN_OFF = {"11-timeout-param"}
"""Where kube-apiserver answers or breaks the connection off: its timeout comes as the handler begins to answer for the same
reason, and an answer that has begun cannot be made another."""

NAMESPACE = re.compile(r"/api/v1/namespaces/c-[^/]+")
SCHEDULED = re.compile("default-scheduler|FailedScheduling|reason=Scheduled|Unschedulable")
FLEET_NODE = re.compile(r'"(?:train|infer|cpu|npu)-\d{4}"')


def needs(case: Case) -> set[str]:
    """What it leans on that not every cluster has."""
    text = json.dumps(case)
    found = set()
    if "method" not in case["request"]:
        found.add("a node agent to hold still, and minutes")
    if "signed by the cluster" in text:
        found.add("the key that signs tokens")
    if "<port>" in text:
        found.add(WEBHOOKS)
    if case["id"].startswith("12-") or FLEET_NODE.search(text):
        found.add(NODES)
    if SCHEDULED.search(text):
        found.add(SCHEDULER)
    if (
        "-log-" in case["id"]
        and case["response"]["status"] == 200
        and "2026-01-01T" in json.dumps([case["request"], case["response"]])
    ):
        found.add(LOGS)
    if "revision 1" in case.get("note", ""):
        found.add(HISTORY)
    return found | {RECORDED_WITH[name] for name in (case["id"],) if name in RECORDED_WITH}


def in_order() -> list[str]:
    """Ids; those that delete a namespace come first, before there are many to delete, and those that need an old store
    last, when it has had time to forget."""

    def turn(name: str) -> int:
        case = load()[name]
        deleted = {step["path"] for step in steps(case) if step["method"] == "DELETE"}
        return 2 if HISTORY in needs(case) else 0 if any(map(NAMESPACE.fullmatch, deleted)) else 1

    return sorted(load(), key=turn)


def outcome(row: Row, case: Case) -> tuple[str, str]:
    """(outcome, why)"""
    lacking = needs(case) - row.has
    if lacking:
        return "skipped", f"it needs {', '.join(sorted(lacking))}"
    try:
        Replay(row, case).run()
    except Refused as refused:
        return "refused", str(refused)
    except AssertionError as wrong:
        return "wrong", str(wrong)
    except httpx.HTTPError as broken:
        if case["id"] in BROKEN_OFF and isinstance(broken, httpx.RemoteProtocolError) and not row.offers_less:
            return "skipped", "it was broken off, as may be"
        return "wrong", f"no answer: {broken!r}"
    return "matched", ""
