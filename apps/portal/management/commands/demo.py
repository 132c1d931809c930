"""manage.py demo: tenants, the demo's cluster and each tenant's place in it. Safe to repeat."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.text import slugify

from apps.accounts import services as accounts
from apps.accounts.types import Actor
from apps.clusters.services import Registration
from apps.clusters.services.connect import register
from apps.tenants import services as tenants

TENANTS = {"nlp": ("NLP", 16), "vision": ("视觉", 8)}
"""Slug → name, and the GPUs its queue may use of the demo's 32."""


class Command(BaseCommand):
    help = "Prepare the demo: tenants, its cluster and each tenant's place in it. People come from the provider."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEMO:
            raise CommandError("This writes made-up tenants; it runs only with MAAS_DEMO=1.")
        actor = Actor.system("demo")
        kubeconfig = yaml.safe_load(Path(os.environ["MAAS_DEMO_KUBECONFIG"]).read_text())
        address = kubeconfig["clusters"][0]["cluster"]
        authority = base64.b64decode(address["certificate-authority-data"]).decode()
        name = kubeconfig["clusters"][0]["name"]
        called = "Small cluster" if name == "small" else name
        registration = Registration(slugify(name), called, address["server"], authority)
        cluster = register(actor, registration, kubeconfig["users"][0]["user"]["token"])
        for slug, (name, gpus) in TENANTS.items():
            tenant = accounts.ensure_tenant(actor, slug=slug, name=name)
            if not tenants.Placement.objects.for_system().filter(tenant_id=tenant.pk).exists():
                tenants.ask_placement(actor, tenant_id=tenant.pk, slug=slug, cluster_id=cluster.pk, gpus=gpus)
        self.stdout.write(f"{len(TENANTS)} tenants in {cluster.name}")
