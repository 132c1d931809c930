from django.urls import path

from apps.catalog.views import artifacts

app_name = "catalog"

urlpatterns = [
    path("artifacts/uploads/<str:transfer_id>", artifacts.upload, name="upload"),
    path("artifacts/uploads/<str:transfer_id>/<path:path>", artifacts.upload_file, name="upload-file"),
    path("artifacts/files", artifacts.index, name="artifact-index"),
    path("artifacts/files/<str:digest>", artifacts.download, name="artifact"),
]
