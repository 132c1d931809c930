"""Asking the API server what it would say to a draft, without creating anything."""

from __future__ import annotations

import time
from typing import Any

from django.utils import timezone

from apps.adapters.errors import Refused, Unavailable
from apps.adapters.kubernetes import objects as paths
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.clusters.services.connect import connect_for
from apps.jobs.domain import manifests
from apps.jobs.domain.problems import InvalidDocument
from apps.jobs.domain.spec import read_spec
from apps.jobs.models import Draft
from apps.jobs.services import reading
from apps.streams.services import hint
from apps.tenants import services as tenants


def judge_draft(draft_id: str) -> None:
    """Dry-run every object of the draft and a pod of its template; keep the answer for the version that was judged."""
    draft = Draft.objects.for_system().filter(pk=draft_id).first()
    placement = tenants.placement_of(draft.tenant_id) if draft else None
    if draft is None or placement is None:
        return
    answer: dict[str, Any] = {"version": draft.version, "at": timezone.now().isoformat()}
    start = time.monotonic()
    hand = connect_for(placement.cluster, tenants.account_of(draft.tenant.slug))
    try:
        answer |= _ask(hand, draft, reading.place(placement))
    except InvalidDocument:
        answer["state"] = "incomplete"
    except Unavailable as error:
        answer |= {"state": "unavailable", "text": error.text}
    except RightMissing as error:
        tenants.doubt(placement)
        answer |= {"state": "unavailable", "text": error.text}
    answer["seconds"] = round(time.monotonic() - start, 2)
    Draft.objects.for_system().filter(pk=draft.pk).update(dry_run=answer)
    hint(draft.topic)


def _ask(api: KubeApi, draft: Draft, place: manifests.Place) -> dict[str, Any]:
    spec = read_spec(draft.document)
    # A Job's own dry run says nothing about its pods: quota, Pod Security and accounts are judged at the pod.
    wanted = [*manifests.job_manifests(draft.job_id, spec, place), manifests.probe_pod(draft.job_id, spec, place)]
    objects: list[dict[str, str]] = []
    warnings: list[str] = []
    for manifest in wanted:
        entry = {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
        try:
            applied = api.apply(paths.object_path(manifest), manifest, dry_run=True)
        except RightMissing:
            raise
        except Refused as error:
            return {"state": "refused", "objects": objects, "refused": entry, "text": error.text, "warnings": warnings}
        objects.append(entry)
        warnings += applied.warnings
    return {"state": "accepted", "objects": objects, "warnings": warnings}
