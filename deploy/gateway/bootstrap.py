"""Envoy's bootstrap: one listener that asks the portal about every request, and takes its routes from a folder.

What is in the folder is `apps.adapters.gateway`'s. The administration interface is a Unix socket, as it can end Envoy
and shows its configuration: on a port every process of the machine could reach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.adapters.gateway import (
    AUTHORIZE_PATH,
    CLUSTERS,
    DEPLOYMENT_HEADER,
    PORTAL,
    ROUTE_CONFIGURATION,
    ROUTES,
    SECRET_HEADER,
)

AUTHORIZE_SECONDS = 3
HTTP = "envoy.extensions.filters.http"
TYPES = "type.googleapis.com/envoy."

Json = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """`folder` is the portal's MAAS_GATEWAY_DIR, `secret` its MAAS_GATEWAY_SECRET, `admin` the path of a socket."""

    listen: tuple[str, int]
    portal: tuple[str, int]
    folder: Path
    admin: Path
    secret: str


def bootstrap(setup: Setup) -> Json:
    return {
        "node": {"id": "maas-gateway", "cluster": "maas-gateway"},
        "admin": {"address": {"pipe": {"path": str(setup.admin), "mode": 0o600}}},
        "dynamic_resources": {"cds_config": _watched(setup.folder / CLUSTERS)},
        "static_resources": {"listeners": [_listener(setup)], "clusters": [_portal(setup)]},
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"{TYPES}extensions.resource_monitors.downstream_connections.v3."
                        "DownstreamConnectionsConfig",
                        "max_active_downstream_connections": 10_000,
                    },
                }
            ]
        },
    }


def _watched(path: Path) -> Json:
    return {"resource_api_version": "V3", "path_config_source": {"path": str(path)}}


def _address(address: tuple[str, int]) -> Json:
    return {"socket_address": {"address": address[0], "port_value": address[1]}}


def _portal(setup: Setup) -> Json:
    return {
        "name": PORTAL,
        "type": "STRICT_DNS",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": PORTAL,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(setup.portal)}}]}],
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPES}extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http_protocol_options": {}},
                # Below uvicorn's 5 s, so that no question is put to a connection that is being closed.
                "common_http_protocol_options": {"idle_timeout": "4s"},
            }
        },
    }


def _listener(setup: Setup) -> Json:
    manager = {"name": "envoy.filters.network.http_connection_manager", "typed_config": _manager(setup)}
    return {"name": "models", "address": _address(setup.listen), "filter_chains": [{"filters": [manager]}]}


def _manager(setup: Setup) -> Json:
    ours = {"remove_on_match": {"key_matcher": {"prefix": "x-maas-"}}}
    forged = [ours, {"remove_on_match": {"key_matcher": {"prefix": "x-envoy-"}}}]
    return {
        "@type": f"{TYPES}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "models",
        "server_name": "maas-gateway",
        "codec_type": "AUTO",
        "use_remote_address": True,
        "always_set_request_id_in_response": True,
        "strip_any_host_port": True,
        # One spelling for each path: the portal is asked about what is then served.
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "common_http_protocol_options": {"headers_with_underscores_action": "DROP_HEADER", "idle_timeout": "600s"},
        "request_headers_timeout": "10s",
        "early_header_mutation_extensions": [
            {
                "name": "envoy.http.early_header_mutation.header_mutation",
                "typed_config": {
                    "@type": f"{TYPES}extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
                    "mutations": forged,
                },
            }
        ],
        "rds": {"route_config_name": ROUTE_CONFIGURATION, "config_source": _watched(setup.folder / ROUTES)},
        "http_filters": [
            # Without mutations of its own: the routes have some.
            _filter("header_mutation", "HeaderMutation", {}),
            _filter("ext_authz", "ExtAuthz", _authorize(setup)),
            _filter("router", "Router", {"suppress_envoy_headers": True}),
        ],
        "local_reply_config": {"mappers": _replies()},
        "access_log": [_access_log()],
    }


def _filter(name: str, kind: str, configuration: Json) -> Json:
    return {
        "name": f"envoy.filters.http.{name}",
        "typed_config": {"@type": f"type.googleapis.com/{HTTP}.{name}.v3.{kind}", **configuration},
    }


