"""Keys and self-signed certificates for 127.0.0.1."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from deploy.local.home import write_private

VALID = timedelta(days=365)


def signing_key(path: Path) -> Path:
    """The key that service account tokens are signed with; made the first time."""
    if not path.exists():
        write_private(path, _pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
    return path


def serving(folder: Path, name: str) -> tuple[Path, Path]:
    """(certificate, key) of a server on 127.0.0.1; made the first time."""
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    if not certificate.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(private, _pem(key))
        certificate.write_bytes(_self_signed(name, key).public_bytes(serialization.Encoding.PEM))
    return certificate, private


def _self_signed(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )


def _pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
