"""The whole map. Every route here is in the access table (tests/test_access_table.py)."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from apps.audit import urls as audit
from apps.catalog import urls as catalog
from apps.clusters import urls as clusters
from apps.jobs import urls as jobs
from apps.notices import urls as notices
from apps.quotas import urls as quotas
from apps.secrets import urls as secrets
from apps.serving import urls as serving
from apps.tenants import urls as tenants
from maasportal import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path(
        "api/v1/",
        include(
            (
                [
                    *audit.api_patterns,
                    *catalog.api_patterns,
                    *clusters.api_patterns,
                    *clusters.fleet_api_patterns,
                    *jobs.api_patterns,
                    *notices.api_patterns,
                    *quotas.api_patterns,
                    *secrets.api_patterns,
                    *serving.api_patterns,
                    *tenants.api_patterns,
                ],
                "api",
            )
        ),
    ),
    path("", include("apps.accounts.urls")),
    path("", include("apps.audit.urls")),
    path("", include("apps.catalog.urls")),
    path("", include("apps.clusters.urls")),
    path("", include(clusters.fleet_patterns)),
    path("", include("apps.jobs.urls")),
    path("", include(jobs.reader_patterns)),
    path("", include("apps.notices.urls")),
    path("", include("apps.portal.urls")),
    path("", include("apps.quotas.urls")),
    path("", include("apps.tenants.urls")),
    path("", include("apps.secrets.urls")),
    path("", include("apps.serving.urls")),
]

handler400 = "maasportal.health.bad_request"
handler403 = "maasportal.health.forbidden"
handler404 = "maasportal.health.not_found"
handler500 = "maasportal.health.server_error"
