"""Custom resource definitions of the projects that the portal speaks to, from their published Go modules."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from deploy.local.program import Failed, NotReady, wait_until
from deploy.testbed import go
from deploy.testbed.api import Api, Object

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_SECONDS = 60


@dataclass(frozen=True)
class Project:
    """`files` are globs in a module that publishes its definitions; else they are made from Go `packages` of it."""

    module: str
    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


PROJECTS = {
    "volcano": Project(
        "volcano.sh/apis",
        packages=(
            "pkg/apis/batch/v1alpha1",
            "pkg/apis/bus/v1alpha1",
            "pkg/apis/flow/v1alpha1",
            "pkg/apis/nodeinfo/v1alpha1",
            "pkg/apis/scheduling/v1beta1",
            "pkg/apis/topology/v1alpha1",
        ),
    ),
    "prometheus-operator": Project(
        "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring", packages=("v1",)
    ),
    "istio": Project("istio.io/api", files=("kubernetes/customresourcedefinitions.gen.yaml",)),
    "gateway-api": Project("sigs.k8s.io/gateway-api", files=("config/crd/standard/*.yaml",)),
    "kuberay": Project("github.com/ray-project/kuberay/ray-operator", files=("config/crd/bases/*.yaml",)),
    "mpi-operator": Project("github.com/kubeflow/mpi-operator", files=("manifests/base/kubeflow.org_mpijobs.yaml",)),
}

# Volcano's types have fields that the generator calls dangerous (floats), and pod templates whose metadata would be
# pruned otherwise. Descriptions are half of a definition's size, and the server's memory follows it.
OPTIONS = "crdVersions=v1,allowDangerousTypes=true,generateEmbeddedObjectMeta=true,maxDescLen=0"


def find(project: str) -> list[Object]:
    """Its definitions; those of all projects are made the first time. Raises Missing, Failed."""
    return list(json.loads((folder() / f"{project}.json").read_text()))


def folder() -> Path:
    """Raises Missing, Failed."""
    return go.once(_target(), _make)


def read(folder: Path, pattern: str = "**/*.yaml") -> Iterator[Object]:
    """Those in the YAML files of a folder."""
    for path in sorted(folder.glob(pattern)):
        for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                yield document


def install(api: Api, definitions: Iterable[Object]) -> None:
    """Applies them, and waits until the server has taken them up. Raises Failed, NotReady."""
    names = set()
    for definition in definitions:
        names.add(definition["metadata"]["name"])
        api.apply(f"{PATH}/{definition['metadata']['name']}", definition)

    def established() -> None:
        listed = api.get(PATH)["items"]
        waiting = names - {each["metadata"]["name"] for each in listed if _condition(each, "Established")}
        if waiting:
            raise NotReady(f"not established: {', '.join(sorted(waiting))}")

    wait_until(established, ESTABLISHED_SECONDS)


def _condition(definition: Object, kind: str) -> bool:
    conditions = definition.get("status", {}).get("conditions")
    return any(each["type"] == kind and each["status"] == "True" for each in conditions or [])


def _target() -> Path:
    return go.made_folder("crds", "crds", f"json {OPTIONS} {PROJECTS}")


def _make(target: Path) -> None:
    for name, project in PROJECTS.items():
        with tempfile.TemporaryDirectory() as folder:
            if project.packages:
                paths = ";".join(f"{project.module}/{package}" for package in project.packages)
                go.run("crds", "tool", "controller-gen", f"crd:{OPTIONS}", f"paths={paths}", f"output:crd:dir={folder}")
            source = go.folder("crds", project.module) if project.files else Path(folder)
            found = [each for pattern in project.files or ("*.yaml",) for each in read(source, pattern)]
        if not found:
            raise Failed(f"{project.module} has no definitions at {project.files or project.packages}")
        # JSON is read in a hundredth of the time that YAML takes.
        (target / f"{name}.json").write_text(json.dumps(found))
