from django.urls import path

from apps.serving import api, views

app_name = "serving"

urlpatterns = [
    path("deployments/", views.deployments, name="list"),
    path("deployments/new", views.new, name="new"),
    path("deployments/<str:deployment_id>/", views.detail, name="detail"),
    path("deployments/<str:deployment_id>/scale", views.scale, name="scale"),
    path("deployments/<str:deployment_id>/stop", views.stop, name="stop"),
    path("deployments/<str:deployment_id>/start", views.start, name="start"),
    path("deployments/<str:deployment_id>/remove", views.remove, name="remove"),
    path("deployments/<str:deployment_id>/chat", views.chat, name="chat"),
    path("deployments/<str:deployment_id>/log/line/<int:number>", views.log_line, name="log-line"),
    path("deployments/<str:deployment_id>/log/download", views.log_download, name="log-download"),
    path("deployments/<str:deployment_id>/keys", views.key_create, name="key-create"),
    path("deployments/<str:deployment_id>/keys/<int:key_id>/revoke", views.key_revoke, name="key-revoke"),
    path("gateway/authorize/<path:path>", views.authorize, name="authorize"),
]

api_patterns = [
    path("deployments", api.DeploymentsView.as_view(), name="deployments"),
    path("deployments/<str:pk>", api.DeploymentView.as_view(), name="deployment"),
    path("deployments/<str:pk>/replicas", api.ReplicasView.as_view(), name="deployment-replicas"),
    path("deployments/<str:pk>/manifests", api.ManifestsView.as_view(), name="deployment-manifests"),
    path("deployments/<str:pk>/log", api.LogView.as_view(), name="deployment-log"),
    path("deployments/<str:pk>/scale", api.ScaleView.as_view(), name="deployment-scale"),
    path("deployments/<str:pk>/stop", api.StopView.as_view(), name="deployment-stop"),
    path("deployments/<str:pk>/start", api.StartView.as_view(), name="deployment-start"),
    path("deployments/<str:pk>/remove", api.RemoveView.as_view(), name="deployment-remove"),
    path("deployments/<str:pk>/keys", api.KeysView.as_view(), name="deployment-keys"),
    path("deployments/<str:pk>/keys/<int:key>", api.KeyView.as_view(), name="deployment-key"),
]
