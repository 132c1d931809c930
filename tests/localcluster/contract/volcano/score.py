"""How each case ends on a cluster: matched, refused, wrong, or skipped for want of something."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import yaml

from tests.localcluster.contract.replay import Refused
from tests.localcluster.contract.volcano.cluster import Object
from tests.localcluster.contract.volcano.ground import nodes
from tests.localcluster.contract.volcano.replay import Replay
from tests.localcluster.contract.volcano.sites import Site, Skipped
from tests.localcluster.volcano_cases import every_case

LEFT: dict[tuple[str, str], tuple[str, str]] = {
    (site, name): (outcome, why)
    for site, outcomes in yaml.safe_load(Path(__file__).with_name("left.yaml").read_text()).items()
    for outcome, reasons in (outcomes or {}).items()
    for why, names in reasons.items()
    for name in names
}
"""What does not match where our stand-in works: outcome and reason, by row and case."""

SOON = frozenset(
    {
        "01-bare-pod",
        "04-delete-queue-with-running-job",
        "04-move-job-to-other-queue",
        "04-parent-child-sums",
        "04-root-queue",
        "04-unknown-queue",
        "05-delete-job",
        "05-pod-identity",
        "05-podfailed-restartjob",
        "05-restart-policy-on-failure",
        "05-ttl-zero",
        "06-all-together",
        "06-ray",
        "07-namespace-quota-pods",
        "07-scheduling-gates",
        "08-cordon",
        "08-evict-no-policy",
        "09-queue-no-spec",
        "10-apply-full-twice",
        "10-apply-twice",
        "10-delete-and-create-same-name",
        "10-labels-annotations",
        "10-scale-down-with-min",
        "10-scale-up-waiting-gang",
        "12-name-58-eleven-pods-svc",
    }
)
"""What `make test` asks: cases that the tests in memory (test_volcano_*.py) do not replay, one of each sort."""


@cache
def load() -> dict[str, Object]:
    """By id; those of one scheduler configuration and one fleet follow each other, the large fleets last."""
    found = {case["id"]: case for case in every_case()}

    def turn(name: str) -> tuple[bool, str, int]:
        setting, fleet = found[name]["scheduler"], found[name]["fleet"]
        return setting != "testbed", setting, len(nodes(fleet))

    return {name: found[name] for name in sorted(found, key=turn)}


def outcome(site: Site, case: Object) -> tuple[str, str]:
    """(outcome, why)"""
    if wanted := [step["install"] for step in case["objects"] if "install" in step]:
        return "skipped", f"it needs {wanted[0]}"
    try:
        site.use(case["scheduler"])
        site.ground.prepare(case["fleet"])
        threading.Event().wait(site.settle[_deletes_a_job(case)])
        site.recorder.clear()
        Replay(site.cluster, site.recorder, case).run()
    except Skipped as skipped:
        return "skipped", str(skipped)
    except Refused as refused:
        return "refused", str(refused)
    except AssertionError as wrong:
        return "wrong", str(wrong)
    finally:
        if _touches_nodes(case):
            site.ground.spoil()
    return "matched", ""


def _deletes_a_job(case: Object) -> bool:
    return any(str(step.get("delete")).startswith("Job/") for step in case["objects"])


def _touches_nodes(case: Object) -> bool:
    targets = [str(step.get("patch") or step.get("delete") or "") for step in case["objects"]]
    silent = any("node_silent" in step or (step.get("create") or {}).get("kind") == "Node" for step in case["objects"])
    return silent or any(target.startswith("Node") for target in targets)
