"""How ranks that start at different moments, not knowing each other's addresses, become a ring.

Rank 0 listens at MASTER_ADDR:MASTER_PORT. The others knock until it answers, each saying who it is and where its own
listener is. When all are there, rank 0 sends everybody the list, and each rank connects to its right neighbour.
Messages are one line of JSON. A rank that does not fit is told why. The first message between neighbours carries the
number of this very gathering, so that nobody from an earlier one gets in between.
"""

import json
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.ring import Alone, Neighbour, Ring
from deploy.workloads.charlm.world import World, resolve

ANSWER_SECONDS = 2.0  # a caller that says nothing for so long is not one of ours
LONGEST_LINE = 1 << 20
SAY_SO_EVERY = 10.0  # seconds
LOOK_UP_EVERY = 0.2  # seconds, while waiting for callers


class RendezvousError(Exception):
    """The ranks did not find each other, or do not fit together."""


@dataclass(frozen=True)
class Terms:
    """What all ranks must have in common, and how patient they are."""

    token: str = ""  # names job and attempt where the platform gives one: a rank of a stale attempt stays outside
    settings: str = ""  # digest of what makes ranks compute the same
    seconds: float = 300.0  # until all must be there
    silence: float = 60.0  # see Ring


class Peer(NamedTuple):
    link: socket.socket
    address: tuple[str, int]  # of its ring listener


def join(world: World, terms: Terms, log: Log) -> Ring | Alone:
    """Block until all ranks are connected. Raise RendezvousError."""
    if world.size == 1:
        return Alone()
    try:
        return _lead(world, terms, log) if world.rank == 0 else _follow(world, terms, log)
    except OSError as error:
        raise RendezvousError(f"a rank left while the ring was being closed: {error}") from error


def _lead(world: World, terms: Terms, log: Log) -> Ring:
    patience = _Patience(terms.seconds, log)
    listener = _listen(world, patience)
    peers: dict[int, Peer] = {}
    with listener:
        listener.settimeout(LOOK_UP_EVERY)
        while len(peers) < world.size - 1:
            missing = [rank for rank in range(1, world.size) if rank not in peers]
            patience.check(f"ranks missing: {', '.join(map(str, missing))}")
            if link := _accept(listener):
                _admit(link, peers, world, terms, log)
            if len(peers) == world.size - 1:
                # One that left while the others were awaited (its pod was replaced) has to come again.
                peers = {rank: peer for rank, peer in peers.items() if _still_there(peer.link)}
        addresses = [listener.getsockname(), *(peers[rank].address for rank in range(1, world.size))]
        gathering = {"gathering": secrets.token_hex(8), "addresses": addresses}
        for peer in peers.values():
            with peer.link:
                _send(peer.link, gathering)
        return _link(world, terms, gathering, listener, patience)


def _follow(world: World, terms: Terms, log: Log) -> Ring:
    patience = _Patience(terms.seconds, log)
    hello = {"rank": world.rank, "size": world.size, "token": terms.token, "settings": terms.settings}
    master = f"master {world.master_host}:{world.master_port}"
    for _ in patience.attempts():
        try:
            with _connect((resolve(world.master_host), world.master_port)) as link, _beside(link) as listener:
                _send(link, {**hello, "address": listener.getsockname()})
                link.settimeout(patience.left())
                answer = _receive(link)
                if "refused" not in answer:
                    return _link(world, terms, answer, listener, patience)
        except (OSError, ValueError) as error:
            patience.reason = f"{master}: {error}"
            continue
        patience.reason = f"{master} refused: {answer['refused']}"
        if answer.get("final"):
            break
    raise RendezvousError(patience.reason)


def _admit(link: socket.socket, peers: dict[int, Peer], world: World, terms: Terms, log: Log) -> None:
    """Add the caller to the peers, or tell it why not."""
    try:
        link.settimeout(ANSWER_SECONDS)
        hello = _receive(link)
        rank, (host, port) = int(hello["rank"]), hello["address"]
        refusal = _refusal(hello, world, terms)
        if refusal:
            log.warn(f"Refused a rank {rank} from {link.getpeername()[0]}: {refusal['refused']}")
            with link:
                _send(link, refusal)
            return
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warn(f"Refused a caller that is not one of the ranks: {error!r}")
        link.close()
        return
    if rank in peers:
        # A restarted rank comes again before its former connection is seen to be dead.
        peers[rank].link.close()
    peers[rank] = Peer(link, (str(host), int(port)))


