"""Start the API server: `python -m apps.localcluster.apiserver --dir DIR --port N`."""

from __future__ import annotations

import argparse
import json
import logging
import ssl
import subprocess
import sys
from pathlib import Path

import uvicorn
import uvloop

from apps.localcluster.apiserver.app import ApiServer
from apps.localcluster.apiserver.bootstrap import prepare, write_kubeconfig, write_private
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.protocol import Protocol
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


def node_identity(directory: Path) -> ssl.SSLContext:
    """How this server shows itself to nodes. Theirs are not checked: they make their certificates themselves."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    return context


def build(directory: Path) -> ApiServer:
    """The application over the state in a directory."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (directory / "server.key").exists():
        command = [sys.executable, "-m", "apps.localcluster.apiserver.certificates"]
        made = subprocess.run(command, check=True, capture_output=True).stdout
        for name, text in json.loads(made).items():  # the key comes last
            write_private(directory / name, text)
    database = directory / "state.db"
    database.touch(mode=0o600)
    store, registry = Store(database, selectable_fields), Registry()
    store.replay()
    prepare(store, registry)
    authority = (directory / "ca.crt").read_text()
    return ApiServer(store, registry, Tokens(store), authority, node_identity(directory))


def main() -> None:
    parser = argparse.ArgumentParser(prog="apiserver", description="A Kubernetes API server for one machine.")
    parser.add_argument("--dir", type=Path, required=True, help="where its state and admin.kubeconfig are kept")
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--no-controllers", action="store_true", help="answer only, act on nothing")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for chatty in ("httpx", "uvicorn.error"):  # the second would tell what commands are run in pods
        logging.getLogger(chatty).setLevel(logging.WARNING)
    app = build(arguments.dir)
    app.controlled = not arguments.no_controllers
    server = f"https://127.0.0.1:{arguments.port}"
    write_kubeconfig(arguments.dir / "admin.kubeconfig", server, (arguments.dir / "ca.crt").read_bytes(), app.tokens)
    config = uvicorn.Config(
        app,
        http=Protocol,
        host="127.0.0.1",
        port=arguments.port,
        access_log=False,
        proxy_headers=False,
        log_config=None,
        lifespan="on",
        server_header=False,
        ssl_certfile=arguments.dir / "server.crt",
        ssl_keyfile=arguments.dir / "server.key",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,
    )
    log.info("serving %s, state in %s", server, arguments.dir)
    uvloop.run(Server(config, app).serve())


if __name__ == "__main__":
    main()
