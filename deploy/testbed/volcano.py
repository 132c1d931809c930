"""Volcano's own scheduler, controllers and webhooks, from a folder in which somebody has built them.

The folder holds `scheduler`, `controller-manager`, `webhook-manager` and, in `crds/`, the definitions of the same
version (docs/developers/testbed.md).
"""

from __future__ import annotations

import base64
from pathlib import Path

from deploy.local.home import Home
from deploy.local.program import Failed, Missing, NotReady, Program, listening, wait_until
from deploy.testbed.api import Api, Object
from deploy.testbed.certificates import serving
from deploy.testbed.processes import Processes

PORTS = ("volcano-webhooks", "volcano-controllers", "volcano-scheduler")
"""The last two answer for their health; metrics are not asked for."""

NO_CSI_DRIVERS = ("localcluster/folder",)
"""Provisioners of storage classes here: our node agent's."""

CONFIGURATION = Path(__file__).with_name("volcano-scheduler.conf")
NAMESPACE = "volcano-system"
OPEN_SECONDS = 60

BATCH, SCHEDULING, TOPOLOGY = (
    "batch.volcano.sh/v1alpha1",
    "scheduling.volcano.sh/v1beta1",
    "topology.volcano.sh/v1alpha1",
)
REVIEWED = {
    ("mutate", "jobs"): (BATCH, "CREATE"),
    ("validate", "jobs"): (BATCH, "CREATE", "UPDATE"),
    ("mutate", "queues"): (SCHEDULING, "CREATE"),
    ("validate", "queues"): (SCHEDULING, "CREATE", "UPDATE", "DELETE"),
    ("mutate", "podgroups"): (SCHEDULING, "CREATE"),
    ("validate", "podgroups"): (SCHEDULING, "CREATE"),
    ("validate", "hypernodes"): (TOPOLOGY, "CREATE", "UPDATE"),
}
"""What its webhooks are asked about: (what they do, resource) -> (group/version, operations…)."""


def start(processes: Processes, api: Api, kubeconfig: Path, folder: Path) -> None:
    """Returns once jobs are admitted. Raises Missing, Failed."""
    home = processes.home
    for name in ("scheduler", "controller-manager", "webhook-manager"):
        if not (folder / name).is_file():
            raise Missing(f"{folder} has no {name}: it is no folder with Volcano's programs")
    certificate, key = serving(home.private_dir("pki"), "volcano-webhooks")
    # The webhook manager keeps its objects there, and leaves the namespace to whoever installs it.
    api.apply(f"/api/v1/namespaces/{NAMESPACE}", _object("v1", "Namespace", NAMESPACE))
    # It waits for the configurations, which it looks for under their names, before it serves.
    address = f"https://127.0.0.1:{home.ports()['volcano-webhooks']}"
    for configuration in webhook_configurations(address, certificate.read_bytes()):
        kind, name = configuration["kind"].lower(), configuration["metadata"]["name"]
        api.apply(f"/apis/admissionregistration.k8s.io/v1/{kind}s/{name}", configuration)
    for program in (
        _webhooks(home, folder, kubeconfig, (certificate, key)),
        _controllers(home, folder, kubeconfig),
        _scheduler(home, folder, kubeconfig),
    ):
        processes.start(program)
    _await_default_queue(api)


def webhook_configurations(address: str, authority: bytes) -> list[Object]:
    """The objects that make the API server ask the webhooks at `address`."""
    found = []
    for (deed, resource), (version, *operations) in REVIEWED.items():
        group, number = version.split("/")
        rule = {"apiGroups": [group], "apiVersions": [number], "resources": [resource], "operations": operations}
        hook = {
            "name": f"{deed}-{resource}.volcano.sh",
            "clientConfig": {"url": f"{address}/{resource}/{deed}", "caBundle": base64.b64encode(authority).decode()},
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Fail",
        }
        kind = "MutatingWebhookConfiguration" if deed == "mutate" else "ValidatingWebhookConfiguration"
        name = f"volcano-admission-service-{resource}-{deed}"
        found.append(_object("admissionregistration.k8s.io/v1", kind, name) | {"webhooks": [hook]})
    return found


def _object(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _program(home: Home, name: str, command: tuple[object, ...]) -> Program:
    check = listening(home.ports()[f"volcano-{name}"])
    return Program(f"volcano-{name}", f"Volcano's {name}", tuple(map(str, command)), check, stop_seconds=3)


def _webhooks(home: Home, folder: Path, kubeconfig: Path, pair: tuple[Path, Path]) -> Program:
    port, paths = home.ports()["volcano-webhooks"], (f"/{resource}/{deed}" for deed, resource in REVIEWED)
    command = (
        folder / "webhook-manager",
        f"--kubeconfig={kubeconfig}",
        f"--tls-cert-file={pair[0]}",
        f"--tls-private-key-file={pair[1]}",
        f"--ca-cert-file={pair[0]}",
        f"--webhook-url=https://127.0.0.1:{port}",
        f"--port={port}",
        "--listen-address=127.0.0.1",
        f"--enabled-admission={','.join(paths)}",
    )
    return _program(home, "webhooks", command)


def _controllers(home: Home, folder: Path, kubeconfig: Path) -> Program:
    command = (folder / "controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    return _program(home, "controllers", (*command, *_health(home, "controllers")))


def _scheduler(home: Home, folder: Path, kubeconfig: Path) -> Program:
    command = (folder / "scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--v=3")
    configuration = f"--scheduler-conf={CONFIGURATION}"
    # It takes the provisioner of every claim for a CSI driver, of whose volumes no queue and no node has any.
    ignored = f"--ignored-provisioners={','.join(NO_CSI_DRIVERS)}"
    return _program(home, "scheduler", (*command, configuration, ignored, *_health(home, "scheduler")))


def _health(home: Home, name: str) -> tuple[str, str]:
    return "--enable-healthz=true", f"--healthz-address=127.0.0.1:{home.ports()[f'volcano-{name}']}"


def _await_default_queue(api: Api) -> None:
    """Jobs are refused until it is open."""

    def opened() -> None:
        queues = api.get("/apis/scheduling.volcano.sh/v1beta1/queues")["items"]
        if not any(q["metadata"]["name"] == "default" and q.get("status", {}).get("state") == "Open" for q in queues):
            raise NotReady("its default queue is not open")

    try:
        wait_until(opened, OPEN_SECONDS)
    except NotReady as error:
        raise Failed(f"Volcano does not take jobs after {OPEN_SECONDS} s: {error}") from error
