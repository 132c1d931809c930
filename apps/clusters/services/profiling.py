"""Keeping what operators say of a cluster."""

from __future__ import annotations

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.clusters.domain import profile
from apps.clusters.models import Cluster
from apps.clusters.services.actions import PROFILED
from apps.clusters.services.registration import require_operator
from apps.streams.services import hint


@audit.use_case(PROFILED)
def describe(actor: Actor, *, cluster: Cluster, document: object) -> profile.Profile:
    """Keep a profile in the place of the one before; the same again changes nothing. Raises profile.Bad, Denied."""
    require_operator(actor)
    new = profile.read(document)
    old = Cluster.objects.for_system().select_for_update().get(pk=cluster.pk).described
    changed = [name for name, value in vars(new).items() if value != getattr(old, name)]
    if changed:
        Cluster.objects.for_system().filter(pk=cluster.pk).update(profile=new.to_row())
        audit.record(PROFILED, actor, f"cluster:{cluster.pk}", name=cluster.name, fields=", ".join(changed))
        hint(cluster.topic)
    return new
