"""Speaking to the portal: one request at a time, patient with outages, quick to believe a refusal."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from deploy.workloads.carry.find import Changed, Checkpoint, File, opened

TIMEOUT = 60.0
LONGEST_PAUSE = 10.0


class GaveUp(Exception):
    """The portal refused, or was away for too long. `code` is the portal's word for it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class Portal:
    """`url` is the portal's address, `token_file` is read anew for each request: it may be replaced."""

    url: str
    transfer: str
    token_file: Path
    patience: float
    """Seconds for which an outage is sat out."""
    say: Callable[[str], None]

    def bring(self, checkpoint: Checkpoint) -> None:
        """Everything of a checkpoint. Raises GaveUp, Changed (begin again with a newer one)."""
        answer = self._ask("PUT", "", json.dumps(checkpoint.plan()).encode())
        needed = set(json.loads(answer)["needed"])
        self.say(f"{len(needed)} of {len(checkpoint.files)} files are to be sent")
        for file in checkpoint.files:
            if file.path in needed:
                started = time.monotonic()
                self._send(checkpoint.folder, file)
                self.say(f"Sent {file.path}: {file.size:,} bytes in {time.monotonic() - started:.2f} s")
        self._ask("POST", "", b'{"outcome": "done"}')

    def tell_failure(self, code: str, text: str) -> None:
        """Say why nothing comes. Raises GaveUp."""
        self._ask("POST", "", json.dumps({"outcome": "failed", "code": code, "text": text[:300]}).encode())

    def _send(self, folder: Path, file: File) -> None:
        self._ask("PUT", "/" + quote(file.path), (folder / file.path, file.size))

    def _ask(self, method: str, path: str, body: bytes | tuple[Path, int]) -> bytes:
        deadline, pause = time.monotonic() + self.patience, 0.5
        while True:
            try:
                status, answer = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, repr(error).encode()
            if 200 <= status < 300:
                return answer
            if status not in (0, 429, 502, 503, 504) and status != 500:
                raise _refused(status, answer)
            if time.monotonic() > deadline:
                raise GaveUp(
                    "portal-away", f"The portal did not take it: {status or answer.decode('utf-8', 'replace')}"
                )
            self.say(
                f"The portal does not answer ({status or answer.decode('utf-8', 'replace')[:80]}); again in {pause} s"
            )
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes | tuple[Path, int]) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
        headers = {
            "Authorization": f"Bearer {self.token_file.read_text().strip()}",
            "Content-Type": "application/json" if isinstance(body, bytes) else "application/octet-stream",
        }
        address = f"{parts.path}/artifacts/uploads/{self.transfer}{path}"
        try:
            if isinstance(body, bytes):
                connection.request(method, address, body, headers)
            else:
                self._stream(connection, method, address, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(1 << 20)
        finally:
            connection.close()

    def _stream(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        address: str,
        body: tuple[Path, int],
        headers: dict[str, Any],
    ) -> None:
        path, size = body
        try:
            file = opened(path)
        except FileNotFoundError as error:
            raise Changed(path.name) from error
        with file:
            try:
                connection.request(method, address, file, {**headers, "Content-Length": str(size)})
            except (BrokenPipeError, ConnectionResetError):
                return  # refused before all was sent: the answer says why


def _refused(status: int, answer: bytes) -> GaveUp | Changed:
    try:
        told = json.loads(answer)
        code, text = str(told["code"]), str(told["text"])
    except (ValueError, KeyError, TypeError):
        code, text = "refused", answer[:200].decode("utf-8", "replace")
    if code == "mismatch":
        return Changed(text)
    return GaveUp(code if code in ("storage-full", "too-large") else "refused", f"{status} {code}: {text}")
