"""The job plugins: what each adds to a pod, and which objects it makes for a job. Nothing here does I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from apps.localcluster.volcano.objects import (
    JOB_NAME,
    JOB_NAMESPACE,
    TASK_SPEC,
    name,
    namespace,
    owned_by,
    pod_name,
    replicas,
    tasks,
)

Object = dict[str, Any]

KNOWN = ("env", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
_SSH_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_RAY_PORTS = (("gcs", "port", 6379), ("dashboard", "dashboardPort", 8265), ("client-server", "clientPort", 10001))


def implied(given: dict[str, list[str] | None]) -> dict[str, list[str]]:
    """A job's plugins with those that others need."""
    full = {plugin: list(arguments or []) for plugin, arguments in given.items()}
    if full.keys() & {"tensorflow", "mpi", "pytorch", "ray"}:
        full.setdefault("svc", [])
    if "mpi" in full:
        full.setdefault("ssh", [])
    return full


def controlled(job: Object) -> dict[str, str]:
    """`status.controlledResources` of a job whose plugins have done their part."""
    return {f"plugin-{plugin}": plugin for plugin in sorted(job["spec"].get("plugins") or {})}


def decorate(pod: Object, job: Object, task: Object, index: int) -> None:
    """Let every plugin of the job change the new pod. Raises ValueError where a plugin refuses the job."""
    for plugin, arguments in sorted((job["spec"].get("plugins") or {}).items()):
        _DECORATORS[plugin](pod, job, task, index, _flags(arguments))


def mpi_master(job: Object) -> Object | None:
    """The task that the mpi plugin takes for the master."""
    return _task(job, _flags(job["spec"]["plugins"]["mpi"]).get("master", "master"))


def _flags(arguments: list[str] | None) -> dict[str, str]:
    """`--key=value`, `-key=value` and `--key` (true) as a mapping."""
    pairs = (argument.lstrip("-").partition("=") for argument in arguments or [] if argument.startswith("-"))
    return {key: value if mark else "true" for key, mark, value in pairs}


def _true(flags: dict[str, str], key: str, default: str = "false") -> bool:
    return flags.get(key, default).lower() in ("1", "t", "true")


def _task(job: Object, wanted: str) -> Object | None:
    return next((task for task in tasks(job) if task["name"] == wanted), None)


def _containers(pod: Object, *, init: bool) -> list[Object]:
    spec = pod["spec"]
    return [*spec["containers"], *(spec.get("initContainers") or [])] if init else list(spec["containers"])


def _append(container: Object, key: str, *items: Object) -> None:
    container[key] = [*(container.get(key) or []), *items]


def _open(container: Object, port: int, label: str) -> None:
    if all(known.get("containerPort") != port for known in container.get("ports") or []):
        _append(container, "ports", {"name": label, "containerPort": port})


def host(job: Object, task: Object, index: int) -> str:
    """The name under which the svc plugin's Service resolves a pod."""
    spec = (task.get("template") or {}).get("spec") or {}
    first = spec.get("hostname") or pod_name(name(job), task["name"], index)
    return f"{first}.{spec.get('subdomain') or name(job)}"


def hosts(job: Object, task: Object) -> list[str]:
    named = bool(((task.get("template") or {}).get("spec") or {}).get("hostname"))
    return [host(job, task, index) for index in range(min(replicas(task), 1) if named else replicas(task))]


# --- pods

Decorator = Callable[[Object, Object, Object, int, dict[str, str]], None]


def _env(pod: Object, _job: Object, _task: Object, index: int, _flags: dict[str, str]) -> None:
    for container in _containers(pod, init=True):
        _append(container, "env", *({"name": key, "value": str(index)} for key in ("VK_TASK_INDEX", "VC_TASK_INDEX")))


