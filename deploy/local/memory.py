"""What a running demo takes: `python -m deploy.local.memory [--dir DIR] [--json]`.

Proportional set size (PSS): a page that several processes share counts once in the sum.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import psutil

from deploy.local.home import Home
from deploy.local.stack import TREE
from deploy.local.supervise import Supervisor


def pss(pid: int) -> int:
    """Bytes; 0 for a process that has ended. Raises PermissionError for somebody else's."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


def by_program(home: Home) -> dict[str, int]:
    """Bytes of PSS by program, with its children, and of the supervisor itself. Users' processes are not counted.

    Raises psutil.Error, OSError when no demo runs in this folder.
    """
    supervisor = Supervisor(home, TREE)
    taken = {"supervisor": pss(int((home.root / "run/supervisord.pid").read_text()))}
    for name, state in supervisor.states().items():
        if state["pid"]:
            family = [psutil.Process(state["pid"])]
            # What the node agent starts are the users' processes.
            family += [] if name == "nodeagent" else family[0].children(recursive=True)
            taken[name] = sum(pss(each.pid) for each in family)
    return taken


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.memory", description=__doc__)
    parser.add_argument("--dir", type=Path, default=TREE / "var/demo")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    try:
        taken = by_program(Home(options.dir))
    except (OSError, psutil.Error) as error:
        print(f"no demo runs in {options.dir}: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(taken | {"total": sum(taken.values())}))
        return 0
    for name, size in sorted(taken.items(), key=lambda item: -item[1]):
        print(f"{size / 2**20:7.1f} MiB  {name}")
    print(f"{sum(taken.values()) / 2**20:7.1f} MiB  total")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
