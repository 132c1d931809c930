"""What an open page is told: every frame of its socket, kept to be searched."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect


@dataclass
class Frames:
    """A page of one person that follows topics, with their logs, through outages. `kept` has its frames as they came,
    `closed` the codes with which the portal ended the socket for good."""

    url: str
    session: str
    topics: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    _socket: ClientConnection | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> Frames:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def follow(self, topic: str) -> None:
        with self._lock:
            self.topics.append(topic)
            if self._socket:
                self._subscribe(self._socket, topic)

    def stop(self) -> None:
        self._ended.set()
        if self._socket:
            self._socket.close()

    def told(self, kind: str) -> list[str]:
        """The frames of one kind: `hint`, `log`, `points`."""
        return [frame for frame in self.kept if json.loads(frame)["t"] == kind]

    def _run(self) -> None:
        address = urlsplit(self.url)._replace(scheme="ws", path="/ws/").geturl()
        headers = {"Cookie": f"sessionid={self.session}"}
        while not self._ended.is_set():
            try:
                with connect(
                    address, origin=self.url, additional_headers=headers, proxy=None, max_size=8 << 20
                ) as socket:  # type: ignore[arg-type]
                    self._listen(socket)
            except (OSError, InvalidHandshake, ConnectionClosed):
                self._ended.wait(0.5)  # the portal is down for a moment, as a page sees it
            if any(code >= 4400 for code in self.closed):
                return

    def _listen(self, socket: ClientConnection) -> None:
        with self._lock:
            self._socket = socket
            for topic in self.topics:
                self._subscribe(socket, topic)
        try:
            for frame in socket:
                self.kept.append(frame if isinstance(frame, str) else frame.decode())
        finally:
            self._socket = None
            if socket.close_code:
                self.closed.append(socket.close_code)

    def _subscribe(self, socket: ClientConnection, topic: str) -> None:
        try:
            socket.send(json.dumps({"op": "subscribe", "topic": topic, "cursor": None, "log": True}))
        except ConnectionClosed:
            pass  # the next connection asks for every topic