def _svc(pod: Object, job: Object, _task: Object, _index: int, flags: dict[str, str]) -> None:
    spec, config = pod["spec"], f"{name(job)}-svc"
    spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
    spec["subdomain"] = spec.get("subdomain") or name(job)
    keys = [f"VC_{_shout(task)}_{what}" for task in tasks(job) for what in ("HOSTS", "NUM")]
    env = [{"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}} for key in keys]
    for container in _containers(pod, init=True):
        if _true(flags, "inject-hosts-env", "true"):
            _append(container, "env", *env)
        _append(container, "volumeMounts", {"name": config, "mountPath": "/etc/volcano"})
    _append(spec, "volumes", {"name": config, "configMap": {"name": config}})


def _ssh(pod: Object, job: Object, _task: Object, _index: int, flags: dict[str, str]) -> None:
    secret, folder = f"{name(job)}-ssh", flags.get("ssh-key-file-path", "/root/.ssh")
    items = [{"key": file, "path": f".ssh/{file}"} for file in _SSH_FILES]
    mode = 0o600 if folder == "/root/.ssh" else 0o644
    _append(
        pod["spec"], "volumes", {"name": secret, "secret": {"secretName": secret, "items": items, "defaultMode": mode}}
    )
    for container in _containers(pod, init=True):
        _append(container, "volumeMounts", {"name": secret, "mountPath": folder, "subPath": ".ssh"})


def _pytorch(pod: Object, job: Object, task: Object, index: int, flags: dict[str, str]) -> None:
    roles = {role: flags.get(role, role) for role in ("master", "worker")}
    master, port = _task(job, roles["master"]), int(flags.get("port", 23456))
    if master is None:
        return  # Volcano logs it and goes on: the pods run without any variable
    world = sum(replicas(other) for other in tasks(job) if other["name"] in roles.values())
    env = {"MASTER_ADDR": host(job, master, 0), "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    if task["name"] == roles["worker"]:
        env["RANK"] = str(index + 1)
    elif task["name"] == roles["master"]:
        env["RANK"] = "0"
    for container in _containers(pod, init=False):
        _open(container, port, "pytorchjob-port")
        _append(container, "env", *({"name": key, "value": value} for key, value in env.items()))


def _mpi(pod: Object, job: Object, task: Object, _index: int, flags: dict[str, str]) -> None:
    worker, is_master = _task(job, flags.get("worker", "worker")), task["name"] == flags.get("master", "master")
    if is_master and worker is None:
        return
    for container in _containers(pod, init=True):
        _open(container, int(flags.get("port", 22)), "mpijob-port")
        if is_master and worker is not None:
            _append(container, "env", {"name": "MPI_HOST", "value": ",".join(hosts(job, worker))})


def _ray(pod: Object, job: Object, task: Object, _index: int, flags: dict[str, str]) -> None:
    head = _task(job, flags.get("head", "head"))
    if head is None:
        raise ValueError(f"job {name(job)} doesn't have head task {flags.get('head', 'head')}")
    ports = {key: int(flags.get(key, default)) for _, key, default in _RAY_PORTS}
    for container in _containers(pod, init=False):
        if task is head and container["name"] == flags.get("headContainer", "head"):
            for label, key, _ in _RAY_PORTS:
                _open(container, ports[key], label)
            options = f"--port={ports['port']} --dashboard-port={ports['dashboardPort']}"
            start = f"ray start --head --block --dashboard-host=0.0.0.0 {options}"
            container["command"] = ["sh", "-c", f"{start} --ray-client-server-port={ports['clientPort']}"]
        elif task["name"] == flags.get("worker", "worker") and container["name"] == flags.get(
            "workerContainer", "worker"
        ):
            address = f"{host(job, head, 0)}:{ports['port']}"
            container["command"] = ["sh", "-c", f"ray start --block --address={address}"]


def _tensorflow(pod: Object, job: Object, task: Object, index: int, flags: dict[str, str]) -> None:
    if len(tasks(job)) == 1 and replicas(tasks(job)[0]) == 1:
        return
    roles = {flags.get(role, role): role for role in ("ps", "worker", "chief", "evaluator")}
    port = int(flags.get("port", 2222))
    cluster = {
        roles[other["name"]]: [f"{host(job, other, i)}:{port}" for i in range(replicas(other))]
        for other in tasks(job)
        if other["name"] in roles and replicas(other)
    }
    value = {"cluster": cluster, "task": {"type": roles.get(task["name"], task["name"]), "index": index}}
    for container in _containers(pod, init=False):
        _append(container, "env", {"name": "TF_CONFIG", "value": json.dumps(value, separators=(",", ":"))})


_DECORATORS: dict[str, Decorator] = {
    "env": _env,
    "mpi": _mpi,
    "pytorch": _pytorch,
    "ray": _ray,
    "ssh": _ssh,
    "svc": _svc,
    "tensorflow": _tensorflow,
}


# --- objects


def _shout(task: Object) -> str:
    return str(task["name"]).replace("-", "_").upper()


def hosts_config(job: Object) -> dict[str, str]:
    """The data of the svc plugin's ConfigMap."""
    data: dict[str, str] = {}
    for task in tasks(job):
        all_hosts = hosts(job, task)
        data[f"{task['name'].replace('-', '_')}.host"] = "\n".join(all_hosts)
        data[f"VC_{_shout(task)}_HOSTS"] = ",".join(all_hosts)
        data[f"VC_{_shout(task)}_NUM"] = str(len(all_hosts))
    return data


def ssh_config(job: Object) -> str:
    port = _flags((job["spec"].get("plugins") or {}).get("ssh")).get("ssh-port", "22")
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in tasks(job):
        for address in hosts(job, task):
            lines += [f"Host {address.partition('.')[0]}", f"  HostName {address}", f"  Port {port}"]
    return "\n".join([*lines, ""])


def made_objects(job: Object) -> list[Object]:
    """The objects that the job's plugins make, in order; not the Secret of ssh, which holds a new key."""
    made: list[Object] = []
    plugins = job["spec"].get("plugins") or {}
    own = {JOB_NAME: name(job), JOB_NAMESPACE: namespace(job)}
    if "ray" in plugins:
        flags = _flags(plugins["ray"])
        ports = [
            {"name": label, "port": int(flags.get(key, default)), "targetPort": label, "protocol": "TCP"}
            for label, key, default in _RAY_PORTS
        ]
        spec: Object = {"selector": {**own, TASK_SPEC: flags.get("head", "head")}, "ports": ports}
        made.append(_object(job, "v1", "Service", f"{name(job)}-head-svc", spec=spec))
    if "svc" in plugins:
        flags = _flags(plugins["svc"])
        made.append(_object(job, "v1", "ConfigMap", f"{name(job)}-svc", data=hosts_config(job)))
        spec = {"clusterIP": "None", "selector": own}
        if _true(flags, "publish-not-ready-addresses"):
            spec["publishNotReadyAddresses"] = True
        made.append(_object(job, "v1", "Service", name(job), spec=spec))
        if not _true(flags, "disable-network-policy"):
            pods = {"matchLabels": own}
            spec = {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]}
            made.append(_object(job, "networking.k8s.io/v1", "NetworkPolicy", name(job), spec=spec))
    return made


def ssh_secret(job: Object, private: bytes, public: bytes) -> Object | None:
    """The Secret of the ssh plugin with this key pair; None if the job does not use the plugin."""
    if "ssh" not in (job["spec"].get("plugins") or {}):
        return None
    text = {"id_rsa": private.decode(), "id_rsa.pub": public.decode(), "authorized_keys": public.decode()}
    return _object(
        job, "v1", "Secret", f"{name(job)}-ssh", type="Opaque", stringData={**text, "config": ssh_config(job)}
    )


def _object(job: Object, api: str, kind: str, called: str, **body: Any) -> Object:
    metadata = {"name": called, "namespace": namespace(job), "ownerReferences": owned_by(job)}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}
