"""Secrets of type service-account-token: filled in for their account, and gone with it."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from apps.localcluster.apiserver.store import Event, Key
from apps.localcluster.apiserver.tokens import Tokens
from apps.localcluster.controllers.base import Cluster, Controller

TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


class AccountTokens(Controller):
    resource = "secrets"

    def __init__(self, cluster: Cluster, tokens: Tokens, authority: str) -> None:
        super().__init__(cluster)
        self.tokens, self.authority = tokens, authority

    def stirred(self, event: Event) -> Iterable[Key]:
        record = event.record
        if record.resource == "secrets":
            return [record.key] if record.fields["type"] == TYPE else ()
        if record.resource != "serviceaccounts":
            return ()
        return [each.key for each in self.store.select("secrets", record.key[0]) if each.fields["type"] == TYPE]

    async def look(self, key: Key) -> None:
        record = self.store.get("secrets", key)
        if record is None or record.fields["type"] != TYPE or record.deleting:
            return
        secret = record.load()
        notes = secret["metadata"].get("annotations") or {}
        account = self.store.get("serviceaccounts", (key[0], notes.get(NAME, "")))
        if account is None or notes.get(UID, account.uid) != account.uid:
            self.cluster.delete(record)
            return
        data = secret.get("data") or {}
        texts = {"ca.crt": self.authority, "namespace": key[0]}
        wanted = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        if notes.get(UID) and "token" in data and wanted.items() <= data.items():
            return
        if "token" not in data:
            token = self.tokens.issue_lasting(account.load(), key[1])
            wanted["token"] = base64.b64encode(token.encode()).decode()
        secret["data"] = data | wanted
        secret["metadata"]["annotations"] = notes | {UID: account.uid}
        await self.cluster.update(record, secret)