def _authorize(setup: Setup) -> Json:
    def named(*names: str) -> Json:
        return {"patterns": [{"exact": name, "ignore_case": True} for name in names]}

    secret = {"key": SECRET_HEADER, "value": setup.secret}
    told = ("retry-after", "refresh", "x-request-id", "www-authenticate", "content-type")
    host, port = setup.portal
    return {
        "failure_mode_allow": False,
        "status_on_error": {"code": 503},
        # Method, path, host and Authorization are passed by themselves; never a body, which holds what people wrote.
        # Cookies are left of requests to pages alone: the routes to models take them away before.
        "allowed_headers": named(
            "authorization", "cookie", "accept-language", DEPLOYMENT_HEADER, "x-request-id", "x-forwarded-for"
        ),
        "http_service": {
            "server_uri": {"uri": f"http://{host}:{port}", "cluster": PORTAL, "timeout": f"{AUTHORIZE_SECONDS}s"},
            "path_prefix": AUTHORIZE_PATH,
            "authorization_request": {"headers_to_add": [secret]},
            "authorization_response": {
                "allowed_upstream_headers": {"patterns": [{"prefix": "x-maas-", "ignore_case": True}]},
                "allowed_client_headers": {
                    "patterns": [*named(*told)["patterns"], {"prefix": "x-ratelimit-", "ignore_case": True}]
                },
                "allowed_client_headers_on_success": {"patterns": [{"prefix": "x-ratelimit-", "ignore_case": True}]},
            },
        },
    }


# --- what Envoy answers itself ----------------------------------------------------------------------------------------


def _replies() -> list[Json]:
    """In the shape of OpenAI's errors, as clients read them. What the portal answered passes as it is."""
    portal_away = {"and_filter": {"filters": [_flags("UAEX"), _status(503)]}}
    return [
        _reply(portal_away, "The portal does not answer, so nobody can be let in. Try again.", "unavailable", retry=2),
        {"filter": _flags("UAEX")},
        _reply(_flags("UH"), "No replica of this deployment is ready. Try again.", "unavailable", retry=5),
        _reply(_flags("UO"), "Too many requests wait for this deployment. Try again.", "overloaded", retry=1),
        _reply(_status(503), "The replica that was to answer cannot be reached. Try again.", "unavailable", retry=1),
        _reply(_status(504), "The model took too long to answer.", "timeout"),
        _reply(_status(400), "This is not an HTTP request that the gateway understands.", "bad_request"),
    ]


def _flags(*flags: str) -> Json:
    return {"response_flag_filter": {"flags": list(flags)}}


def _status(status: int) -> Json:
    equal = {"op": "EQ", "value": {"default_value": status, "runtime_key": f"gateway.reply.{status}"}}
    return {"status_code_filter": {"comparison": equal}}


def _reply(condition: Json, message: str, code: str, *, retry: int = 0) -> Json:
    kind = "invalid_request_error" if code == "bad_request" else "server_error"
    reply: Json = {
        "filter": condition,
        "body_format_override": {
            "json_format": {"error": {"message": message, "type": kind, "param": None, "code": code}},
            "content_type": "application/json",
        },
    }
    if retry:
        reply["headers_to_add"] = [{"header": {"key": "retry-after", "value": str(retry)}}]
    return reply


def _access_log() -> Json:
    """A line of JSON for each request: no key, no query, nothing that people wrote."""
    fields = {
        "time": "%START_TIME%",
        "request_id": "%REQ(X-REQUEST-ID)%",
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ:PATH)%",
        "route": "%ROUTE_NAME%",
        "backend": "%UPSTREAM_CLUSTER%",
        "endpoint": "%UPSTREAM_HOST%",
        "key": "%REQ(X-MAAS-KEY)%",
        "status": "%RESPONSE_CODE%",
        "why": "%RESPONSE_CODE_DETAILS%",
        "flags": "%RESPONSE_FLAGS%",
        "first_byte_ms": "%RESPONSE_DURATION%",
        "ms": "%DURATION%",
        "sent": "%BYTES_SENT%",
        "received": "%BYTES_RECEIVED%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    }
    return {
        "name": "envoy.access_loggers.stdout",
        "typed_config": {
            "@type": f"{TYPES}extensions.access_loggers.stream.v3.StdoutAccessLog",
            "log_format": {"json_format": fields},
        },
    }
