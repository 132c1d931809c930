from django.urls import path

from apps.clusters import api, views
from apps.clusters.views import accelerators, fleet, sources

app_name = "clusters"

urlpatterns = [
    path("clusters/", views.clusters, name="list"),
    path("clusters/new", views.add, name="add"),
    path("clusters/<slug:slug>/", views.detail, name="detail"),
    path("clusters/<slug:slug>/credential", views.renew, name="renew"),
    path("clusters/<slug:slug>/check", views.check, name="check"),
    path("clusters/<slug:slug>/maintenance", views.maintenance, name="maintenance"),
    path("clusters/<slug:slug>/maintenance/end", views.end_maintenance, name="end-maintenance"),
    path("clusters/<slug:slug>/profile", views.describe, name="profile"),
    path("clusters/<slug:slug>/remove", views.remove, name="remove"),
    path("clusters/<slug:slug>/sources/<slug:kind>", sources.enter, name="source"),
    path("clusters/<slug:slug>/sources/<slug:kind>/check", sources.check, name="source-check"),
    path("clusters/<slug:slug>/sources/<slug:kind>/remove", sources.remove, name="source-remove"),
]

api_patterns = [
    path("clusters", api.clusters.ClustersView.as_view(), name="clusters"),
    path("clusters/<slug:slug>", api.clusters.ClusterView.as_view(), name="cluster"),
    path("clusters/<slug:slug>/credential", api.clusters.CredentialView.as_view(), name="cluster-credential"),
    path("clusters/<slug:slug>/check", api.clusters.CheckView.as_view(), name="cluster-check"),
    path("clusters/<slug:slug>/maintenance", api.clusters.MaintenanceView.as_view(), name="cluster-maintenance"),
    path("clusters/<slug:slug>/profile", api.clusters.ProfileView.as_view(), name="cluster-profile"),
    path("clusters/<slug:slug>/remove", api.clusters.RemoveView.as_view(), name="cluster-remove"),
    path("clusters/<slug:slug>/sources/<slug:kind>", api.sources.SourceView.as_view(), name="cluster-source"),
]

fleet_patterns = (
    [
        path("fleet/", fleet.overview, name="overview"),
        path("fleet/nodes", fleet.nodes, name="nodes"),
        path("fleet/accelerators", accelerators.accelerators, name="accelerators"),
        path("fleet/accelerators/new", accelerators.entry, name="accelerator-new"),
        path("fleet/accelerators/<slug:slug>", accelerators.entry, name="accelerator"),
        path("fleet/accelerators/<slug:slug>/remove", accelerators.remove, name="accelerator-remove"),
        path("fleet/queues/<slug:slug>", fleet.queues, name="queues"),
        path("fleet/nodes/<slug:slug>/<str:name>", fleet.node, name="node"),
    ],
    "fleet",
)

fleet_api_patterns = [
    path("fleet", api.fleet.FleetView.as_view(), name="fleet"),
    path("clusters/<slug:slug>/queues", api.fleet.QueuesView.as_view(), name="cluster-queues"),
    path("nodes", api.fleet.NodesView.as_view(), name="nodes"),
    path("accelerators", api.fleet.AcceleratorsView.as_view(), name="accelerators"),
    path("accelerators/<slug:slug>", api.fleet.AcceleratorView.as_view(), name="accelerator"),
]
