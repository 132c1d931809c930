"""Where each program comes from: the folder in KUBEBUILDER_ASSETS, else built from its published Go module."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.local.program import Missing
from deploy.testbed import go


@dataclass(frozen=True)
class Source:
    """`module` is a folder of `modules/`, `package` what is built there; its version is that of `versioned`."""

    module: str
    package: str
    versioned: str


def _kubernetes(name: str) -> Source:
    return Source("kubernetes", f"k8s.io/kubernetes/cmd/{name}", "k8s.io/kubernetes")


SOURCES = {
    "etcd": Source("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kubernetes("kube-apiserver"),
    "kube-controller-manager": _kubernetes("kube-controller-manager"),
    "kube-scheduler": _kubernetes("kube-scheduler"),
    "kwok": Source("kwok", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
}


def find(name: str) -> Path:
    """The program; built the first time, which takes minutes. Raises Missing, Failed."""
    given = _given(name)
    if given:
        return given
    source = SOURCES[name]
    if source.module == "kubernetes" and _given("kube-apiserver"):
        # Another version's controllers or scheduler would judge by other rules than the server.
        raise Missing(f"KUBEBUILDER_ASSETS has a kube-apiserver and no {name} of the same version")
    return go.once(_target(name), lambda folder: _build(name, folder)) / name


def require(*names: str) -> None:
    """Raises Missing where one of these is neither given nor built nor can be built. Builds nothing."""
    for name in names:
        if not _given(name) and not _target(name).exists():
            go.require()


def _given(name: str) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    path = Path(assets, name) if assets else None
    return path if path and os.access(path, os.X_OK) else None


def _target(name: str) -> Path:
    source = SOURCES[name]
    return go.made_folder(name, source.module, f"{source.package} {_stamp(source)}")


def _stamp(source: Source) -> str:
    """Linker flags. Kubernetes asks its build for the version that it shows and that its defaults depend on."""
    flags = "-s -w"
    if source.module == "kubernetes":
        version = go.pinned(source.module, source.versioned)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        for variable, value in {"gitVersion": version, "gitMajor": major, "gitMinor": minor}.items():
            flags += f" -X k8s.io/component-base/version.{variable}={value}"
    return flags


def _build(name: str, folder: Path) -> None:
    source, began = SOURCES[name], time.monotonic()
    print(f"building {name} {go.pinned(source.module, source.versioned)}…", file=sys.stderr, flush=True)
    go.run(source.module, "build", "-ldflags", _stamp(source), "-o", str(folder / name), source.package)
    print(f"built {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
