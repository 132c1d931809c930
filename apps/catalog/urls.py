from django.urls import path

from apps.catalog import api, views
from apps.catalog.views import artifacts

app_name = "catalog"

urlpatterns = [
    path("models/", views.models, name="list"),
    path("models/<slug:model_id>/", views.model, name="model"),
    path("models/<slug:model_id>/edit", views.edit, name="edit"),
    path("models/<slug:model_id>/delete", views.delete, name="delete"),
    path("models/<slug:model_id>/versions/<int:number>/stage", views.stage, name="stage"),
    path("models/<slug:model_id>/versions/<int:number>/again", views.again, name="again"),
    path("models/<slug:model_id>/versions/<int:number>/files/<path:path>", views.file, name="file"),
    path("artifacts/uploads/<slug:transfer_id>", artifacts.upload, name="upload"),
    path("artifacts/uploads/<slug:transfer_id>/<path:path>", artifacts.upload_file, name="upload-file"),
    path("artifacts/files", artifacts.index, name="artifact-index"),
    path("artifacts/files/<slug:digest>", artifacts.download, name="artifact"),
]

api_patterns = [
    path("models", api.ModelsView.as_view(), name="models"),
    path("models/<slug:pk>", api.ModelView.as_view(), name="model"),
    path("models/<slug:pk>/versions", api.VersionsView.as_view(), name="model-versions"),
    path("models/<slug:pk>/versions/<int:number>", api.VersionView.as_view(), name="model-version"),
    path("models/<slug:pk>/versions/<int:number>/stage", api.StageView.as_view(), name="model-stage"),
    path("models/<slug:pk>/versions/<int:number>/again", api.AgainView.as_view(), name="model-again"),
    path("models/<slug:pk>/versions/<int:number>/files", api.FilesView.as_view(), name="model-files"),
    path("models/<slug:pk>/versions/<int:number>/files/<path:path>", api.FileView.as_view(), name="model-file"),
]
