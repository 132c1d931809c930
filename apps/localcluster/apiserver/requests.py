"""One request as the handlers see it: who asks for what, taken from method, path and query."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from apps.localcluster.apiserver.errors import Cause, StatusError, bad_request, forbidden_value, invalid, not_supported
from apps.localcluster.apiserver.kinds import Kind

Object = dict[str, Any]

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict)


APPLY = "application/apply-patch+yaml"
TABLE, PARTIAL = "Table", "PartialObjectMetadata"
FORMS = {"get": ("", TABLE, PARTIAL), "list": ("", TABLE, PARTIAL + "List"), "watch": ("", TABLE)}
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True)
class Target:
    """What a path names. Outside the API only `path` is set."""

    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target:
    """`/api/v1/…` and `/apis/GROUP/VERSION/…`. An empty segment counts: `/namespaces//pods` means every namespace."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return Target(path)
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    of_namespace = group == "" and len(rest) == 3 and rest[2] in ("status", "finalize")
    if rest[0] == "namespaces" and len(rest) > 2 and not of_namespace:
        rest = rest[2:]
    return Target(path, group, version, rest[0], namespace, "".join(rest[1:2]), "/".join(rest[2:]))


@dataclass(frozen=True)
class Request:
    """A request to a known kind by a known user."""

    method: str
    target: Target
    query: dict[str, str]
    headers: dict[str, str]
    user: User
    kind: Kind
    body: bytes = b""
    form: str = ""
    """How objects are wanted: as they are, or as one of FORMS."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.target.namespace if self.kind.namespaced else "", self.target.name)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def namespace(self) -> str:
        return self.target.namespace if self.kind.namespaced else ""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip()

    @property
    def manager(self) -> str:
        """Field manager: the parameter, else the first word of the User-Agent."""
        agent = re.split(r"[/ ]", self.headers.get("user-agent", ""))[0]
        return self.query.get("fieldManager") or agent or "unknown"

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "true", "t")

    def with_name(self, name: str) -> Request:
        return replace(self, target=replace(self.target, name=name))


def parse_query(raw: bytes) -> dict[str, str]:
    """The first value of each parameter counts."""
    return dict(reversed(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)))


def form_of(accept: str, verb: str) -> str:
    """The first form of answer that a client asks for and a verb offers. Raises StatusError 406."""
    for each in accept.split(",") if accept else ["*/*"]:
        media, *given = each.replace(" ", "").split(";")
        wanted = dict(parameter.partition("=")[::2] for parameter in given)
        form = wanted.get("as", "")
        known = not form or (wanted.get("g"), wanted.get("v")) == ("meta.k8s.io", "v1")
        if known and form in FORMS.get(verb, ("",)) and media in ("application/json", "application/*", "*/*"):
            return form
    raise StatusError(406, "NotAcceptable", NOT_ACCEPTABLE, {})


def timeout_of(request: Request) -> float | None:
    """Seconds that a request may take, None for no limit. Raises StatusError 400 for what is no duration of Go."""
    text = request.query.get("timeout", "")
    if not re.fullmatch(r"([-+]?(0|(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h))+)?", text):
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{text}"')
    parts = re.findall(r"([\d.]+)([a-z]+)", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts) or None


def check_write_options(request: Request, options: str) -> None:
    """Refuse dryRun, fieldValidation and fieldManager values that no server takes. `options` as CreateOptions."""
    causes, dry = [], request.query.get("dryRun", "")
    if dry not in ("", "All"):
        text = f'Unsupported value: ["{dry}"]: supported values: "All"'
        causes.append(Cause("FieldValueNotSupported", text, "dryRun"))
    if options == "PatchOptions" and request.flag("force") and request.content_type != APPLY:
        causes.append(forbidden_value("force", "may not be specified for non-apply patch"))
    validation = request.query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        causes.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise invalid(("meta.k8s.io", options), "", causes)


def number_of(request: Request, name: str) -> int:
    """A whole number in the query, 0 when absent. Raises StatusError 400."""
    text = request.query.get(name) or "0"
    if not re.fullmatch(r"[+-]?\d+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version_of(text: str) -> int:
    """A resourceVersion as a number, 0 when absent. Raises StatusError 400."""
    if text and not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text or 0)
