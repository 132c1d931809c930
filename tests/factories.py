"""People, tenants and jobs for tests, made through the models' own rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.accounts.domain import Role
from apps.accounts.models import Membership, Tenant, User
from apps.accounts.types import Actor
from apps.clusters.models import Cluster
from apps.jobs.models import Draft, Job, JobPhase
from apps.quotas.models import Allowance
from apps.tenants.models import Placement

DOCUMENT: dict[str, Any] = {"template": "charlm", "name": "first light", "ranks": 2, "steps": 40}


def user(name: str, role: Role | None = None, tenant: Tenant | None = None) -> User:
    """A person; a platform role needs no tenant."""
    platform = [role.value] if role and role.is_platform else []
    person = User.objects.create(iss="https://id.test", sub=name, name=name.title(), platform_roles=platform)
    if role and tenant and not role.is_platform:
        Membership.objects.create(user=person, tenant=tenant, role=role)
    return person


def job(owner: User, placement: Placement, **values: Any) -> Job:
    """A submitted job, as `services.submit` leaves it, without waking anybody."""
    document = {**DOCUMENT, **values.pop("document", {})}
    made = Job.objects.create(
        tenant=placement.tenant, owner=owner, placement=placement, document=document, name=document["name"],
        gpus=document["ranks"], **values,
    )  # fmt: skip
    JobPhase.objects.create(job=made, phase=made.phase)
    return made


def draft(owner: User, tenant: Tenant, **document: Any) -> Draft:
    return Draft.objects.create(owner=owner, tenant=tenant, document={**DOCUMENT, **document})


@dataclass
class World:
    """`people[role]` belongs to the tenant `nlp`; `stranger` is a data scientist of `vision`; `nobody` is in none."""

    nlp: Tenant
    vision: Tenant
    place: Placement
    other_place: Placement
    people: dict[Role, User] = field(default_factory=dict)

    @classmethod
    def make(cls) -> World:
        nlp = Tenant.objects.create(slug="nlp", name="NLP")
        vision = Tenant.objects.create(slug="vision", name="视觉")
        cluster = Cluster.objects.create(slug="train-a", name="Train A", server="http://127.0.0.1:1")
        places = [
            Placement.objects.create(
                tenant=tenant,
                cluster=cluster,
                namespace=f"tenant-{tenant.slug}",
                queue=f"tenant-{tenant.slug}",
                state=Placement.State.READY,
            )
            for tenant in (nlp, vision)
        ]
        for tenant in (nlp, vision):
            Allowance.objects.create(tenant=tenant, cluster=cluster.slug, resource="nvidia.com/gpu", base=16)
        people = {role: user(role.value, role, nlp) for role in Role}
        return cls(nlp, vision, places[0], places[1], people)

    @property
    def scientist(self) -> User:
        return self.people[Role.SCIENTIST]

    def actor(self, role: Role) -> Actor:
        return self.people[role].actor()

    def stranger(self) -> User:
        return user("stranger", Role.SCIENTIST, self.vision)
