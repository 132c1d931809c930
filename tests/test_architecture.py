"""The rules of the house that import-linter cannot say, and proof that those it says would be noticed if broken."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("apps", "maasportal", "deploy")
LONGEST_FUNCTION, LONGEST_FILE, MOST_PARAMETERS, BROAD_EXCEPTS = 50, 400, 6, 3
OPEN_TO_ALL = {"accounts.types", "accounts.scoping"}


def sources() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in path.parts and "node_modules" not in path.parts
    ]


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_functions_are_short() -> None:
    lengths = {where: (node.end_lineno or 0) - node.lineno + 1 for where, node in functions()}
    assert {where: n for where, n in lengths.items() if n > LONGEST_FUNCTION} == {}


def test_functions_take_few_parameters() -> None:
    def count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return len([a for a in arguments if a.arg not in ("self", "cls", "actor")])

    assert {where: count(node) for where, node in functions() if count(node) > MOST_PARAMETERS} == {}


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert {path: n for path, n in lengths.items() if n > LONGEST_FILE} == {}


def test_catching_everything_stays_rare() -> None:
    broad = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    ]
    assert len(broad) <= BROAD_EXCEPTS, broad


def test_own_imports_stand_at_the_top() -> None:
    hidden = [
        f"{where}: {ast.unparse(inner)}"
        for where, node in functions()
        if node.name != "ready"
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom) and (inner.module or "").split(".")[0] in PACKAGES
    ]
    assert hidden == []


def test_apps_enter_each_other_by_services_only() -> None:
    graph = grimp.build_graph("apps", cache_dir=None)
    trespasses = [
        f"{importer} -> {imported}"
        for imported in graph.modules
        for importer in graph.find_modules_that_directly_import(imported)
        if (theirs := imported.split("."))[1:2] != importer.split(".")[1:2]
        and theirs[1] != "adapters"
        and theirs[2:3] != ["services"]
        and ".".join(theirs[1:3]) not in OPEN_TO_ALL
    ]
    assert trespasses == []


BARE = {"all", "filter", "get", "exclude", "first", "count", "exists", "order_by", "values", "values_list"}


def test_views_fetch_only_what_the_actor_may_see() -> None:
    """`Model.objects.filter(…)` in a view is a hole; `Model.objects.visible_to(actor)` is the door."""
    bare = []
    for path in sources():
        if path.stem not in ("views", "api", "consumers") and path.parent.name not in ("views", "api"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Attribute) and node.attr in BARE):
                continue
            manager = node.value
            if isinstance(manager, ast.Attribute) and manager.attr == "objects":
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    # The ranks of a job that was itself fetched by `visible_to` have no tenant of their own.
    assert [line for line in bare if "JobRank.objects" not in line] == []


SEEDED = {
    "apps/audit/domain.py": ("import apps.jobs.domain.phases", "Apps import downwards only"),
    "apps/jobs/models.py": ("import apps.jobs.reconcile.job", "Inside an app"),
    "apps/jobs/domain/phases.py": ("import django", "Domain rules are plain Python"),
    "apps/jobs/moves.py": ("import kubernetes", "Only adapters import the SDKs"),
    "apps/tenants/services.py": ("import maasportal.health", "Nobody imports the wiring"),
    "apps/localcluster/volcano/__init__.py": ("import apps.localcluster.nodeagent", "The rooms of the small cluster"),
    "apps/jobs/api/jobs.py": ("import apps.clusters.services.connect", "Nothing on the web's side"),
    "apps/jobs/oddity.py": ("", "Inside an app"),
    "apps/newcomer/__init__.py": ("", "Apps import downwards only"),
}


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "import sys; from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
    ]
    env = {**os.environ, "COLUMNS": "300"}  # a name that is broken over two lines would not be found
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("apps", "maasportal"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copy: Path) -> None:
    result = lint(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path", SEEDED)
def test_a_seeded_trespass_breaks_its_contract(copy: Path, path: str) -> None:
    line, contract = SEEDED[path]
    target = copy / path
    target.parent.mkdir(exist_ok=True)
    target.write_text((target.read_text() if target.exists() else "") + f"\n{line}\n")
    result = lint(copy)
    assert result.returncode != 0
    assert any(contract in row and "BROKEN" in row for row in result.stdout.splitlines()), result.stdout
