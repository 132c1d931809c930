"""The server's own certificate authority and serving certificate, made at the first start.

Clients of Kubernetes send no token over plain HTTP, so the server speaks TLS even on loopback.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = timedelta(days=3650)
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def ensure(directory: Path) -> None:
    """Make `ca.crt`, `server.crt` and `server.key` in a directory, unless they are there."""
    paths = [directory / name for name in ("ca.crt", "server.crt", "server.key")]
    if all(path.exists() for path in paths):
        return
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key)
    certificate = _serving(key, authority, authority_key)
    _write(paths[0], authority.public_bytes(serialization.Encoding.PEM))
    _write(paths[1], certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    _write(paths[2], key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    builder = _builder("localcluster", "localcluster", key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.add_extension(_usage(authority=True), critical=True).sign(key, hashes.SHA256())


def _serving(
    key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder("kube-apiserver", "localcluster", key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    ensure(Path(sys.argv[1]))
