"""A second cluster beside a stack's own, with its administrator's hand and credentials that can be taken back."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from deploy.local.access import ACCOUNT, NAMESPACE, Access
from deploy.local.home import Home
from deploy.local.program import dying_with_parent
from deploy.local.stack import TREE
from deploy.testbed import SERVER_ONLY, control_plane
from tests.prove.stack import until
from tests.small_cluster import small_cluster

SECRETS = f"api/v1/namespaces/{NAMESPACE}/secrets"
GRACE_SECONDS = 60
"""So long after its end an API server still takes a token: clocks differ."""


@dataclass
class OtherCluster:
    """`key` is what a real API server signs tokens with; None for the small one."""

    kubeconfig: Path
    key: Path | None = None

    def __post_init__(self) -> None:
        document = yaml.safe_load(self.kubeconfig.read_text())
        self.server: str = document["clusters"][0]["cluster"]["server"]
        self.ca_pem = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}"}
        self.http = httpx.Client(base_url=self.server, headers=headers, verify=False, trust_env=False, timeout=15)

    def items(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        answer = self.http.get(path, params=parameters)
        assert answer.status_code in (200, 404), answer.text
        return list(answer.json().get("items", []))

    def is_there(self, path: str) -> bool:
        return self.http.get(path).status_code == 200

    # --- credentials of the portal's account ------------------------------------------------------------------------

    def credential(self, name: str) -> str:
        """A token that is good for as long as the Secret of this name, which holds it."""
        note = {"kubernetes.io/service-account.name": ACCOUNT}
        body = {"metadata": {"name": name, "annotations": note}, "type": "kubernetes.io/service-account-token"}
        answer = self.http.post(SECRETS, json=body)
        assert answer.status_code == 201, answer.text
        found = until(lambda: self.http.get(f"{SECRETS}/{name}").json().get("data", {}).get("token"), 30)
        return base64.b64decode(found).decode()

    def revoke(self, name: str) -> None:
        answer = self.http.delete(f"{SECRETS}/{name}")
        assert answer.status_code == 200, answer.text

    def credential_until(self, end: float) -> str:
        """A token that is over at this time (Unix), sooner than the API server gives any."""
        assert self.key, "the small cluster's tokens end when it says"
        account = self.http.get(f"api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}").json()["metadata"]
        claims = {
            "aud": ["https://kubernetes.default.svc"], "iss": "https://kubernetes.default.svc", "exp": int(end),
            "iat": int(time.time()), "nbf": int(time.time()) - 1, "sub": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}",
            "kubernetes.io": {
                "namespace": NAMESPACE, "serviceaccount": {"name": account["name"], "uid": account["uid"]}
            },
        }  # fmt: skip
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        signed = ".".join(map(_encoded, (json.dumps({"alg": "RS256", "typ": "JWT"}), json.dumps(claims))))
        return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def other_cluster(folder: Path) -> Iterator[OtherCluster]:
    """One with Volcano and nodes, and the portal's account made in it: as real as MAAS_PROVE_CLUSTER says."""
    with ExitStack() as opened:
        if os.environ.get("MAAS_PROVE_CLUSTER", "small") != "small":
            plane = opened.enter_context(control_plane(folder / "plane", replace(SERVER_ONLY, crds=("volcano",))))
            one, tls = OtherCluster(plane.kubeconfig, folder / "plane/pki/service-accounts.key"), ("--tls",)
        else:
            small = opened.enter_context(small_cluster(folder))
            one, tls = OtherCluster(small.kubeconfig), ("--client-ca", str(folder / "api/ca.crt"))
        fleet = ("--fleet", str(TREE / "deploy/demo/fleet.json"), "--dir", str(folder / "nodes"))
        opened.enter_context(_room("volcano", "--kubeconfig", str(one.kubeconfig)))
        opened.enter_context(_room("nodeagent", "--kubeconfig", str(one.kubeconfig), *fleet, *tls))
        home = Home(folder / "access")
        home.prepare()
        Access(home, one.kubeconfig).grant()
        yield one


@contextmanager
def _room(name: str, *arguments: str) -> Iterator[None]:
    command = dying_with_parent("TERM", (sys.executable, "-m", f"apps.localcluster.{name}", *arguments))
    with subprocess.Popen(command, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def _encoded(data: str | bytes) -> str:
    return base64.urlsafe_b64encode(data.encode() if isinstance(data, str) else data).decode().rstrip("=")
