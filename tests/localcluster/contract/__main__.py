"""The score of a cluster, by hand: `python -m tests.localcluster.contract small|apiserver|given [--only REGEX]`.

`given` is the one whose kubeconfig CONTRACT_KUBECONFIG names. Cases that do not match are listed with the difference.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.localcluster.contract import score
from tests.localcluster.contract.cases import load
from tests.localcluster.contract.rows import ROWS

OUTCOMES = ("matched", "refused", "wrong", "skipped")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.localcluster.contract", description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--only", default="", help="cases whose id it is found in")
    options = parser.parse_args(argv)
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder, ROWS[options.row](Path(folder)) as row:
        for name in filter(re.compile(options.only).search, score.in_order()):
            case = load()[name]
            outcome, why = score.outcome(row, case)
            counts.setdefault(case["embedded"], Counter())[outcome] += 1
            if outcome != "matched":
                print(f"{outcome:8} {name}: {' '.join(why.split())[:240]}", flush=True)
    print(f"\n{'':50}" + "".join(f"{each:>9}" for each in OUTCOMES))
    for owed, counted in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{owed:50}" + "".join(f"{counted[each]:9}" for each in OUTCOMES))
    return int(any(counted["wrong"] for counted in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
