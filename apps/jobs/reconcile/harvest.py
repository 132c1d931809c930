"""Wanted against seen: one look at the pod that reads a job's event files, one step."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from apps.adapters.errors import Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.owned import ForeignObject, find
from apps.adapters.retrying import pause
from apps.clusters.services.connect import connect, connect_for
from apps.jobs.domain import manifests, sidepods
from apps.jobs.domain.harvest import ENDED, WRITES, Harvest
from apps.jobs.domain.sidepods import SeenPod, read_pod
from apps.jobs.models import EventReader
from apps.jobs.reconcile import beside
from apps.jobs.services import harvesting, reading
from apps.tenants import services as tenants

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(minutes=1)
SOON = timedelta(seconds=1)
LONGEST = timedelta(seconds=30)
"""While a cluster is away, tries come at most this far apart: these files can be read later just as well."""
PENDING = timedelta(minutes=15)
"""A pod that has not begun by then is taken away, and the files are read at the job's end."""


def reconcile_events(reader: EventReader) -> timedelta | None:
    """Take one repeatable step; any worker may take it twice. Returns when to look again, None for never."""
    if not reader.job.placement.is_standing:  # the tenant is leaving, and what is left there goes with its namespace
        harvesting.give_up(reader, "events.leaving")
        return None
    try:
        again = _step(reader)
        if reader.failures:
            EventReader.objects.filter(pk=reader.pk).update(failures=0)
        return again
    except Unavailable as error:
        return _wait(reader, error, f"events.waits-{error.system}")
    except RightMissing as error:
        return _wait(reader, error, "events.waits-right")
    except ForeignObject:
        harvesting.give_up(reader, "events.name-taken")
        return None
    except Refused as error:
        log.warning("event_reader_refused", job=reader.pk, error=error.text)
        if reader.state in ENDED:
            return None
        harvesting.give_up(reader, "events.refused", text=error.text[:300])
        return SOON


def _step(reader: EventReader) -> timedelta | None:
    # What is there is seen with the portal's own account; what is done is done with that of the job's tenant.
    job = reader.job
    eye = connect(job.placement.cluster)
    hand = connect_for(job.placement.cluster, tenants.account_of(job.tenant.slug))
    name = sidepods.reader_name(reader.pk)
    pod = find(eye, objects.path(objects.POD, job.placement.namespace, name), (manifests.EVENTS_LABEL, reader.pk))
    if reader.state is not Harvest.READING:
        if pod is not None:
            _clear(hand, reader, pod)
            return SOON
        return None if reader.state in ENDED else _begin(hand, reader)
    return _judge(reader, read_pod(pod) if pod is not None else None)


def _begin(hand: KubeApi, reader: EventReader) -> timedelta | None:
    """Send a pod when it is time to look."""
    if reader.next_at is None or (reader.job.state not in WRITES and not reader.job.state.is_final):
        return None
    if (left := reader.next_at - timezone.now()) > timedelta(0):
        return left
    return _send(hand, reader)


def _send(hand: KubeApi, reader: EventReader) -> timedelta | None:
    """Note the hash of a new token, then send the Secret with it, then the pod that reads it."""
    job = reader.job
    match beside.why_unreadable(hand, job):
        case "no-volume":
            harvesting.give_up(reader, "events.no-volume", claim=manifests.object_name(job.pk))
            return None
        case "one-at-a-time":
            harvesting.tell_wait(reader, "events.one-at-a-time")
            return None
    place = reading.place(job.placement)
    token = harvesting.new_token(reader)
    secret = sidepods.reader_secret(job.pk, place, token)
    pod = sidepods.reader_pod(job.pk, place, settings.EVENTS_IMAGE, settings.PODS_URL)
    for manifest in (secret, pod):
        hand.apply(objects.object_path(manifest), manifest)
    harvesting.note_sent(reader)
    return LOOK_AGAIN


def _judge(reader: EventReader, seen: SeenPod | None) -> timedelta | None:
    """A pod that reads tells the portal itself how it goes; this catches what it cannot tell."""
    if seen is None:
        harvesting.note_broken(reader, "events.pod-gone")
        return SOON
    if seen.has_ended:
        harvesting.note_broken(reader, "events.pod-ended", code=seen.exit_code)
        return SOON
    if seen.phase != "Pending":
        return LOOK_AGAIN
    if reader.sent_at and timezone.now() - reader.sent_at > PENDING:
        harvesting.note_broken(reader, "events.pod-pending", text=seen.waiting)
        return SOON
    if seen.waiting:
        harvesting.tell_wait(reader, "events.pod-waits", text=seen.waiting)
    return LOOK_AGAIN


def _clear(api: KubeApi, reader: EventReader, pod: objects.Object) -> None:
    """Take the pod and its token away."""
    beside.take_away(api, pod)
    api.delete(objects.path(objects.SECRET, reader.job.placement.namespace, sidepods.reader_name(reader.pk)))


def _wait(reader: EventReader, error: Unavailable | RightMissing, code: str) -> timedelta:
    """Keep it, say what it waits for, and try again: soon at first, at most LONGEST apart."""
    failures = reader.failures + 1
    EventReader.objects.filter(pk=reader.pk).update(failures=failures)
    log.warning("event_reader_waits", job=reader.pk, error=error.text, failures=failures)
    if reader.state is Harvest.WAITING:
        harvesting.tell_wait(reader, code)
    return pause(error, failures, LONGEST)
