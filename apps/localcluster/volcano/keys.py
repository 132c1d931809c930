"""Keys, made in a process of their own: the stand-in has no other use for a library that large.

`python -m apps.localcluster.volcano.keys certificate|ssh` writes two parts to its output, each ended by a NUL byte.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
YEARS = 10


def certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for 127.0.0.1 and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "volcano-admission")])
    today = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return signed.public_bytes(serialization.Encoding.PEM), secret


def ssh() -> tuple[bytes, bytes]:
    """A new RSA key pair for ssh: (private, public)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    style, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, style, plain)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public + b"\n"


if __name__ == "__main__":
    for part in {"certificate": certificate, "ssh": ssh}[sys.argv[1]]():
        sys.stdout.buffer.write(part + b"\0")
