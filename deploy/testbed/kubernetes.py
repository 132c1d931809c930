"""How etcd and Kubernetes' own programs are started here: one of each, on loopback."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from deploy.local.home import Home, write_private
from deploy.local.program import NotReady, Program, listening
from deploy.testbed import programs
from deploy.testbed.api import Api
from deploy.testbed.certificates import serving, signing_key

TOKEN = "admin-token"  # the name of a file, not the secret
PORTS = ("etcd", "etcd-peer", "apiserver", "controllers", "scheduler", "kwok")

# Half of what a Go program holds is garbage by default. These are mostly idle, and several may run on one machine.
FRUGAL = {"GOGC": "50"}


def pki(home: Home) -> Path:
    return home.private_dir("pki")


def server(home: Home) -> str:
    return f"https://127.0.0.1:{home.ports()['apiserver']}"


def authority(home: Home) -> Path:
    """The server makes it itself when it first starts."""
    return pki(home) / "apiserver.crt"


def node_client(home: Home) -> tuple[Path, Path]:
    """(certificate, key) that the API server shows to nodes' agents; the certificate vouches for itself."""
    return serving(pki(home), "kubelet-client")


def etcd(home: Home) -> Program:
    """Raises Missing, Failed."""
    ports = home.ports()
    client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "etcd-peer"))
    flags: dict[str, object] = {
        "data-dir": home.private_dir("etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "unsafe-no-fsync": "true",  # what a power cut would lose can be made again
        "logger": "zap",
        "log-level": "warn",
    }
    return Program("etcd", "etcd", command("etcd", flags), listening(ports["etcd"]), FRUGAL)


def apiserver(home: Home, more: tuple[str, ...]) -> Program:
    """Raises Missing, Failed."""
    ports, key = home.ports(), signing_key(pki(home) / "service-accounts.key")
    certificate, private = node_client(home)
    tokens = write_private(pki(home) / "tokens.csv", f"{home.secret(TOKEN)},admin,admin,system:masters\n")
    flags: dict[str, object] = {
        "etcd-servers": f"http://127.0.0.1:{ports['etcd']}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": ports["apiserver"],
        "cert-dir": pki(home),
        "token-auth-file": tokens,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "service-cluster-ip-range": "10.96.0.0/16",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": key,
        "service-account-signing-key-file": key,
        "kubelet-client-certificate": certificate,
        "kubelet-client-key": private,
        "kubelet-preferred-address-types": "InternalIP",  # a node's agent is on this machine, whatever the node's name
    }
    name = "kube-apiserver"
    return Program(name, name, command(name, flags, more), lambda: _ready(home), FRUGAL, stop_seconds=5)


def api(home: Home) -> Api:
    return Api(server(home), home.secret(TOKEN), authority(home).read_text())


def _ready(home: Home) -> None:
    """Raises NotReady."""
    if not authority(home).exists():
        raise NotReady("it has not made its certificate yet")
    with api(home) as asked:
        asked.ready()


def controllers(home: Home, kubeconfig: Path, more: tuple[str, ...]) -> Program:
    """Raises Missing, Failed."""
    port = home.ports()["controllers"]
    flags: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": pki(home),
        "leader-elect": "false",
        "root-ca-file": authority(home),
        "service-account-private-key-file": pki(home) / "service-accounts.key",
        "use-service-account-credentials": "true",
        "flex-volume-plugin-dir": home.root / "flexvolume",
    }
    name = "kube-controller-manager"
    return Program(name, name, command(name, flags, more), listening(port), FRUGAL, stop_seconds=3)


def scheduler(home: Home, kubeconfig: Path, more: tuple[str, ...]) -> Program:
    """Raises Missing, Failed."""
    port = home.ports()["scheduler"]
    flags: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": pki(home),
        "leader-elect": "false",
    }
    name = "kube-scheduler"
    return Program(name, name, command(name, flags, more), listening(port), FRUGAL, stop_seconds=3)


def command(name: str, flags: dict[str, object], more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (str(programs.find(name)), *(f"--{flag}={value}" for flag, value in flags.items()), *more)


def write_kubeconfig(home: Home) -> Path:
    """The admin's."""
    ca = base64.b64encode(authority(home).read_bytes()).decode()
    named = {
        "clusters": [{"name": "testbed", "cluster": {"server": server(home), "certificate-authority-data": ca}}],
        "users": [{"name": "admin", "user": {"token": home.secret(TOKEN)}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "admin"}}],
    }
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "testbed", **named}
    return write_private(home.root / "kubeconfig", json.dumps(document, indent=1))
