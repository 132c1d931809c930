"""Start the API server: `python -m apps.localcluster.apiserver --dir DIR --port N`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import uvicorn

from apps.localcluster.apiserver.app import ApiServer
from apps.localcluster.apiserver.bootstrap import prepare, write_kubeconfig
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.rules import selectable_fields
from apps.localcluster.apiserver.store import Store
from apps.localcluster.apiserver.tokens import Tokens

log = logging.getLogger("apiserver")


class Server(uvicorn.Server):
    """Ends open watches first, so that a stop does not wait for them."""

    def __init__(self, config: uvicorn.Config, app: ApiServer) -> None:
        super().__init__(config)
        self.app = app

    async def shutdown(self, sockets: object = None) -> None:
        del sockets
        self.app.stop()
        await super().shutdown()


def make_certificates(directory: Path) -> None:
    """In a process of its own: the server has no other use for a library that large."""
    if not (directory / "server.key").exists():
        command = [sys.executable, "-m", "apps.localcluster.apiserver.certificates", str(directory)]
        subprocess.run(command, check=True)


def build(directory: Path) -> ApiServer:
    """The application over the state in a directory."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    make_certificates(directory)
    database = directory / "state.db"
    database.touch(mode=0o600)
    store, registry = Store(database, selectable_fields), Registry()
    store.replay()
    prepare(store, registry)
    return ApiServer(store, registry, Tokens(store), (directory / "ca.crt").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(prog="apiserver", description="A Kubernetes API server for one machine.")
    parser.add_argument("--dir", type=Path, required=True, help="where its state and admin.kubeconfig are kept")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = build(arguments.dir)
    server = f"https://127.0.0.1:{arguments.port}"
    authority = (arguments.dir / "ca.crt").read_bytes()
    write_kubeconfig(arguments.dir / "admin.kubeconfig", server, authority, app.tokens)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=arguments.port,
        access_log=False,
        log_config=None,
        lifespan="on",
        server_header=False,
        ssl_certfile=arguments.dir / "server.crt",
        ssl_keyfile=arguments.dir / "server.key",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
    )
    log.info("serving %s, state in %s", server, arguments.dir)
    asyncio.run(Server(config, app).serve())


if __name__ == "__main__":
    main()
