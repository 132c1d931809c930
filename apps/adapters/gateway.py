"""What the gateway to deployed models (Envoy) is told: routes and where they lead, as files that it watches.

    <folder>/routes.json     which path leads to which backends, with which weights
    <folder>/clusters.json   each backend's addresses, balancing and limits

Both are replaced by rename, so Envoy reads each whole and takes it up without a restart and without ending a request.
`deploy/gateway` writes the rest of its configuration, which does not change while it runs.

Beside models there are pages (`Route.is_page`), such as a TensorBoard: reached below their prefix as they are, judged
by a cookie which the question carries for these alone. `<prefix>/enter` leads to the portal itself (`ENTER_PATH`); it
gives the cookie to whoever shows a pass.

A request to `<prefix>/v1/…` is first put before the portal, with its method, path, Authorization and
`DEPLOYMENT_HEADER`, which no client can set, never with its body. The portal's answer:

- 200: it reaches a model server as `/v1/…`, without Authorization and with the answer's `x-maas-*` headers, of which
  `x-maas-key` stands in the access log. The client gets the answer's `x-ratelimit-*`.
- 4xx: the client gets status and body (in the shape of OpenAI's errors), `retry-after`, `www-authenticate`,
  `x-ratelimit-*`.
- anything else, or nothing within three seconds: the client gets 503.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from apps.adapters.errors import Unavailable

AUTHORIZE_PATH = "/gateway/authorize"
"""Where the portal is asked; the path of the client's request is appended to it."""

ENTER_PATH = "/gateway/enter"
PORTAL = "portal"
"""The cluster of the portal, in the part of the configuration that does not change."""

DEPLOYMENT_HEADER = "x-maas-deployment"
"""To the portal: the id of the deployment that the path leads to; absent where it leads to none."""

SECRET_HEADER = "x-maas-gateway-secret"  # noqa: S105 (the header's name)
"""To the portal: proof that the gateway asks, and nobody else."""

ROUTES, CLUSTERS, LOCK = "routes.json", "clusters.json", ".lock"
ROUTE_CONFIGURATION = "deployments"

TAKE_UP_SECONDS = 0.3
"""Between new clusters and the routes that lead to them."""

LINGER_SECONDS = 5
"""How long clusters stay when no route leads to them any more."""

CONNECT_SECONDS = 2
MOST_AT_ONCE = 4096
"""Requests to one backend. Model servers bound what they take on; Envoy's own 1024 would bound many replicas."""

