"""The score of a cluster, by hand: `python -m tests.localcluster.contract small|apiserver|given [--only REGEX]`.

`given` is the one whose kubeconfig CONTRACT_KUBECONFIG names. Cases that do not match are listed with the difference.
First what Kubernetes owes, then what Volcano does; `--of` asks for one of them alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.localcluster.contract import score
from tests.localcluster.contract.cases import load
from tests.localcluster.contract.rows import ROWS
from tests.localcluster.contract.volcano import score as of_volcano
from tests.localcluster.contract.volcano.sites import SITES

OUTCOMES = ("matched", "refused", "wrong", "skipped")
Scores = Iterator[tuple[str, str, str, str]]
"""What is owed, case, outcome, why."""


def kubernetes(row: str, folder: Path, only: re.Pattern[str]) -> Scores:
    with ROWS[row](folder) as running:
        for name in filter(only.search, score.in_order()):
            case = load()[name]
            yield case["embedded"], name, *score.outcome(running, case)


def volcano(row: str, folder: Path, only: re.Pattern[str]) -> Scores:
    with SITES[row](folder) as site:
        for name, case in of_volcano.load().items():
            if only.search(name):
                yield f"Volcano, scheduler configuration {case['scheduler']}", name, *of_volcano.outcome(site, case)


SUITES = {"kubernetes": kubernetes, "volcano": volcano}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.localcluster.contract", description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--only", type=re.compile, default="", help="cases whose id it is found in")
    parser.add_argument("--of", choices=list(SUITES), action="append", help="not all of them")
    options = parser.parse_args(argv)
    counts: dict[str, Counter[str]] = {}
    for suite in options.of or SUITES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for owed, name, outcome, why in SUITES[suite](options.row, Path(folder), options.only):
                counts.setdefault(owed, Counter())[outcome] += 1
                if outcome != "matched":
                    print(f"{outcome:8} {name}: {' '.join(why.split())[:240]}", flush=True)
    print(f"\n{'':60}" + "".join(f"{each:>9}" for each in OUTCOMES))
    for owed, counted in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{owed:60}" + "".join(f"{counted[each]:9}" for each in OUTCOMES))
    return int(any(counted["wrong"] for counted in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
