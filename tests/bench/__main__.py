"""`python -m tests.bench [NAME…]`: run all benches, or those named. Each prints its figures as JSON lines."""

from __future__ import annotations

import importlib
import sys

BENCHES = (
    "list",
    "submit",
    "gateway",
    "stack",
    "cluster",
    "watch",
    "watch-real",
    "watch-hint",
    "api-back",
    "chart",
    "viewer",
    "sockets",
    "sockets-storm",
    "logs-1",
    "logs-10",
    "logs-50",
    "logs-latency",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        for figure in importlib.import_module(f"tests.bench.{name.replace('-', '_')}_bench").figures():
            print(figure.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