_PREFIX = re.compile(r"(/[a-z0-9]([a-z0-9-]*[a-z0-9])?){2}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_TYPES = "type.googleapis.com/envoy."

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Endpoint:
    """One ready replica."""

    ip: str
    port: int


@dataclass(frozen=True)
class Backend:
    """Replicas that are alike, such as a version of the model: `name` is unique within its route.

    Without endpoints its share of the requests (`weight` of the sum) is answered with 503.
    """

    name: str
    weight: int
    endpoints: tuple[Endpoint, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.weight < 0:
            raise ValueError(f"Not a backend: {self}.")


@dataclass(frozen=True)
class Timeouts:
    """`silent`: without a byte from the model server, which is silent while it makes an answer that is not streamed.
    `longest`: of the whole answer. Seconds."""

    silent: int = 600
    longest: int = 3600


@dataclass(frozen=True)
class Route:
    """`prefix` is `/<tenant>/<deployment>`; the weights of `backends` are relative to their sum, which is above 0.
    `is_page`: for browsers, below the prefix as it is."""

    deployment: str
    prefix: str
    backends: tuple[Backend, ...]
    timeouts: Timeouts = field(default_factory=Timeouts)
    is_page: bool = False

    def __post_init__(self) -> None:
        names = {backend.name for backend in self.backends}
        if not _PREFIX.fullmatch(self.prefix) or len(names) < len(self.backends):
            raise ValueError(f"Not a route: {self}.")
        if not sum(backend.weight for backend in self.backends):
            raise ValueError(f"A route whose weights are all 0: {self}.")

    def cluster(self, backend: Backend) -> str:
        return f"deployment-{self.deployment}-{backend.name}"


class Gateway:
    """The folder that one Envoy, or several, read. Any number of processes may write it, one at a time."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        """`hosts`: the names that clients reach the gateway by; requests to others are answered with 404."""
        self.folder = folder
        self.hosts = tuple(hosts)

    def write(self, routes: Iterable[Route]) -> bool:
        """`refresh` for routes that are known beforehand. Raises Unavailable."""
        return self.refresh(lambda: routes)

    def refresh(self, read: Callable[[], Iterable[Route]]) -> bool:
        """Makes the files say what `read` gives, which is called once nobody else writes, so no older reading wins.

        True while something is left to be done: call again after `LINGER_SECONDS`. Raises Unavailable when the files
        cannot be written.
        """
        try:
            with self._alone():
                return self._replace(sorted(read(), key=lambda route: route.deployment))
        except OSError as error:
            raise Unavailable(f"The gateway's files cannot be written: {error}", system="gateway") from error

    def _replace(self, routes: list[Route]) -> bool:
        """No route may lead to a cluster that is not there, or requests are answered with 503: Envoy takes up the two
        files one after the other, and requests that the portal is just asked about have their route already."""
        wanted = {
            route.cluster(backend): _cluster(route.cluster(backend), backend)
            for route in routes
            for backend in route.backends
        }
        known, left = self._known(), self._left(wanted.keys())
        clusters = left | wanted
        self._put(CLUSTERS, _answer([clusters[name] for name in sorted(clusters)]))
        if wanted.keys() - known.keys():
            time.sleep(TAKE_UP_SECONDS)
        self._put(ROUTES, _answer([_routes(routes, self.hosts)]))
        return bool(left)

    def _known(self) -> dict[str, Json]:
        """What the file of clusters says, by name."""
        try:
            resources = json.loads((self.folder / CLUSTERS).read_text())["resources"]
        except (FileNotFoundError, ValueError):
            return {}
        return {each["name"]: each for each in resources}

    def _left(self, wanted: Collection[str]) -> dict[str, Json]:
        """Clusters that are no longer wanted and have to stay: a route leads to them, or did a moment ago."""
        try:
            routes = (self.folder / ROUTES).read_text()
            changed = (self.folder / ROUTES).stat().st_mtime
        except FileNotFoundError:
            return {}
        # By the clock of the file system, which may be another machine's.
        settled = (self.folder / LOCK).stat().st_mtime - changed >= LINGER_SECONDS
        unwanted = {name: cluster for name, cluster in self._known().items() if name not in wanted}
        return {name: cluster for name, cluster in unwanted.items() if not settled or json.dumps(name) in routes}

    def _put(self, name: str, answer: Json) -> bool:
        path, data = self.folder / name, json.dumps(answer, indent=1, sort_keys=True).encode()
        if path.exists() and path.read_bytes() == data:
            return False
        unfinished = path.with_name(f".{name}.unfinished")
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.utime(lock.fileno())
            yield


# --- Envoy's words ----------------------------------------------------------------------------------------------------


def _answer(resources: list[Json]) -> Json:
    digest = hashlib.sha256(json.dumps(resources, sort_keys=True).encode()).hexdigest()[:16]
    return {"version_info": digest, "resources": resources}


def _cluster(name: str, backend: Backend) -> Json:
    addresses = [
        {"endpoint": {"address": {"socket_address": {"address": each.ip, "port_value": each.port}}}}
        for each in sorted(backend.endpoints)
    ]
    most = {"max_connections": MOST_AT_ONCE, "max_pending_requests": MOST_AT_ONCE, "max_requests": MOST_AT_ONCE}
    return {
        "@type": f"{_TYPES}config.cluster.v3.Cluster",
        "name": name,
        # Not by EDS: from files it takes an inotify instance for each cluster, of which a user has 128.
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": addresses}]},
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [most]},
        # One that cannot be reached is left out for a while. What a server answers says nothing here: 503 is "busy".
        "outlier_detection": {
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": 3,
            "enforcing_consecutive_5xx": 0,
            "enforcing_consecutive_gateway_failure": 0,
            "enforcing_success_rate": 0,
            "enforcing_local_origin_success_rate": 0,
            "base_ejection_time": "5s",
            "max_ejection_percent": 50,
        },
        "typed_extension_protocol_options": {
            f"{_TYPES.partition('/')[2]}extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{_TYPES}extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http_protocol_options": {}},
                # Below the 5 s after which uvicorn, and with it vLLM, closes: nothing is sent on a closing connection.
                "common_http_protocol_options": {"idle_timeout": "4s"},
            }
        },
    }


_UNASKED: Json = {
    "envoy.filters.http.ext_authz": {
        "@type": f"{_TYPES}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
        "disabled": True,
    }
}
_NO_COOKIE: Json = {"remove": "cookie"}
"""Before the portal is asked: those that it gives are for pages."""


def _routes(routes: list[Route], hosts: Sequence[str]) -> Json:
    # The portal's door has no path of its own to be asked at.
    root = _nothing(authorize=False) | {"match": {"path": "/"}}
    known = {
        "name": "known",
        "domains": sorted(set(hosts)),
        "routes": [*chain.from_iterable(map(_routes_of, routes)), root, _nothing()],
    }
    unknown = {"name": "unknown", "domains": ["*"], "routes": [_nothing(authorize=False)]}
    return {
        "@type": f"{_TYPES}config.route.v3.RouteConfiguration",
        "name": ROUTE_CONFIGURATION,
        "virtual_hosts": [known, unknown] if hosts else [unknown],
    }


def _routes_of(route: Route) -> list[Json]:
    return [_enter(route), _route(route)] if route.is_page else [_route(route)]


def _enter(route: Route) -> Json:
    """The way to the portal, which is not asked about itself. It is told which page by the path."""
    return {
        "name": f"enter-{route.deployment}",
        "match": {"path": f"{route.prefix}/enter"},
        "route": {"cluster": PORTAL, "prefix_rewrite": ENTER_PATH, "timeout": "10s"},
        "request_headers_to_remove": ["authorization", "cookie", "proxy-authorization"],
        "typed_per_filter_config": _UNASKED,
    }


def _route(route: Route) -> Json:
    silent, longest = f"{route.timeouts.silent}s", f"{route.timeouts.longest}s"
    weighted = [{"name": route.cluster(each), "weight": each.weight} for each in route.backends]
    deployment = {"header": {"key": DEPLOYMENT_HEADER, "value": str(route.deployment)}}
    deployment["append_action"] = "OVERWRITE_IF_EXISTS_OR_ADD"  # type: ignore[assignment]
    mutations: list[Json] = [{"append": deployment}]
    if not route.is_page:
        mutations.append(_NO_COOKIE)
    return {
        "name": f"deployment-{route.deployment}",
        # Only the API: a server's metrics and administration are no business of its clients.
        "match": {"prefix": f"{route.prefix}/" if route.is_page else f"{route.prefix}/v1/"},
        "route": {
            **({} if route.is_page else {"prefix_rewrite": "/v1/"}),
            "weighted_clusters": {"clusters": weighted},
            # No limit for the whole: an answer may be streamed for long.
            "timeout": "0s",
            "idle_timeout": f"{route.timeouts.silent + 30}s",
            "max_stream_duration": {"max_stream_duration": longest},
            "retry_policy": {
                # Only where the server has seen nothing: making an answer twice costs twice and gives another.
                "retry_on": "connect-failure,refused-stream,reset-before-request",
                "num_retries": 2,
                "retry_host_predicate": [
                    {
                        "name": "envoy.retry_host_predicates.previous_hosts",
                        "typed_config": {
                            "@type": f"{_TYPES}extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                        },
                    }
                ],
                "host_selection_retry_max_attempts": 3,
                "per_try_idle_timeout": silent,
            },
        },
        "request_headers_to_remove": ["authorization", "cookie", "proxy-authorization"],
        "typed_per_filter_config": {
            "envoy.filters.http.header_mutation": {
                "@type": f"{_TYPES}extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
                "mutations": {"request_mutations": mutations},
            }
        },
    }


def _nothing(*, authorize: bool = True) -> Json:
    """The end of the list. Where the portal is asked first, strangers cannot tell what is deployed here."""
    asked = {
        "envoy.filters.http.header_mutation": {
            "@type": f"{_TYPES}extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
            "mutations": {"request_mutations": [_NO_COOKIE]},
        }
    }
    return {
        "name": "nothing",
        "match": {"prefix": "/"},
        "direct_response": {"status": 404, "body": {"inline_string": not_found()}},
        "response_headers_to_add": [
            {
                "header": {"key": "content-type", "value": "application/json"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "typed_per_filter_config": asked if authorize else _UNASKED,
    }


def not_found() -> str:
    """The body of a 404, in the shape of OpenAI's errors."""
    error = {
        "message": "No model is deployed here.",
        "type": "invalid_request_error",
        "param": None,
        "code": "not_found",
    }
    return json.dumps({"error": error})
