"""The control plane by hand: `python -m deploy.testbed build | up | down | status`.

`up` prints the path of an admin's kubeconfig, and nothing else, on standard output.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from deploy.local.program import Failed, Missing
from deploy.local.stack import TREE
from deploy.testbed import crds, keeper, kwok, programs
from deploy.testbed.parts import FLEET, Parts


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.testbed", description=__doc__)
    parser.add_argument("command", choices=["build", "up", "down", "status", keeper.COMMAND])
    parser.add_argument("--dir", type=Path, default=TREE / "var/testbed", help="where it lives (%(default)s)")
    parser.add_argument("--fleet", type=Path, default=FLEET, help="nodes that KWOK plays (%(default)s)")
    parser.add_argument("--bare", action="store_true", help="neither KWOK nor kube-scheduler: bring your own")
    parser.add_argument("--crds", default=",".join(crds.PROJECTS), help="of which projects (%(default)s)")
    parser.add_argument("--volcano", type=Path, help="folder with Volcano's own programs and its crds/")
    parser.add_argument("--wipe", action="store_true", help="with down: forget its data too")
    options = parser.parse_args(argv)
    options.crds = tuple(filter(None, options.crds.split(",")))
    if unknown := set(options.crds) - set(crds.PROJECTS):
        parser.error(f"no definitions of {', '.join(sorted(unknown))}; there are {', '.join(crds.PROJECTS)}")
    return options


def parts(options: argparse.Namespace) -> Parts:
    fleet = None if options.bare else options.fleet.absolute()
    folder = options.volcano.absolute() if options.volcano else None
    return Parts(scheduler=not options.bare, fleet=fleet, crds=options.crds, volcano=folder)


def build() -> None:
    for name in programs.SOURCES:
        print(f"{name:24} {programs.find(name)}")
    print(f"{'definitions':24} {crds.folder()}")
    print(f"{'stages of KWOK':24} {kwok.stages()}")


def down(directory: Path, *, wipe: bool) -> None:
    keeper.end(directory)
    if wipe:
        shutil.rmtree(directory, ignore_errors=True)


def main(argv: list[str]) -> int:
    options = arguments(argv)
    directory = options.dir.absolute()
    try:
        if options.command == "build":
            build()
        elif options.command == "up":
            print(keeper.begin(directory, argv[1:]))
        elif options.command == "down":
            down(directory, wipe=options.wipe)
        elif options.command == "status":
            return keeper.show(directory)
        else:
            keeper.keep(directory, parts(options))
    except (Missing, Failed) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
