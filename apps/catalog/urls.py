from django.urls import path

from apps.catalog import api, views
from apps.catalog.views import artifacts

app_name = "catalog"

urlpatterns = [
    path("models/", views.models, name="list"),
    path("models/<str:model_id>/", views.model, name="model"),
    path("models/<str:model_id>/edit", views.edit, name="edit"),
    path("models/<str:model_id>/delete", views.delete, name="delete"),
    path("models/<str:model_id>/versions/<int:number>/stage", views.stage, name="stage"),
    path("models/<str:model_id>/versions/<int:number>/again", views.again, name="again"),
    path("models/<str:model_id>/versions/<int:number>/files/<path:path>", views.file, name="file"),
    path("artifacts/uploads/<str:transfer_id>", artifacts.upload, name="upload"),
    path("artifacts/uploads/<str:transfer_id>/<path:path>", artifacts.upload_file, name="upload-file"),
    path("artifacts/files", artifacts.index, name="artifact-index"),
    path("artifacts/files/<str:digest>", artifacts.download, name="artifact"),
]

api_patterns = [
    path("models", api.ModelsView.as_view(), name="models"),
    path("models/<str:pk>", api.ModelView.as_view(), name="model"),
    path("models/<str:pk>/versions", api.VersionsView.as_view(), name="model-versions"),
    path("models/<str:pk>/versions/<int:number>", api.VersionView.as_view(), name="model-version"),
    path("models/<str:pk>/versions/<int:number>/stage", api.StageView.as_view(), name="model-stage"),
    path("models/<str:pk>/versions/<int:number>/again", api.AgainView.as_view(), name="model-again"),
    path("models/<str:pk>/versions/<int:number>/files", api.FilesView.as_view(), name="model-files"),
    path("models/<str:pk>/versions/<int:number>/files/<path:path>", api.FileView.as_view(), name="model-file"),
]
