"""What operators have set for tenants, read once at start: a slip would otherwise close every tenant's network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, register

from apps.tenants.services import reach


@register("tenants")
def reach_is_readable(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> Sequence[CheckMessage]:
    """MAAS_TENANT_EGRESS and MAAS_TENANT_INGRESS name addresses."""
    try:
        reach()
    except ValueError as error:
        return [Error(str(error), hint="See MAAS_TENANT_EGRESS and MAAS_TENANT_INGRESS.", id="tenants.E001")]
    return []
