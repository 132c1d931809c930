"""The portal's accounts pages and two small REST endpoints, so that these tests depend on no other app."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.types import Permission


class Whoami(APIView):
    def get(self, request: Request) -> Response:
        actor = request.actor
        return Response({"id": actor.id, "may": [p.value for p in Permission if actor.may(p)]})

    def post(self, request: Request) -> Response:
        request.actor.require(Permission.JOB_SUBMIT)
        return Response({}, status=201)


def forgotten(request: HttpRequest) -> HttpResponse:
    """A view whose author thought of no decorator."""
    return HttpResponse("secret")


urlpatterns = [
    path("api/v1/whoami/", Whoami.as_view()),
    path("forgotten/", forgotten),
    path("", include("maasportal.urls")),
]
