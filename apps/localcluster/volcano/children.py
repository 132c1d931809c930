"""What a job owns besides pods and its PodGroup: the objects of its plugins and its claims."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from typing import Any

from apps.localcluster.client import ApiError, KubeClient
from apps.localcluster.volcano import plugins, pods
from apps.localcluster.volcano.objects import CORE, NETWORKING, controller_of, name, namespace, owned_by, path, uid

log = logging.getLogger(__name__)

Object = dict[str, Any]

_PLURALS = {
    "ConfigMap": (CORE, "configmaps"),
    "NetworkPolicy": (NETWORKING, "networkpolicies"),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims"),
    "Secret": (CORE, "secrets"),
    "Service": (CORE, "services"),
}


class PluginError(Exception):
    """An object of a plugin was refused; the text is the server's."""


class ClaimError(Exception):
    """A claim that the job needs is not there or was refused."""


def _path(item: Object, *, named: bool) -> str:
    group, plural = _PLURALS[item["kind"]]
    return path(group, plural, namespace(item), name(item) if named else "")


async def key_pair() -> tuple[bytes, bytes]:
    """A new RSA key pair for ssh: (private, public). Takes half a second."""
    command = [sys.executable, "-m", "apps.localcluster.volcano.keys", "ssh"]
    maker = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    private, public, _ = (await maker.communicate())[0].split(b"\0")
    return private, public


@dataclass(frozen=True)
class Children:
    """Makes, renews and removes them. Whatever exists already is left alone, except the list of hosts."""

    client: KubeClient

    async def make(self, job: Object) -> None:
        """Everything the job's plugins need. Raises PluginError."""
        made = plugins.made_objects(job)
        if "ssh" in (job["spec"].get("plugins") or {}) and not await self._exists("Secret", job, f"{name(job)}-ssh"):
            private, public = await key_pair()
            secret = plugins.ssh_secret(job, private, public)
            made += [secret] if secret else []
        for item in made:
            try:
                await self._create(item)
            except ApiError as error:
                if error.status in (400, 403, 422):
                    raise PluginError(error.message) from error
                raise

    async def renew_hosts(self, job: Object) -> None:
        """Bring the list of hosts up to date after a change of replicas."""
        if "svc" in (job["spec"].get("plugins") or {}):
            where = path(CORE, "configmaps", namespace(job), f"{name(job)}-svc")
            try:
                await self.client.merge_patch(where, {"data": plugins.hosts_config(job)})
            except ApiError as error:
                if error.status != 404:
                    raise
                await self.make(job)

    async def remove(self, job: Object) -> None:
        """Take away what the plugins made, as Volcano does whenever a job's pods are cleared."""
        wanted = job["spec"].get("plugins") or {}
        items = [(item["kind"], name(item)) for item in plugins.made_objects(job)]
        items += [("Secret", f"{name(job)}-ssh")] if "ssh" in wanted else []
        for kind, called in items:
            await self._delete_own(kind, job, called)

    async def claims(self, job: Object) -> None:
        """The claims of the job's volumes: made where it brings a template, else they must exist. Raises ClaimError."""
        for index, volume in enumerate(job["spec"].get("volumes") or []):
            called = pods.claim_name(job, index)
            if volume.get("volumeClaimName"):
                if not await self._exists("PersistentVolumeClaim", job, called):
                    wait = "the job will be in the Pending state until the PVC is created"
                    raise ClaimError(f"pvc {called} is not found, {wait}")
                continue
            metadata = {"name": called, "namespace": namespace(job), "ownerReferences": owned_by(job)}
            kind, spec = "PersistentVolumeClaim", volume.get("volumeClaim") or {}
            try:
                await self._create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})
            except ApiError as error:
                raise ClaimError(error.message) from error

    async def _create(self, item: Object) -> None:
        try:
            await self.client.create(_path(item, named=False), item)
        except ApiError as error:
            if error.status != 409:
                raise

    async def _get(self, kind: str, job: Object, called: str) -> Object | None:
        group, plural = _PLURALS[kind]
        try:
            return await self.client.get(path(group, plural, namespace(job), called))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _exists(self, kind: str, job: Object, called: str) -> bool:
        return await self._get(kind, job, called) is not None

    async def _delete_own(self, kind: str, job: Object, called: str) -> None:
        found = await self._get(kind, job, called)
        owner = controller_of(found) if found else None
        if found is not None and owner is not None and owner.get("uid") == uid(job):
            group, plural = _PLURALS[kind]
            await self.client.delete(path(group, plural, namespace(job), called), uid=uid(found))
