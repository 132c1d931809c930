"""Counts and times in Prometheus' text format. Names are vLLM's, with charlm's prefix."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from itertools import accumulate

FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)
EACH_TOKEN = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


class Histogram:
    """Upper bounds in seconds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str, label: str) -> list[str]:
        ends = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        buckets = zip(ends, accumulate(self.counts), strict=True)
        lines = [f'{name}_bucket{{{label},le="{end}"}} {count}' for end, count in buckets]
        return [*lines, f"{name}_sum{{{label}}} {self.sum:.6f}", f"{name}_count{{{label}}} {sum(self.counts)}"]


class Metrics:
    """Of one model server. Methods may be called by any thread."""

    def __init__(self, model: str) -> None:
        escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self._label = f'model_name="{escaped}"'
        self._lock = threading.Lock()
        self._finished = Counter(dict.fromkeys(("stop", "length", "abort"), 0))
        self._refused: Counter[int] = Counter()
        self._prompt_tokens = self._tokens = 0
        self._first = Histogram(FIRST_TOKEN)
        self._each = Histogram(EACH_TOKEN)

    def first_token(self, seconds: float) -> None:
        """From the arrival of the request, its time in the queue included."""
        with self._lock:
            self._first.observe(seconds)

    def finished(self, reason: str, prompt_tokens: int, tokens: int, seconds: float) -> None:
        """`seconds`: from the first token to the last."""
        with self._lock:
            self._finished[reason] += 1
            self._prompt_tokens += prompt_tokens
            self._tokens += tokens
            if tokens > 1:
                self._each.observe(seconds / (tokens - 1))

    def refused(self, status: int) -> None:
        with self._lock:
            self._refused[status] += 1

    def text(self, running: int, waiting: int) -> str:
        label = self._label
        with self._lock:
            families = [
                _family("num_requests_running", "gauge", [f"{{{label}}} {running}"]),
                _family("num_requests_waiting", "gauge", [f"{{{label}}} {waiting}"]),
                _family(
                    "request_success_total",
                    "counter",
                    [f'{{{label},finished_reason="{k}"}} {n}' for k, n in sorted(self._finished.items())],
                ),
                _family(
                    "request_refused_total",
                    "counter",
                    [f'{{{label},status="{k}"}} {n}' for k, n in sorted(self._refused.items())],
                ),
                _family("prompt_tokens_total", "counter", [f"{{{label}}} {self._prompt_tokens}"]),
                _family("generation_tokens_total", "counter", [f"{{{label}}} {self._tokens}"]),
                _histogram("time_to_first_token_seconds", self._first, label),
                _histogram("time_per_output_token_seconds", self._each, label),
            ]
        return "".join(families)


def _family(name: str, kind: str, samples: list[str]) -> str:
    return "".join([f"# TYPE charlm:{name} {kind}\n", *(f"charlm:{name}{sample}\n" for sample in samples)])


def _histogram(name: str, histogram: Histogram, label: str) -> str:
    lines = [f"# TYPE charlm:{name} histogram", *histogram.lines(f"charlm:{name}", label)]
    return "\n".join(lines) + "\n"
