from django.urls import path

from apps.tenants import api, views

app_name = "tenants"

urlpatterns = [
    path("tenants/", views.tenants, name="list"),
    path("tenants/<slug:slug>/", views.detail, name="detail"),
    path("tenants/<slug:slug>/<slug:cluster>/restore", views.restore, name="restore"),
    path("tenants/<slug:slug>/<slug:cluster>/look", views.look, name="look"),
    path("tenants/<slug:slug>/<slug:cluster>/remove", views.remove, name="remove"),
    path("tenant-requests/", views.requests, name="requests"),
    path("tenant-requests/new", views.ask, name="ask"),
    path("tenant-requests/<int:request_id>/", views.request_page, name="request"),
    path("tenant-requests/<int:request_id>/decide", views.decide, name="decide"),
    path("tenant-requests/<int:request_id>/withdraw", views.withdraw, name="withdraw"),
]

api_patterns = [
    path("tenants", api.TenantsView.as_view(), name="tenants"),
    path("tenants/<slug:slug>", api.TenantView.as_view(), name="tenant"),
    path("tenants/<slug:slug>/members", api.MembersView.as_view(), name="tenant-members"),
    path("tenants/<slug:slug>/<slug:cluster>/restore", api.RestoreView.as_view(), name="tenant-restore"),
    path("tenants/<slug:slug>/<slug:cluster>/look", api.LookView.as_view(), name="tenant-look"),
    path("tenants/<slug:slug>/<slug:cluster>/remove", api.RemoveView.as_view(), name="tenant-remove"),
    path("tenant-requests", api.RequestsView.as_view(), name="tenant-requests"),
    path("tenant-requests/<int:pk>", api.RequestView.as_view(), name="tenant-request"),
    path("tenant-requests/<int:pk>/decide", api.DecideView.as_view(), name="tenant-request-decide"),
    path("tenant-requests/<int:pk>/withdraw", api.WithdrawView.as_view(), name="tenant-request-withdraw"),
]
