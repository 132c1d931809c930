"""A text column that is unreadable without the portal's secret key."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models
from django.utils.encoding import force_bytes


@lru_cache(maxsize=4)
def _cipher(*secrets: str | bytes) -> MultiFernet:
    def key(secret: str | bytes) -> bytes:
        kdf = HKDF(SHA256(), length=32, salt=None, info=b"accounts.EncryptedTextField")
        return kdf.derive(force_bytes(secret))

    return MultiFernet([Fernet(base64.urlsafe_b64encode(key(secret))) for secret in secrets])


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]
    """Text kept as Fernet (AES-128-CBC with HMAC-SHA256) under a key derived from SECRET_KEY.

    A stolen copy of the database holds no usable token. A value written under a key that SECRET_KEY and
    SECRET_KEY_FALLBACKS no longer name reads as "".
    """

    def _secrets(self) -> tuple[str | bytes, ...]:
        return (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)

    def get_prep_value(self, value: Any) -> Any:
        return _cipher(*self._secrets()).encrypt(value.encode()).decode() if value else ""

    def from_db_value(self, value: str, *_: object) -> str:
        try:
            return _cipher(*self._secrets()).decrypt(value.encode()).decode() if value else ""
        except InvalidToken:
            return ""
