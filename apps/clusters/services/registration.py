"""Bringing a cluster under the portal."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit.services import action, record, use_case
from apps.clusters.models import Cluster
from apps.streams.services import hint

ALL = "cluster.0"
"""The topic of the list of clusters; no cluster has this id."""
TEND = "clusters.tend"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Hosts to which nothing leaves this machine."""

REGISTERED = action(
    "cluster.registered", _("{actor} registered the cluster {name} at {server}"), name=_("Register a cluster")
)


@dataclass(frozen=True)
class Registration:
    """What an operator says of a cluster. `ca_pem` is "" where the machine's own authorities sign its certificate."""

    slug: str
    name: str
    server: str
    ca_pem: str = ""

    @property
    def credential_path(self) -> str:
        """Where the secrets server keeps `{"token": …}`."""
        return f"clusters/{self.slug}"

    @property
    def address(self) -> str:
        """The server without a slash at its end."""
        return self.server.rstrip("/")

    def check(self) -> None:
        """Raise ValidationError, with a sentence for the operator."""
        if problem := _server_problem(self.server):
            raise ValidationError({"server": problem})
        require_authority(self.ca_pem)
        said = {"slug", "name", "server"}
        others = {field.name for field in Cluster._meta.get_fields()} - said
        Cluster(slug=self.slug, name=self.name, server=self.server).clean_fields(exclude=others)


def _server_problem(server: str) -> Promise | None:
    try:
        parts = urlsplit(server)
        _port = parts.port
    except ValueError:
        return _("Give the API server as https://host:port, without a path.")
    odd = not server.isascii() or not server.isprintable() or " " in server or parts.username is not None
    more = parts.path.strip("/") or parts.query or parts.fragment
    if odd or more or parts.scheme not in ("http", "https") or not parts.hostname:
        return _("Give the API server as https://host:port, without a path.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return _("Use https: a token must not travel unencrypted to another machine.")
    return None


def require_authority(ca_pem: str) -> None:
    """Raise ValidationError unless the text holds certificates, or is empty."""
    if ca_pem:
        try:
            ssl.create_default_context(cadata=ca_pem)
        except (ssl.SSLError, TypeError) as error:  # TypeError: a letter that is not ASCII
            raise ValidationError({"ca_pem": _("This holds no certificate in PEM form.")}) from error


def require_operator(actor: Actor) -> None:
    """Raise Denied unless the actor runs the platform."""
    actor.require(Permission.CLUSTER_REGISTER, target="cluster")


@use_case(REGISTERED)
def register_cluster(actor: Actor, registration: Registration) -> Cluster:
    """Add a cluster that whoever runs this command vouches for, or change its address. Its credential is stored before
    (`services.connect.register`); a worker looks at both at once."""
    require_operator(actor)
    registration.check()
    cluster, _created = Cluster.objects.update_or_create(
        slug=registration.slug,
        defaults={
            "name": registration.name,
            "server": registration.address,
            "ca_pem": registration.ca_pem,
            "credential_path": registration.credential_path,
            "state": Cluster.State.READY,
            "warned_days": None,
            "due_at": Now(),
        },
    )
    record(REGISTERED, actor, f"cluster:{cluster.pk}", name=cluster.name, server=cluster.server)
    hint(cluster.topic)
    hint(ALL)
    wake(TEND, cluster.pk)
    return cluster