def _refusal(hello: dict[str, Any], world: World, terms: Terms) -> dict[str, Any] | None:
    if not secrets.compare_digest(str(hello.get("token")).encode(), terms.token.encode()):
        # Not final: it may be this master that is the stale one, and the caller's own is about to come.
        return {"refused": "it belongs to another job or attempt", "final": False}
    if hello.get("size") != world.size:
        return {"refused": f"its world size is {hello.get('size')}, here it is {world.size}", "final": True}
    if not 0 < hello["rank"] < world.size:
        return {"refused": f"there is no rank {hello['rank']} to fill", "final": True}
    if hello.get("settings") != terms.settings:
        return {"refused": "it was started with other arguments or another version", "final": True}
    return None


def _link(
    world: World, terms: Terms, gathering: dict[str, Any], listener: socket.socket, patience: "_Patience"
) -> Ring:
    left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    expected = {"gathering": gathering["gathering"], "rank": left}
    host, port = gathering["addresses"][right]
    try:
        to_right = _connect((host, port))
        _send(to_right, {"gathering": gathering["gathering"], "rank": world.rank})
    except OSError as error:
        raise RendezvousError(f"rank {right} at {host}:{port}: {error}") from error
    listener.settimeout(LOOK_UP_EVERY)
    while True:
        patience.check(f"no connection from rank {left}")
        from_left = _accept(listener)
        if not from_left:
            continue
        from_left.settimeout(ANSWER_SECONDS)
        try:
            if _receive(from_left) == expected:
                return Ring(
                    world.rank, world.size, Neighbour(left, from_left), Neighbour(right, to_right), terms.silence
                )
        except (OSError, ValueError):
            pass
        from_left.close()


def _listen(world: World, patience: "_Patience") -> socket.socket:
    """Listen at the master's own address only: other pods on the same machine use the same port."""
    for _ in patience.attempts():
        try:
            return socket.create_server((resolve(world.master_host), world.master_port), backlog=world.size + 8)
        except OSError as error:
            patience.reason = f"cannot listen at {world.master_host}:{world.master_port}: {error}"
    raise RendezvousError(patience.reason)


def _connect(address: tuple[str, int]) -> socket.socket:
    link = socket.create_connection(address, timeout=ANSWER_SECONDS)
    if link.getsockname() == link.getpeername():
        # On one machine a port that nobody listens at can be given to the caller itself, which then hears its echo.
        link.close()
        raise ConnectionRefusedError("nobody listens there yet")
    return link


def _beside(link: socket.socket) -> socket.socket:
    """Listen at the address that the other end sees; where all ranks are on one machine that is the loopback."""
    return socket.create_server((link.getsockname()[0], 0))


def _accept(listener: socket.socket) -> socket.socket | None:
    try:
        return listener.accept()[0]
    except TimeoutError:
        return None


def _still_there(link: socket.socket) -> bool:
    """A waiting rank says nothing more; readable means that it hung up."""
    link.setblocking(False)
    try:
        return link.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        link.settimeout(ANSWER_SECONDS)
        return True
    except OSError:
        return False


def _send(link: socket.socket, message: dict[str, Any]) -> None:
    link.sendall(json.dumps(message).encode() + b"\n")


def _receive(link: socket.socket) -> dict[str, Any]:
    """Read one line, byte by byte: what follows it may already be numbers of the ring. Raise OSError, ValueError."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = link.recv(1)
        if not byte:
            raise ConnectionResetError("it closed the connection")
        line += byte
        if len(line) > LONGEST_LINE:
            raise ValueError("line too long")
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


class _Patience:
    """Time until the ranks must have met; says now and then what is still missing."""

    def __init__(self, seconds: float, log: Log) -> None:
        self.seconds = seconds
        self.reason = "nobody was reached"
        self._log = log
        self._end = time.monotonic() + seconds
        self._next_word = time.monotonic() + SAY_SO_EVERY

    def left(self) -> float:
        return max(self._end - time.monotonic(), 0.01)

    def check(self, reason: str) -> None:
        """Raise RendezvousError with this reason when the time is over."""
        self.reason = reason
        now = time.monotonic()
        if now >= self._end:
            raise RendezvousError(f"not all ranks met within {self.seconds:g}s; {reason}")
        if now >= self._next_word:
            self._next_word = now + SAY_SO_EVERY
            self._log.warn(f"Still waiting: {reason}")

    def attempts(self) -> Iterator[None]:
        """Yield, with longer and longer pauses; at the end check() raises."""
        pause = 0.05
        while True:
            yield
            self.check(self.reason)
            time.sleep(min(pause, self.left()))
            pause = min(pause * 1.5, 1.0)
