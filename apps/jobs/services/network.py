"""Which way a job's ranks talk to each other, by what NCCL printed."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.jobs.domain.traininglog.network import Way, slow_way
from apps.jobs.models import Job, JobRank
from apps.streams import services as streams

TOLD: dict[Way | None, tuple[str, Promise, Promise]] = {
    Way.SOCKETS: (
        "red",
        _("NCCL sends between nodes over sockets, not RDMA: expect a small part of the network's speed."),
        _(
            "The container may see no RDMA card (an RDMA resource such as rdma/hca must be asked for), NCCL_IB_DISABLE "
            "may be set, or NCCL_IB_HCA may name another card. NCCL_DEBUG=INFO prints why at the start of the log."
        ),
    ),
    Way.STAGED: (
        "amber",
        _("NCCL uses RDMA, but through the host's memory: GPUDirect RDMA is off."),
        _(
            "The node needs the nvidia_peermem module (or dma-buf), and GPU and card a common PCIe root; "
            "NCCL_NET_GDR_LEVEL says how far apart they may be."
        ),
    ),
}
"""Tone, what it is, and what to look for."""


def slow_network(job: Job) -> Way | None:
    """What of the network is slower than it could be, in the job's newest attempt; None for a job on one node, which
    needs none, and where NCCL printed nothing of it."""
    nodes = JobRank.objects.filter(job=job, attempt=job.attempt).exclude(node="").values("node").distinct()
    if nodes.count() < 2:
        return None
    known = streams.curves_known(job.topic)
    read = [curve for curve in known if curve.attempt == job.attempt and curve.origins == streams.Origin.LOG.bit]
    return slow_way({curve.series for curve in read})
