"""What is built, once, and what is used instead."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from deploy.local.program import Missing
from deploy.testbed import crds, go, kwok, programs
from deploy.testbed.__main__ import arguments


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def assets(folder: Path, *names: str) -> str:
    folder.mkdir()
    for name in names:
        (folder / name).touch(mode=0o755)
    return str(folder)


@pytest.fixture
def no_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go, "installed", lambda *_, **__: [])


@pytest.mark.usefixtures("no_go")
def test_without_go_it_says_what_to_do() -> None:
    with pytest.raises(Missing, match=r"Go 1\.26 or later .* none is installed \(deploy/testbed/README\.md\)"):
        programs.require("etcd", "kube-apiserver")


@pytest.mark.parametrize(
    ("version", "toolchain"), [("1.26.1", "local"), ("1.27", "local"), ("1.25.4", "go1.26.0"), ("1.21.0", "go1.26.0")]
)
def test_an_older_go_fetches_the_toolchain_it_lacks(
    version: str, toolchain: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(go, "installed", lambda *_, **__: [a_go(tmp_path, version)])
    assert go.require() == (tmp_path / "go", toolchain)


def test_a_go_too_old_to_fetch_one_is_not_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go, "installed", lambda *_, **__: [a_go(tmp_path, "1.19.8")])
    with pytest.raises(Missing, match="is older"):
        go.require()


def a_go(folder: Path, version: str) -> Path:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("no_go")
def test_given_binaries_need_no_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", assets(tmp_path / "bin", "etcd", "kube-apiserver"))
    programs.require("etcd", "kube-apiserver")
    assert programs.find("kube-apiserver") == tmp_path / "bin/kube-apiserver"


def test_controllers_of_another_version_are_not_mixed_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", assets(tmp_path / "bin", "etcd", "kube-apiserver"))
    with pytest.raises(Missing, match="no kube-scheduler of the same version"):
        programs.find("kube-scheduler")


def test_a_new_version_has_a_new_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go, "MODULES", tmp_path)
    (tmp_path / "etcd").mkdir()
    places = set()
    for version in ("v1", "v2"):
        (tmp_path / "etcd/go.mod").write_text(f"require example.com/etcd {version}\n")
        places.add(go.made_folder("etcd", "etcd", "flags"))
    places.add(go.made_folder("etcd", "etcd", "other flags"))
    assert len(places) == 3


def test_many_at_once_build_once(tmp_path: Path) -> None:
    built = []

    def make(folder: Path) -> None:
        threading.Event().wait(0.2)
        (folder / "program").touch()
        built.append(folder)

    threads = [threading.Thread(target=go.once, args=(tmp_path / "made", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert (tmp_path / "made/program").exists()


def test_a_failed_build_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        go.once(tmp_path / "made", make)
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def test_every_program_has_a_pinned_version() -> None:
    for name, source in programs.SOURCES.items():
        assert go.pinned(source.module, source.versioned).startswith("v"), name
    for project in crds.PROJECTS.values():
        assert go.pinned("crds", project.module).startswith("v")


def test_the_fleet_carries_the_label_that_kwok_goes_by(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.json"
    fleet.write_text('[{"prefix": "gpu", "count": 2, "labels": {"a": "b"}, "capacity": {"cpu": "8"}}]')
    nodes = kwok.nodes(fleet)
    assert [node["metadata"]["name"] for node in nodes] == ["gpu-0000", "gpu-0001"]
    assert nodes[0]["metadata"]["labels"] == {"kubernetes.io/hostname": "gpu-0000", "type": "kwok", "a": "b"}


def test_an_unknown_project_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["up", "--crds", "volcano,spark"])
    assert "no definitions of spark" in capsys.readouterr().err
