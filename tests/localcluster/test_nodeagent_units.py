"""The node agent's pure parts: environment, images, slots, restarts, status, addresses, hosts, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.localcluster.nodeagent import fleet, images, network, quantity, restarts, slots, status, volumes
from apps.localcluster.nodeagent.environment import ConfigError, Facts, environment, expand, field_value
from apps.localcluster.nodeagent.probes import Tally
from apps.localcluster.nodeagent.records import Attempt
from apps.localcluster.nodeagent.restarts import Later, Start, Stay
from apps.localcluster.nodeagent.status import Seen, Waiting

ROOT = Path(__file__).resolve().parents[2]


def pod(name: str = "p", **more: Any) -> dict[str, Any]:
    spec = {"nodeName": "gpu-0000", "containers": [{"name": "main", "image": "maas/shell:1"}], **more.pop("spec", {})}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec, **more}


def facts(**found: dict[str, bytes]) -> Facts:
    labels = {"metadata": {"labels": {"app": "x", "a.b/c": 'say "hi"'}, "annotations": {"note": "n"}}}
    return Facts(
        pod(**labels), "127.20.0.1", "127.0.0.1", {"cpu": "128", "memory": "1Ti"},
        {tuple(key.split("__")): value for key, value in found.items()},  # type: ignore[misc]
    )  # fmt: skip


# --- environment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$(A", "$(A"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A)$(B)-$(A)", "12-1"),
        ("$()", "$()"),
    ],
)
def test_expansion_follows_the_documented_syntax(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_a_variable_sees_only_those_before_it() -> None:
    container = {"env": [{"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}, {"name": "C", "value": "$(A)"}]}
    assert environment(container, facts()) == {"B": "$(A)", "A": "1", "C": "1"}


def test_env_overrides_env_from_and_may_use_it() -> None:
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "no", "optional": True}}],
        "env": [{"name": "P_a", "value": "<$(P_a)>"}],
    }
    assert environment(container, facts(configmaps__cm={"a": b"1", "b": b"2"})) == {"P_a": "<1>", "P_b": "2"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, 'secret "s" not found'),
        ({"configMapKeyRef": {"name": "cm", "key": "k"}}, "couldn't find key k in ConfigMap team/cm"),
        ({"fieldRef": {"fieldPath": "status.nothing"}}, "unsupported fieldPath: status.nothing"),
    ],
)
def test_what_cannot_be_found_is_said_in_the_kubelets_words(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        environment({"env": [{"name": "X", "valueFrom": source}]}, facts(configmaps__cm={}))


def test_an_optional_reference_leaves_its_variable_out() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}
    assert environment({"env": [{"name": "X", "valueFrom": source}]}, facts()) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a.b/c']", 'say "hi"'),
        ("metadata.labels['none']", ""),
        ("metadata.annotations", 'note="n"'),
        ("metadata.labels", 'a.b/c="say \\"hi\\""\napp="x"'),
        ("spec.nodeName", "gpu-0000"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.20.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_downward_api(path: str, value: str) -> None:
    assert field_value(path, facts()) == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.memory", "1Mi", str(2**20)),
        ("requests.cpu", "0", "2"),
    ],
)
def test_resources_are_rounded_up_and_an_unset_limit_is_the_nodes(resource: str, divisor: str, value: str) -> None:
    source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}
    container = {"resources": {"limits": {"cpu": "1500m"}}, "env": [{"name": "X", "valueFrom": source}]}
    assert environment(container, facts()) == {"X": value}


@pytest.mark.parametrize(("text", "value"), [("1e3", 1000), ("1.5Gi", 3 * 2**29), ("100m", "0.1"), ("2E", 2 * 10**18)])
def test_quantities(text: str, value: Any) -> None:
    assert str(quantity.parse(text).normalize()) == str(quantity.Decimal(value).normalize())


# --- images


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("maas/charlm:1.0", "maas/charlm:*"),
        ("maas/charlm", "maas/charlm:*"),
        ("registry.local:5000/maas/python:3@sha256:" + "0" * 64, "maas/python:*"),
        ("other/charlm:1", None),
        ("maas/charlm-evil:1", None),
    ],
)
def test_images_are_found_whatever_the_registry(name: str, row: str | None) -> None:
    found = images.find(images.load(ROOT / "deploy/workloads/images.json", ROOT), name)
    assert (found.name if found else None) == row


@pytest.mark.parametrize("name", ["x/UPPER:1", "a b", "", "x:", "x//y"])
def test_what_cannot_be_an_image_name_is_told_apart(name: str) -> None:
    assert not images.is_reference(name)


# --- slots and devices


def claim(uid: str, group: str, **more: Any) -> slots.Claim:
    return slots.Claim(uid, group, **{"size": 1, "since": "1", "ready": True, **more})


def test_a_gang_gets_its_slots_together_or_waits() -> None:
    running = [claim("a0", "a", granted=True), claim("a1", "a", granted=True)]
    gang = [claim(f"b{i}", "b", since="2") for i in range(3)]
    assert slots.grant(running + gang, 4) == []
    assert slots.grant(gang, 4) == ["b0", "b1", "b2"]


def test_a_rank_not_yet_bound_keeps_its_slot_so_that_two_gangs_never_deadlock() -> None:
    first = [claim("a0", "a", granted=True), claim("a1", "a", granted=True), claim("a2", "a", ready=False)]
    second = [claim(f"b{i}", "b", since="2") for i in range(2)]
    assert slots.grant(first + second, 4) == []


def test_the_younger_does_not_pass_the_older() -> None:
    claims = [claim("r", "r", granted=True), claim("a", "a", size=4, since="1"), claim("b", "b", since="2")]
    assert slots.grant(claims, 4) == []


def test_a_group_that_cannot_start_holds_nobody_up() -> None:
    claims = [claim("a", "a", ready=False, since="1"), claim("b", "b", since="2")]
    assert slots.grant(claims, 1) == ["b"]


def test_a_group_larger_than_the_machine_gets_what_there_is() -> None:
    assert slots.grant([claim(f"a{i}", "a", since=str(i)) for i in range(6)], 4) == ["a0", "a1", "a2", "a3"]


def test_devices_are_the_lowest_free_ones() -> None:
    assert slots.devices(2, 4, [0, 2]) == (1, 3)
    assert slots.devices(3, 4, [0, 2]) is None
    assert slots.gpus(pod(spec={"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e400"}}}]})) > 1000


# --- restarts and status


def attempt(
    number: int = 0, code: int | None = None, *, streak: int = 0, ran: float = 1, started: bool = True
) -> Attempt:
    start = {"shim": 1, "started": "2026-01-01T00:00:00.000000000Z"} if started else None
    end = None
    if code is not None:
        seconds = f"2026-01-01T00:{int(ran) // 60:02d}:{int(ran) % 60:02d}.000000000Z"
        end = {
            "code": code,
            "reason": "Error" if code else "Completed",
            "started": "2026-01-01T00:00:00.0Z",
            "ended": seconds,
        }
    return Attempt(Path(f"/x/{number}"), number, code is None and started, streak, start, end)


NOW = restarts.epoch("2026-01-01T00:00:02Z")


@pytest.mark.parametrize(
    ("last", "policy", "expected"),
    [
        (None, "Never", Start(0)),
        (attempt(), "Always", Stay(done=False)),
        (attempt(started=False), "Never", Start(0)),
        (attempt(code=1), "Never", Stay(done=True)),
        (attempt(code=0), "OnFailure", Stay(done=True)),
        (attempt(code=0), "Always", Start(1, 1)),
        (attempt(1, code=1, streak=1), "OnFailure", Later(9, 10)),
        (attempt(2, code=1, streak=2), "OnFailure", Later(19, 20)),
        (attempt(9, code=1, streak=9), "OnFailure", Later(299, 300)),
    ],
)
def test_the_first_restart_is_free_and_the_next_ones_wait_longer(last: Any, policy: str, expected: Any) -> None:
    assert restarts.decide(last, policy, NOW, 10) == expected


def test_pauses_are_written_as_go_writes_them() -> None:
    assert [restarts.duration(n) for n in (0.4, 10, 80, 160, 300, 3605)] == [
        "400ms", "10s", "1m20s", "2m40s", "5m0s", "1h0m5s",
    ]  # fmt: skip


def test_a_long_run_clears_the_back_off() -> None:
    last = attempt(5, code=1, streak=5, ran=601)
    assert restarts.decide(last, "Always", NOW + 700, 10) == Start(6, 1)


def seen(*attempts: Attempt, waiting: Waiting | None = None, name: str = "main") -> Seen:
    return Seen(name, "maas/shell:1", attempts, waiting)


@pytest.mark.parametrize(
    ("policy", "inits", "containers", "expected"),
    [
        ("Always", [], [seen(waiting=Waiting("ContainerCreating"))], "Pending"),
        ("Always", [], [seen(attempt())], "Running"),
        ("Never", [], [seen(attempt(code=0)), seen(attempt(code=3))], "Failed"),
        ("Never", [], [seen(attempt(code=0)), seen(attempt())], "Running"),
        ("OnFailure", [], [seen(attempt(code=0))], "Succeeded"),
        ("OnFailure", [], [seen(attempt(code=1), waiting=Waiting("CrashLoopBackOff"))], "Running"),
        ("Always", [], [seen(attempt(code=0), waiting=Waiting("CrashLoopBackOff"))], "Running"),
        ("Never", [seen(attempt(code=1))], [seen(waiting=Waiting("PodInitializing"))], "Failed"),
        ("Always", [seen(attempt(code=1))], [seen(waiting=Waiting("PodInitializing"))], "Pending"),
        ("Always", [seen(attempt())], [seen(waiting=Waiting("PodInitializing"))], "Pending"),
        ("Never", [], [seen(waiting=Waiting("ErrImagePull")), seen(attempt())], "Pending"),
    ],
)
def test_phase(policy: str, inits: list[Seen], containers: list[Seen], expected: str) -> None:
    assert status.phase(policy, inits, containers) == expected


SIDECAR = {"init": True, "sidecar": True}


@pytest.mark.parametrize(
    ("inits", "containers", "expected"),
    [
        (
            [Seen("s", "i", [attempt()], **SIDECAR, started=False)],
            [seen(waiting=Waiting("PodInitializing"))],
            "Pending",
        ),
        ([Seen("s", "i", [attempt()], **SIDECAR)], [seen(attempt())], "Running"),
        ([Seen("s", "i", [attempt(code=1)], Waiting("CrashLoopBackOff"), **SIDECAR)], [seen(attempt())], "Running"),
        ([Seen("s", "i", [attempt()], **SIDECAR)], [seen(attempt(code=0))], "Running"),
        ([Seen("s", "i", [attempt(code=143)], **SIDECAR)], [seen(attempt(code=0))], "Succeeded"),
    ],
)
def test_sidecars_count_while_they_run(inits: list[Seen], containers: list[Seen], expected: str) -> None:
    assert status.phase("Never", inits, containers) == expected


def test_probes_count_what_comes_in_a_row() -> None:
    tally = Tally.of({"successThreshold": 2, "failureThreshold": 3})
    counted = [tally.count(good) for good in (True, True, False, False, True, False, False, False)]
    assert counted == [False, True, False, False, False, False, False, True]


def test_a_restarted_container_shows_how_it_ended_before() -> None:
    entry = status.container_status("u", seen(attempt(0, code=137), attempt(1)))
    assert entry["restartCount"] == 1
    assert list(entry["state"]) == ["running"]
    assert entry["lastState"]["terminated"]["exitCode"] == 137


def test_conditions_of_others_stay_and_times_move_only_with_the_status() -> None:
    old = [
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "t0"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "t0"},
    ]
    same = status.conditions(old, [{"type": "Ready", "status": "True"}], "t1")
    assert {c["type"]: c["lastTransitionTime"] for c in same} == {"DisruptionTarget": "t0", "Ready": "t0"}
    new = status.conditions(old, [{"type": "Ready", "status": "False"}], "t1")
    assert {c["type"]: c["lastTransitionTime"] for c in new} == {"DisruptionTarget": "t0", "Ready": "t1"}


# --- addresses, hosts, nodes, paths


def test_addresses_are_stable_unique_and_leave_the_machines_own_alone() -> None:
    first = network.address("u", [])
    assert network.address("u", []) == first
    assert network.address("u", [first]) != first
    for number in range(300):
        parts = [int(part) for part in network.address(str(number), []).split(".")]
        assert parts[0] == 127
        assert parts[1] >= 16
        assert 0 < parts[3] < 255


def peer(name: str, ip: str, *, ready: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return pod(
        name,
        metadata={"labels": {"job": "j"}},
        spec={"hostname": name, "subdomain": "job"},
        status={"podIP": ip, "conditions": conditions},
    )


def names(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        ip, *aliases = line.split()
        for alias in aliases:
            found.setdefault(alias, set()).add(ip)
    return found


def test_hosts_resolve_what_cluster_dns_would() -> None:
    peers = [peer("job-0", "127.20.0.1"), peer("job-1", "127.20.0.2", ready=False)]
    service = {"metadata": {"name": "job"}, "spec": {"clusterIP": "None", "selector": {"job": "j"}}}
    strict = names(network.hosts(peers[0], peers, [service], {}))
    assert strict["job-0.job"] == {"127.20.0.1"}
    assert "job-1.job" not in strict  # not ready
    service["spec"]["publishNotReadyAddresses"] = True  # type: ignore[index]
    loose = names(network.hosts(peers[0], peers, [service], {}))
    assert loose["job-1.job.team.svc.cluster.local"] == {"127.20.0.2"}
    assert loose["job"] == {"127.20.0.1", "127.20.0.2"}
    fresh = names(network.hosts(peers[0], peers, [service], {"uid-job-1": "127.20.0.9"}))
    assert fresh["job-1.job"] == {"127.20.0.9"}  # known to the agent before it stands in the pod's status
    assert "job-1.job" not in names(network.hosts(peers[0], peers, [], {}))  # no Service, no name


def test_nodes_of_the_demo_fleet() -> None:
    nodes = fleet.load(ROOT / "deploy/demo/fleet.json")
    assert list(nodes) == ["gpu-0000", "gpu-0001", "gpu-0002", "gpu-0003"]
    first = fleet.status(nodes["gpu-0000"], [{"type": "Custom", "status": "True"}], 1234, "t", False)
    assert first["allocatable"]["nvidia.com/gpu"] == "8"
    assert {c["type"] for c in first["conditions"]} >= {"Ready", "Custom"}
    assert "type" not in nodes["gpu-0000"].labels  # KWOK takes those of type=kwok


def test_paths_are_rewritten_at_their_borders_only() -> None:
    mounts = [
        volumes.Mount("d", Path("/host/d"), "/data", False),
        volumes.Mount("x", Path("/host/x"), "/data/x", False),
    ]
    text = "cat /data/a --out=/data/x/b:/data; ls /database /my/data /data-2 /data.txt"
    expected = "cat /host/d/a --out=/host/x/b:/host/d; ls /database /my/data /data-2 /data.txt"
    assert volumes.rewritten(text, mounts) == expected
    assert volumes.rewritten("/anything", [volumes.Mount("r", Path("/host"), "/", False)]) == "/anything"


def test_a_sub_path_may_not_lead_out_of_its_volume(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "link").symlink_to("/etc")
    for part in ("link", "../other"):
        container = {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": part}]}
        with pytest.raises(ConfigError, match="leads out"):
            volumes.mounts(container, {"v": tmp_path / "v"}, {})


def test_a_claim_made_anew_under_an_old_name_starts_empty(tmp_path: Path) -> None:
    volume = {"name": "c", "persistentVolumeClaim": {"claimName": "ckpt"}}

    def folder(uid: str) -> Path:
        return volumes.prepare(volume, volumes.Place(tmp_path / "pod", tmp_path / "claims", {"ckpt": uid}), facts())

    (folder("1") / "file").touch()
    assert [path.name for path in folder("1").iterdir()] == ["file"]
    assert list(folder("2").iterdir()) == []
    assert folder("2") == tmp_path / "claims" / "ckpt"
