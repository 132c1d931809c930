from django.urls import path

from apps.secrets import api, views

app_name = "secrets"

urlpatterns = [
    path("secrets/", views.secrets, name="list"),
    path("secrets/new", views.enter, name="enter"),
    path("secrets/<int:secret_id>/replace", views.replace, name="replace"),
    path("secrets/<int:secret_id>/remove", views.remove, name="remove"),
]

api_patterns = [
    path("secrets", api.SecretsView.as_view(), name="secrets"),
    path("secrets/<slug:tenant>/<str:name>", api.SecretView.as_view(), name="secret"),
]
