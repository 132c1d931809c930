"""The whole card as five people live it, by REST: tenant, quota, secret, training, model, deployment, audit.

Each chapter is a method that can be told in order, and that asks again, as a careful client does, when something on
the way is down. What it needs of earlier chapters is kept on the story.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import httpx

from tests.prove.stack import ADMIN, AUDITOR, SCIENTIST, STRANGER, Rest, Stack, charlm, until

OPERATOR = "zhao.lei"
TENANT = "speech"
"""The groups of the scientist and the team admin name it; it is not there before the story."""
STEPS = 120


@dataclass
class Story:
    stack: Stack
    tag: str = field(default_factory=lambda: os.urandom(3).hex())
    canary: str = field(default_factory=lambda: f"canary-{os.urandom(16).hex()}")
    job: str = ""
    model: str = ""
    number: int = 1
    version: str = ""
    deployment: str = ""
    key: str = ""
    quota_request: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Who was refused what action, in order."""
    answers: list[str] = field(default_factory=list)
    """Every body that came back, but for the one that shows a new key."""

    # --- talking ----------------------------------------------------------------------------------------------------

    def ask(self, who: str, method: str, path: str, seconds: float = 90, **request: Any) -> httpx.Response:
        """The answer of a request that is sent until it is answered: neither an outage nor a 503 ends it."""
        found: list[httpx.Response] = []

        def answered() -> bool:
            try:
                found[:] = [self.rest(who).http.request(method, path, **request)]
            except httpx.TransportError:
                return False
            return found[0].status_code < 500

        until(answered, seconds, what=f"{method} {path} is answered")
        if not (method == "POST" and path.endswith("/keys")) and "/files/" not in path:
            self.answers.append(found[0].text)
        return found[0]

    def done(self, who: str, method: str, path: str, *, code: int = 202, **request: Any) -> Any:
        answer = self.ask(who, method, path, **request)
        assert answer.status_code == code, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def refuse(self, who: str, action: str, method: str, path: str, **request: Any) -> None:
        """An attempt that must be refused, and audited as such."""
        answer = self.ask(who, method, path, **request)
        assert answer.status_code == 403, (path, answer.status_code, answer.text)
        self.refused.append((who, action))

    def rest(self, who: str) -> Rest:
        return self.stack.rest(who)

    def until(self, look: Callable[[], Any], seconds: float, what: str) -> Any:
        """As `until`, sitting out outages."""

        def patient() -> Any:
            try:
                return look()
            except httpx.TransportError:
                return None

        return until(patient, seconds, what=what)

    def seen(self, who: str, path: str, **parameters: Any) -> Any:
        """The JSON of an object, or None while it cannot be read."""
        answer = self.rest(who).http.get(path, params=parameters)
        return answer.json() if answer.status_code == 200 else None

    @cached_property
    def cluster(self) -> str:
        return str(self.rest(SCIENTIST).get("quota")[0]["cluster"])

    # --- 1: the tenant ----------------------------------------------------------------------------------------------

    def begin_tenant(self, slug: str = TENANT, gpus: int = 6) -> None:
        """Asked for by a team admin, refused to a scientist, granted by an operator."""
        wish = {"slug": slug, "name": "语音", "cluster": self.cluster, "gpus": gpus, "reason": f"speech {self.tag}"}
        self.refuse(SCIENTIST, "tenant.asked", "POST", "tenant-requests", json=wish)
        asked = self.done(ADMIN, "POST", "tenant-requests", code=201, json=wish)
        decide = f"tenant-requests/{asked['id']}/decide"
        self.refuse(ADMIN, "tenant.approved", "POST", decide, json={"decision": "approve"})
        self.done(OPERATOR, "POST", decide, code=200, json={"decision": "approve"})

    def await_tenant(self, slug: str = TENANT, seconds: float = 120) -> dict[str, Any]:
        """Its place once every object is there and the queue is open."""

        def ready() -> Any:
            places = self.seen(OPERATOR, f"tenants/{slug}") or []
            return next((place for place in places if place["state"] == "ready"), None)

        return dict(self.until(ready, seconds, f"{slug} has its place"))

    def sign_in_again(self) -> None:
        """Groups are read at sign-in: from now on they name a tenant that is there."""
        for who in (SCIENTIST, ADMIN):
            with self.stack.browser(who):
                pass

    def lose_a_limit_range(self, slug: str = TENANT) -> None:
        """A removed object is found as drift, and one press brings it back."""
        path = f"api/v1/namespaces/tenant-{slug}/limitranges"
        names = [item["metadata"]["name"] for item in self.stack.cluster.items(path)]
        assert len(names) == 1, names
        assert self.stack.cluster.http.delete(f"{path}/{names[0]}").status_code == 200
        assert self.ask(OPERATOR, "POST", f"tenants/{slug}/{self.cluster}/look").status_code == 202

        def state() -> str:
            steps = self.await_tenant(slug)["steps"]
            return str(next(step["state"] for step in steps if step["kind"] == "LimitRange"))

        self.until(lambda: state() == "missing", 60, "the loss is seen")
        self.done(ADMIN if slug == TENANT else OPERATOR, "POST", f"tenants/{slug}/{self.cluster}/restore")
        self.until(lambda: state() == "applied", 60, "it is back")

    # --- 2: quota ---------------------------------------------------------------------------------------------------

    def pool(self) -> dict[str, Any]:
        pools = self.rest(SCIENTIST).get("quota", tenant=TENANT)
        return dict(next(pool for pool in pools if pool["cluster"] == self.cluster))

    def ask_quota(self, amount: int = 2, days: float = 1) -> None:
        """Asked by the scientist, decided by team admin and operator; nobody decides on their own wish."""
        pool, now = self.pool(), datetime.now(UTC)
        wish = {
            "tenant": TENANT,
            "reason": f"quota {self.tag}",
            "amounts": [{"cluster": self.cluster, "resource": pool["resource"], "amount": str(amount)}],
            "starts_at": now.isoformat(),
            "ends_at": (now + timedelta(days=days)).isoformat(),
        }
        headers = {"Idempotency-Key": f"quota {self.tag}"}
        for _twice in range(2):
            made = self.done(SCIENTIST, "POST", "quota-requests", code=201, json=wish, headers=headers)
            assert made["id"] == self.quota_request or not self.quota_request
            self.quota_request = int(made["id"])
        path = f"quota-requests/{self.quota_request}"
        self.refuse(SCIENTIST, "quota.approved", "POST", f"{path}/approve", json={})
        self.done(ADMIN, "POST", f"{path}/approve", code=200, json={"note": "好"})
        self.done(OPERATOR, "POST", f"{path}/approve", code=200, json={})
        until(lambda: self.pool()["limit"] == pool["limit"] + amount, 60, what="the limit is higher")

    def cluster_follows(self, amount: int) -> bool:
        """Whether the tenant's quota in the cluster says so too."""
        quotas = self.stack.cluster.items(f"api/v1/namespaces/tenant-{TENANT}/resourcequotas")
        limits = [item["spec"]["hard"].get("requests.nvidia.com/gpu") for item in quotas]
        queue = self.stack.cluster.http.get(f"apis/scheduling.volcano.sh/v1beta1/queues/tenant-{TENANT}").json()
        return limits == [str(amount)] and queue["spec"]["capability"]["nvidia.com/gpu"] == str(amount)

    # --- 3 and 4: a secret, and the training that uses it -----------------------------------------------------------

    def enter_secret(self) -> None:
        path = f"secrets/{TENANT}/hub-{self.tag}"
        made = self.ask(SCIENTIST, "PUT", path, json={"values": {"token": self.canary}})
        assert made.status_code in (200, 201), made.text
        assert self.canary not in made.text
        assert self.canary not in self.ask(SCIENTIST, "GET", path).text
        assert self.ask(STRANGER, "GET", path).status_code == 404

    def pasted_secret_is_refused(self) -> None:
        document = {
            "template": "command", "name": "pasted", "image": "maas/python:3", "command": "python -c pass",
            "environment": "HF_HOME=/tmp\nNOTE=hf_" + "aB3" * 12, "ranks": 1,
        }  # fmt: skip
        answer = self.ask(SCIENTIST, "POST", "jobs", json={"tenant": TENANT, "document": document})
        assert answer.status_code == 400, answer.text
        assert "environment" in answer.json().get("errors", answer.json()), answer.text

    def train(self) -> None:
        """Two ranks that hold the secret as a file, to a good checkpoint."""
        document = charlm(f"tale {self.tag} 故事", steps=STEPS, secrets=[f"hub-{self.tag}"])
        headers = {"Idempotency-Key": f"train {self.tag}"}
        for _double_click in range(2):
            body = {"tenant": TENANT, "document": document}
            made = self.done(SCIENTIST, "POST", "jobs", json=body, headers=headers)
            assert made["id"] == self.job or not self.job
            self.job = made["id"]
        until(lambda: self.pool()["held"] >= 2, 30, what="the job holds its quota")

    def secret_is_a_file(self) -> None:
        """Of the ranks' volumes, mounted read-only; its value is what was entered."""
        pods = self.stack.cluster.items(
            f"api/v1/namespaces/tenant-{TENANT}/pods", labelSelector=f"maas.portal/job={self.job}"
        )
        assert pods
        container = pods[0]["spec"]["containers"][0]
        mounts = [mount for mount in container["volumeMounts"] if mount["mountPath"].startswith("/run/secrets/maas")]
        assert mounts, container["volumeMounts"]
        assert all(mount["readOnly"] for mount in mounts)
        assert self.canary not in str(container.get("env"))

    def await_training(self) -> None:
        self.rest(SCIENTIST).await_phase(self.job, "succeeded")
        until(lambda: self.pool()["held"] == 0, 60, what="the hold is given back")

    # --- 5: the marketplace -----------------------------------------------------------------------------------------

    def register(self) -> None:
        body = {
            "name": f"tale-{self.tag}", "licence": "Apache-2.0", "visibility": "public",
            "card": "# Tale\n\n<script>alert(1)</script> [here](javascript:alert(1))",
        }  # fmt: skip
        headers = {"Idempotency-Key": f"register {self.tag}"}
        for _double_click in range(2):
            made = self.done(SCIENTIST, "POST", f"jobs/{self.job}/register", json=body, headers=headers)
            assert made["id"] == self.version or not self.version
            self.model, self.number, self.version = made["model"], made["number"], made["id"]

    @property
    def version_path(self) -> str:
        return f"models/{self.model}/versions/{self.number}"

    def await_files(self) -> dict[str, Any]:
        def there() -> Any:
            found = self.seen(SCIENTIST, self.version_path)
            return found if found and found["transfer"] is None else None

        version = dict(self.until(there, 120, "the files are there"))
        assert version["lineage"]["job"]["id"] == self.job
        assert version["facts"]
        return version

    def files_are_the_checkpoint(self) -> None:
        for file in self.rest(SCIENTIST).get(f"{self.version_path}/files"):
            body = self.ask(SCIENTIST, "GET", f"{self.version_path}/files/{file['path']}").content
            assert (hashlib.sha256(body).hexdigest(), len(body)) == (file["sha256"], file["size"])

    def approve_version(self) -> None:
        stage = f"{self.version_path}/stage"
        self.done(SCIENTIST, "POST", stage, code=200, json={"act": "propose"})
        self.refuse(SCIENTIST, "model.stage", "POST", stage, json={"act": "approve"})
        self.done(ADMIN, "POST", stage, code=200, json={"act": "approve", "comment": "loss is fine"})

    # --- 6: the deployment ------------------------------------------------------------------------------------------

    def deploy(self) -> None:
        body = {"tenant": TENANT, "version": self.version, "name": f"tale-{self.tag}", "shape": "1-small"}
        headers = {"Idempotency-Key": f"deploy {self.tag}"}
        for _double_click in range(2):
            made = self.done(SCIENTIST, "POST", "deployments", json=body, headers=headers)
            assert made["id"] == self.deployment or not self.deployment
            self.deployment = made["id"]

    def await_deployment(self, phase: str = "ready", seconds: float = 120) -> dict[str, Any]:
        def there() -> Any:
            found = self.seen(SCIENTIST, f"deployments/{self.deployment}")
            assert not found or found["phase"] != "failed" or phase == "failed", found
            return found if found and found["phase"] == phase else None

        return dict(self.until(there, seconds, f"the deployment is {phase}"))

    def make_key(self) -> None:
        made = self.done(
            SCIENTIST, "POST", f"deployments/{self.deployment}/keys", code=201, json={"name": f"ci {self.tag}"}
        )
        self.key = made["key"]

    def chat(self, key: str | None = None) -> httpx.Response:
        """One request as its users send it, through the gateway."""
        url = self.rest(SCIENTIST).get(f"deployments/{self.deployment}")["url"]
        model = httpx.get(
            f"{url}/models", headers={"Authorization": f"Bearer {key or self.key}"}, timeout=20, trust_env=False
        )
        if model.status_code != 200:
            return model
        body = {
            "model": model.json()["data"][0]["id"], "messages": [{"role": "user", "content": "Once"}],
            "max_tokens": 8, "stream": True,
        }  # fmt: skip
        return httpx.post(
            f"{url}/chat/completions", json=body, headers={"Authorization": f"Bearer {key or self.key}"}, timeout=30,
            trust_env=False,
        )  # fmt: skip

    def await_chat(self) -> None:
        """Routes are live a moment after the deployment is ready."""

        def answered() -> bool:
            answer = self.chat()
            return answer.status_code == 200 and answer.text.rstrip().endswith("data: [DONE]")

        self.until(answered, 60, "it answers through the gateway")
        assert self.chat("mk_nonsense").status_code in (401, 403)

    def scale_and_remove(self) -> None:
        path = f"deployments/{self.deployment}"
        answer = self.ask(SCIENTIST, "POST", f"{path}/scale", json={"replicas": 5000})
        assert answer.status_code == 400, answer.text
        self.done(SCIENTIST, "POST", f"{path}/stop")
        self.await_deployment("stopped", 90)
        until(lambda: self.pool()["held"] == 0, 60, what="its hold is given back")
        self.done(SCIENTIST, "POST", f"{path}/remove", json={"name": f"tale-{self.tag}"})
        self.await_deployment("removed", 90)

    # --- 7: audit ---------------------------------------------------------------------------------------------------

    def audited(self, **search: str) -> list[dict[str, Any]]:
        """Every entry that the auditor finds."""
        found: list[dict[str, Any]] = []
        before = ""
        while True:
            page = self.rest(AUDITOR).get("audit", limit="200", **search, **({"before": before} if before else {}))
            found += page["results"]
            if not page["next"]:
                return found
            before = str(page["next"])

    def life_is_told(self) -> None:
        """From the job to the endpoint, in both languages, and by each thing's own name."""
        life = self.audited(life=f"job:{self.job}", sort="new")
        actions = {entry["action"] for entry in life}
        assert {"job.submitted", "model.registered"} <= actions, actions
        assert any(action.startswith("deployment.") for action in actions), actions
        assert all(entry["sentence"] and "{" not in entry["sentence"] for entry in life)
        chinese = self.rest(AUDITOR).http.get(
            "audit", params={"life": f"job:{self.job}"}, headers={"Accept-Language": "zh-hans"}
        )
        assert any("一" <= letter <= "鿿" for entry in chinese.json()["results"] for letter in entry["sentence"])

    def refusals_are_exact(self, since: str) -> None:
        """Every refused attempt of the story, and no other."""
        found = [entry["action"] for entry in self.audited(result="refused", since=since)]
        assert sorted(found) == sorted(action for _who, action in self.refused)

    def export_is_audited(self) -> None:
        answer = self.ask(AUDITOR, "GET", "audit/export", params={"as": "jsonl", "life": f"job:{self.job}"})
        assert answer.status_code == 200
        assert len(answer.text.splitlines()) >= 3
        assert self.audited(action="audit.exported")


def now() -> str:
    """A moment for `since`, a little before everything that follows."""
    time.sleep(1.1)
    return datetime.now(UTC).replace(microsecond=0).isoformat()
