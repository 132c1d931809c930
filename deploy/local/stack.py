"""What the demo runs beside its servers: identity provider, the small cluster, the portal, with their environment."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from deploy.local.access import Access
from deploy.local.home import Home
from deploy.local.node import node
from deploy.local.people import CLIENT_ID, issuer
from deploy.local.program import Failed, NotReady, Program, dying_with_parent, listening

TREE = Path(__file__).resolve().parents[2]

SHARED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "PYTHONDONTWRITEBYTECODE")
"""What programs get from the environment of whoever starts the demo. Nothing else: users' commands run here."""

PORTAL_VARIABLES = ("DATABASE_URL", "MIGRATE_DATABASE_URL", "REDIS_URL", "VAULT_", "OIDC_", "MAAS_")
"""Beginnings of the names that the portal reads, and that win over the demo's own values."""

BACKGROUND_VARIABLES = ("VAULT_ROLE_ID_FILE", "VAULT_SECRET_ID_FILE")
"""What web processes are not given: a role that reads."""

MARK = "MAAS_DEMO_HOME"
"""Every process of a demo carries its folder in this variable, so that what is left of one can be found."""


@dataclass(frozen=True)
class Stack:
    home: Home
    given: Mapping[str, str]
    """The environment the demo was started with: addresses in it are used instead of servers of our own."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.home.ports()['web']}"

    @property
    def kubeconfig(self) -> Path:
        """The cluster's administrator's: written by the small cluster, or a link to that of a given one."""
        return self.home.root / "cluster" / "admin.kubeconfig"

    def use_cluster(self, kubeconfig: Path) -> None:
        """Takes the cluster of this kubeconfig for the demo's own. Raises Failed."""
        if not kubeconfig.is_file():
            raise Failed(f"there is no kubeconfig {kubeconfig}")
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        if self.kubeconfig.is_symlink():
            self.kubeconfig.unlink()
        elif self.kubeconfig.exists():
            raise Failed(f"{self.home.root} has a small cluster of its own; choose another folder with --dir")
        self.kubeconfig.symlink_to(kubeconfig.absolute())

    @property
    def access(self) -> Access:
        return Access(self.home, self.kubeconfig, "" if self.kubeconfig.is_symlink() else "small")

    def base_env(self) -> dict[str, str]:
        own = {MARK: str(self.home.root), "PYTHONUNBUFFERED": "1", "TZ": "UTC"}
        return {key: self.given[key] for key in SHARED_VARIABLES if key in self.given} | own

    def portal_env(self, servers: Mapping[str, str], people: Path) -> dict[str, str]:
        """The portal's own variables, without what `base_env` has. docs/operators explains each."""
        own = {
            "DJANGO_SETTINGS_MODULE": "maasportal.settings",
            "MAAS_DEMO": "1",
            "MAAS_SECRET_KEY_FILE": str(self.home.secret_path("django")),
            "MAAS_BASE_URL": self.url,
            "MAAS_ALLOWED_HOSTS": "127.0.0.1,localhost",
            "MAAS_STATIC_ROOT": str(self.home.root / "static"),
            "MAAS_STORAGE_DIR": str(self.home.root / "storage"),
            "MAAS_TENSORBOARD_IMAGE": "maas/tensorboard:1" if find_spec("tensorboard") else "",
            "MAAS_LOG_FORMAT": "text",
            "MAAS_DEMO_KUBECONFIG": str(self.access.kubeconfig),
            "MAAS_DEMO_PEOPLE_FILE": str(people),
            "OIDC_ISSUER": issuer(self.home),
            "OIDC_CLIENT_ID": CLIENT_ID,
            "OIDC_CLIENT_SECRET_FILE": str(self.home.secret_path("oidc-client")),
            # Threads that allocate a little each would otherwise keep an arena each.
            "MALLOC_ARENA_MAX": "2",
        }
        self.home.secret("django")
        passed_on = {key: value for key, value in self.given.items() if key.startswith(PORTAL_VARIABLES)}
        merged = own | dict(servers) | passed_on
        return {"MIGRATE_DATABASE_URL": merged.get("DATABASE_URL", "")} | merged

    # --- programs ---------------------------------------------------------------------------------------------------

    def identity(self) -> Program:
        """Raises Missing where there is no Node.js."""
        command = (str(node()), "deploy/identity/provider.mjs", "--config", str(self.home.root / "identity.json"))
        check = answers(f"{issuer(self.home)}/healthz", 204)
        env = {"MAAS_DEMO": "1", "NODE_ENV": "production"}
        return Program("identity", "Identity provider", dying_with_parent("TERM", command), check, env, stop_seconds=2)

    def cluster(self, fleet: Path) -> list[Program]:
        """The small cluster's three rooms."""
        root, port = self.home.root, self.home.ports()["apiserver"]
        config = ("--kubeconfig", str(self.kubeconfig))
        apiserver = ("--dir", str(root / "cluster"), "--port", str(port))
        agent = (*config, "--fleet", str(fleet), "--dir", str(root / "nodes"))
        # A real API server asks for logs over TLS only. The small one shows the certificate that it serves with, so
        # that nobody else on this machine is let in.
        tls = ("--tls",) if self.kubeconfig.is_symlink() else ("--client-ca", str(root / "cluster/ca.crt"))

        def room(name: str, label: str, arguments: tuple[str, ...], check: Callable[[], None] | None) -> Program:
            command = dying_with_parent("TERM", _python(f"apps.localcluster.{name}", *arguments))
            return Program(name, label, command, check, stop_seconds=3)

        return [
            room("apiserver", "Kubernetes API", apiserver, both(listening(port), exists(self.kubeconfig))),
            room("volcano", "Volcano", config, None),
            room("nodeagent", "Nodes", (*agent, *tls), None),
        ]

    def portal(self, env: Mapping[str, str]) -> list[Program]:
        uvicorn = ["maasportal.asgi:application", "--host=127.0.0.1", f"--port={self.home.ports()['web']}"]
        uvicorn += ["--lifespan=off", "--no-access-log", "--timeout-graceful-shutdown=2"]
        uvicorn += ["--ws=maasportal.sockets:Sockets"]
        # A frame would be compressed for each page anew, and each page keep its own window of what went before.
        uvicorn += ["--ws-per-message-deflate=false"]
        # A look waits for the API server more than it computes; after an outage thousands of looks do.
        worker = ["-A", "maasportal", "worker", "--pool=threads", "--concurrency=8", "--hostname=demo@%h"]
        worker += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO"]

        def own(name: str, label: str, command: tuple[str, ...], check: Callable[[], None] | None) -> Program:
            return Program(name, label, dying_with_parent("TERM", command), check, env, stop_seconds=4)

        web = _python("uvicorn", *uvicorn)
        light = {key: value for key, value in env.items() if key not in BACKGROUND_VARIABLES}
        healthy = answers(f"{self.url}/healthz", 200)
        return [
            Program("web", "Web", dying_with_parent("TERM", web), healthy, light, stop_seconds=4),
            own("worker", "Worker", _behind(_python("celery", *worker)), worker_listens(env.get("REDIS_URL", ""))),
            own("watch", "Watch", (sys.executable, "manage.py", "watch"), None),
        ]


