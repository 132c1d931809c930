from django.urls import path

from apps.audit import api, views

app_name = "audit"

urlpatterns = [
    path("audit/", views.entries, name="list"),
    path("audit/<int:entry_id>/", views.entry, name="entry"),
]

api_patterns = [
    path("audit", api.EntriesView.as_view(), name="audit"),
    path("audit/export", api.ExportView.as_view(), name="audit-export"),
]
