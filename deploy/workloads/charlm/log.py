"""Log lines in the platform's format: [time] [level] [job] [rank] [step] [message]."""

import sys
from datetime import UTC, datetime


class Log:
    """One rank's log; `step` is the step that the next lines are about."""

    def __init__(self, job: str, rank: int) -> None:
        self.job = job
        self.rank = rank
        self.step = 0

    def info(self, message: str) -> None:
        self._write("INFO", message)

    def warn(self, message: str) -> None:
        self._write("WARN", message)

    def error(self, message: str) -> None:
        self._write("ERROR", message)

    def _write(self, level: str, message: str) -> None:
        time = datetime.now(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
        line = f"[{time}] [{level}] [{self.job}] [Rank-{self.rank}] [Step-{self.step}] [{' '.join(message.split())}]"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def short(number: float) -> str:
    """1.5e-4, the way the platform writes learning rates; 0.0914 where that is as short."""
    if number >= 0.01:
        return f"{number:.3g}"
    mantissa, _, exponent = f"{number:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