def _behind(command: tuple[str, ...]) -> tuple[str, ...]:
    """The same command, which waits for the processor behind those whom people wait for: a change in the cluster
    reaches open pages through the watch and the web process, and wakes a look of the worker that takes longer."""
    return ("nice", "-n", "10", *command)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


# --- checks ---------------------------------------------------------------------------------------------------------


def answers(url: str, status: int) -> Callable[[], None]:
    """A check that GET `url` gives `status`. The answer's text is the reason where it does not."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def check() -> None:
        try:
            with opener.open(url, timeout=5) as answer:
                found, text = answer.status, answer.read(2000)
        except urllib.error.HTTPError as error:
            found, text = error.code, error.read(2000)
        except OSError as error:
            raise NotReady(f"{url}: {error}") from error
        if found != status:
            raise NotReady(f"{url} answers {found}: {text.decode(errors='replace').strip()}")

    return check


def exists(path: Path) -> Callable[[], None]:
    def check() -> None:
        if not path.exists():
            raise NotReady(f"{path} is not there")

    return check


def both(*checks: Callable[[], None]) -> Callable[[], None]:
    def check() -> None:
        for each in checks:
            each()

    return check


def worker_listens(redis_url: str) -> Callable[[], None]:
    """A check that a Celery worker listens for commands, which it does once it takes tasks.

    Only workers subscribe to patterns here; channels are subscribed to by name.
    """

    def check() -> None:
        client = redis.Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2)
        try:
            listeners = client.pubsub_numpat()
        except redis.RedisError as error:
            raise NotReady(str(error)) from error
        finally:
            client.close()
        if not listeners:
            raise NotReady("no worker listens yet")

    return check
