"""Ten thousand of each thing that the portal lists, beside what `seeded` made: one row each, multiplied in the database."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.db.models import AutoField, Model
from django.test import Client
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import ApiToken, Membership, ProviderSession, Tenant, User
from apps.audit.models import Entry
from apps.catalog.models import Blob, ModelVersion, RegisteredModel, StageChange, StoredFile
from apps.notices.models import Notice
from apps.quotas.models import Allowance, QuotaRequest, RequestItem
from apps.quotas.services import State
from apps.secrets.models import Secret
from apps.serving.models import Deployment
from apps.tenants.models import Placement, TenantRequest
from tests import factories
from tests.pages import session_of

ROWS = 10_000
KEY = "'01Z' || lpad(n::text, 23, '0')"
"""Sorts after every id that is made before the year 2100."""
PERSON = "lpad(to_hex(n), 32, '0')::uuid"


def _multiply(row: Model, **different: str) -> None:
    """Nearly the same row again, 9,999 times; `different` has SQL for the columns that differ, in which n counts."""
    fields = [f for f in row._meta.concrete_fields if f.column in different or not isinstance(f, AutoField)]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    values = ", ".join(different.get(field.column, f'"{field.column}"') for field in fields)
    table = row._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, generate_series(1, {ROWS - 1}) n WHERE id = %s",
            [row.pk],
        )


def _one_of(*words: str) -> str:
    return f"(ARRAY[{', '.join(repr(word) for word in words)}])[1 + mod(n, {len(words)})]"


def gather(scientist: User, place: Placement, version: ModelVersion) -> None:
    """Each with a name, a state and figures of its own, as far as lists show them."""
    _work(scientist, place, version)
    _team(scientist, place)
    _people(scientist, place.tenant)
    told = {"user": scientist, "tenant": place.tenant, "kind": "job.stopped", "link": "/jobs/"}
    params = {"name": "night", "by": "Lars Lindqvist"}
    notice = Notice.objects.create(**told, digest="0", params=params)
    _multiply(notice, digest="n::text", at="at - n * interval '1 minute'")
    entry = Entry.objects.create(
        action="job.submitted", result="done", actor=scientist.actor().id, tenant_id=place.tenant_id, target="job:x",
        params={"name": "night", "gpus": 1234},
    )  # fmt: skip
    _multiply(entry, result=_one_of("done", "done", "refused"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as autovacuum does within a minute of so many rows


def _work(owner: User, place: Placement, version: ModelVersion) -> None:
    tenant = place.tenant
    job = factories.job(owner, place)
    _multiply(
        job,
        id=KEY,
        name="'night-' || n",
        gpus="n",
        phase=_one_of("succeeded", "failed", "stopped", "waiting"),
        due_at="NULL",
    )
    _multiply(factories.draft(owner, tenant), id="gen_random_uuid()", job_id=KEY)
    _multiply(version, id=KEY, number="n + 1", note="'run ' || n", stage=_one_of("draft", "candidate", "approved"))
    Blob.objects.create(pk="f" * 64, size=217_944)
    file = StoredFile.objects.create(version=version, path="shard-0-of-10000.npy", digest="f" * 64, size=217_944)
    _multiply(file, path="'shard-' || n || '-of-10000.npy'")
    change = StageChange.objects.create(version=version, old="draft", new="candidate", by=owner, comment="Once more.")
    _multiply(change)
    model = RegisteredModel.objects.create(
        tenant=tenant, name="model", licence="Apache-2.0", created_by=owner, visibility="public", stage="approved",
        format="safetensors", tags=["chat", "中文"],
    )  # fmt: skip
    figures = {"versions": "n", "bytes": "n * 1e9", "weight_bytes": "n * 1e9", "parameters": "n * 1e8"}
    _multiply(model, id=KEY, name="'model-' || n", **figures)
    deployment = Deployment.objects.create(
        tenant=tenant, owner=owner, placement=place, version=version, name="chat", slug="chat", model="first light",
        model_version=1, engine="charlm", shape="1-small", replicas=1, due_at=None,
    )  # fmt: skip
    stages = _one_of("ready", "loading", "failed", "stopped")
    _multiply(deployment, id=KEY, name="'chat-' || n", slug="'chat-' || n", replicas="n", held="n", phase=stages)
    secret = Secret.objects.create(
        tenant=tenant, name="token", keys=["token"], version=1, created_by=owner, changed_by=owner
    )
    _multiply(secret, name="'token-' || n", version="n")


def _team(owner: User, place: Placement) -> None:
    now, cluster = timezone.now(), place.cluster
    allowance = Allowance.objects.get(tenant=place.tenant, cluster=cluster.slug, resource="nvidia.com/gpu")
    wish = QuotaRequest.objects.create(
        tenant=place.tenant,
        asker=owner,
        reason="Night",
        starts_at=now,
        ends_at=now + timedelta(days=9),
        state=State.TEAM,
    )
    item = RequestItem.objects.create(request=wish, allowance=allowance, amount=1234)
    _multiply(wish, id=f"{wish.pk} + n", state=_one_of(State.ENDED.value, State.TEAM.value, State.PLATFORM.value))
    _multiply(item, request_id=f"{wish.pk} + n", amount="n")
    tenant = Tenant.objects.create(slug="team-0", name="Team")
    there = Placement.objects.create(
        tenant=tenant, cluster=cluster, namespace="tenant-team-0", queue="tenant-team-0", due_at=None,
        state=Placement.State.READY, ready_at=now, looked_at=now,
    )  # fmt: skip
    base = Allowance.objects.create(tenant=tenant, cluster=cluster.slug, resource="nvidia.com/gpu", base=8)
    _multiply(tenant, id=f"{tenant.pk} + n", slug="'team-' || n", name="'Team 团队 ' || n")
    _multiply(there, tenant_id=f"{tenant.pk} + n", namespace="'tenant-team-' || n", queue="'tenant-team-' || n")
    _multiply(base, tenant_id=f"{tenant.pk} + n", base="n")
    asked = TenantRequest.objects.create(
        slug="wish-0", name="Wish", gpus=1, cluster=cluster, reason="As many as there are.", asked_by=owner
    )
    _multiply(asked, slug="'wish-' || n", gpus="n")


def _people(owner: User, tenant: Tenant) -> None:
    now = timezone.now()
    token = ApiToken.objects.create(
        user=owner, name="evaluation", prefix="mp_Zx81kQw", digest="0", expires_at=now + timedelta(days=90)
    )
    _multiply(token, name="'evaluation-' || n", digest="n::text", revoked_at="CASE WHEN mod(n, 3) = 0 THEN now() END")
    session_of(Client(), owner)
    session = ProviderSession.objects.filter(user=owner).latest("pk")
    _multiply(session, session_key="'s' || n", agent="'Mozilla/5.0 (X11; Linux x86_64) Firefox/' || n")
    member = factories.user("member", Role.VIEWER, tenant)
    _multiply(member, id=PERSON, sub="'member-' || n", name="'Member 成员 ' || n")
    _multiply(Membership.objects.get(user=member), user_id=PERSON)
