"""Certificates of the server, made at its first start.

Clients of Kubernetes send no token over plain HTTP, so the server speaks TLS even on loopback. They are made in a
process of their own, for the server has no other use for a library that large; it prints them as JSON, name to PEM.
"""

from __future__ import annotations

import json
import sys

import trustme

NAMES = ("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def main() -> None:
    authority = trustme.CA(organization_name="localcluster", organization_unit_name="small cluster")
    serving = authority.issue_cert(*NAMES, common_name="kube-apiserver")
    files = {
        "ca.crt": authority.cert_pem,
        "server.crt": serving.cert_chain_pems[0],
        "server.key": serving.private_key_pem,
    }
    json.dump({name: blob.bytes().decode() for name, blob in files.items()}, sys.stdout)


if __name__ == "__main__":
    main()
