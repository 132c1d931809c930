from django.urls import path

from apps.notices import api, views

app_name = "notices"

urlpatterns = [
    path("inbox/", views.inbox, name="inbox"),
    path("inbox/read", views.mark_all, name="read-all"),
    path("inbox/<int:notice_id>/read", views.mark, name="read"),
]

api_patterns = [
    path("inbox", api.InboxView.as_view(), name="inbox"),
    path("inbox/read", api.ReadAllView.as_view(), name="inbox-read-all"),
    path("inbox/<int:pk>/read", api.ReadView.as_view(), name="inbox-read"),
]
