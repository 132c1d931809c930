from django.urls import path

from apps.quotas import api, views

app_name = "quotas"

urlpatterns = [
    path("quota/", views.overview, name="list"),
    path("quota/ask", views.ask, name="ask"),
    path("quota/requests/<int:pk>/", views.detail, name="request"),
    path("quota/requests/<int:pk>/approve", views.approve, name="approve"),
    path("quota/requests/<int:pk>/reject", views.reject, name="reject"),
    path("quota/requests/<int:pk>/offer", views.offer, name="offer"),
    path("quota/requests/<int:pk>/accept", views.accept, name="accept"),
    path("quota/requests/<int:pk>/withdraw", views.withdraw, name="withdraw"),
    path("quota/requests/<int:pk>/comment", views.comment, name="comment"),
]

api_patterns = [
    path("quota", api.PoolsView.as_view(), name="quota"),
    path("quota-requests", api.RequestsView.as_view(), name="quota-requests"),
    path("quota-requests/<int:pk>", api.RequestView.as_view(), name="quota-request"),
    path("quota-requests/<int:pk>/approve", api.ApproveView.as_view(), name="quota-request-approve"),
    path("quota-requests/<int:pk>/reject", api.RejectView.as_view(), name="quota-request-reject"),
    path("quota-requests/<int:pk>/offer", api.OfferView.as_view(), name="quota-request-offer"),
    path("quota-requests/<int:pk>/accept", api.AcceptView.as_view(), name="quota-request-accept"),
    path("quota-requests/<int:pk>/withdraw", api.WithdrawView.as_view(), name="quota-request-withdraw"),
    path("quota-requests/<int:pk>/comment", api.CommentView.as_view(), name="quota-request-comment"),
]
