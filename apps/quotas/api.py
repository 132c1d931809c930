"""Quota by REST: the same use-cases as the pages."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any, cast

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.services import rest
from apps.accounts.types import Actor, Permission
from apps.quotas import services
from apps.quotas.domain.quantity import BadQuantity, parse
from apps.quotas.models import Allowance, QuotaRequest, RequestEvent
from apps.quotas.services.words import BAD_QUANTITY


class Late(exceptions.APIException):
    """409: somebody else decided first."""

    status_code = status.HTTP_409_CONFLICT


class QuotaPoolSerializer(serializers.Serializer[Any]):
    tenant = serializers.SlugField()
    cluster = serializers.SlugField(help_text="The cluster's slug.")
    resource = serializers.CharField(help_text="The extended resource, as nodes offer it.")
    base = serializers.IntegerField(help_text="What the tenant has lastingly.")
    granted = serializers.IntegerField(help_text="What requests add to it now.")
    limit = serializers.IntegerField()
    held = serializers.IntegerField(help_text="What live work keeps.")
    used = serializers.IntegerField(help_text="The part of it that has its accelerators.")
    left = serializers.IntegerField()
    seconds = serializers.IntegerField(help_text="Accelerator-seconds of pods that ended this month.")


class QuotaAmountSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(help_text="The cluster's slug.")
    resource = serializers.CharField(help_text="The extended resource, as nodes offer it.")
    amount = serializers.CharField(help_text="A quantity that is a whole number: 8, “8”, “1e1”.")


class QuotaTermsSerializer(serializers.Serializer[Any]):
    amounts = QuotaAmountSerializer(many=True, allow_empty=False)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()

    def terms(self) -> services.Terms:
        """Raises ValidationError."""
        data = self.validated_data
        amounts: dict[services.Pool, int] = {}
        for item in data["amounts"]:
            amounts[services.Pool(item["cluster"], item["resource"])] = _whole(item["amount"])
        return services.Terms(amounts, data["starts_at"], data["ends_at"])


def _whole(text: str) -> int:
    try:
        found = parse(text)
    except BadQuantity as bad:
        problem = services.Problem("amounts", "not-a-quantity", {"value": text[:40], "why": BAD_QUANTITY[bad.why]})
        raise _invalid([problem]) from bad
    if found.whole is None:
        raise _invalid([services.Problem("amounts", "not-whole", {"value": text[:40]})])
    return found.whole


class QuotaAskSerializer(QuotaTermsSerializer):
    tenant = serializers.SlugField(help_text="The tenant's slug.")
    reason = serializers.CharField(allow_blank=True)


class QuotaDecisionSerializer(serializers.Serializer[Any]):
    seen = serializers.ChoiceField(
        choices=[state.value for state in services.State],
        required=False,
        help_text="The state you decide on; 409 if it is another by now. Without it, the one it is in.",
    )
    note = serializers.CharField(allow_blank=True, required=False, default="")


class QuotaOfferSerializer(QuotaTermsSerializer, QuotaDecisionSerializer):
    pass


class QuotaCommentSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(allow_blank=True)


class QuotaEventSerializer(serializers.ModelSerializer[RequestEvent]):
    actor = serializers.CharField(source="actor_id", allow_null=True)

    class Meta:
        model = RequestEvent
        fields = ("kind", "actor", "text", "params", "at")


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    tenant = serializers.CharField(source="tenant.slug")
    asker = serializers.CharField(source="asker_id")
    amounts = serializers.SerializerMethodField()

    class Meta:
        model = QuotaRequest
        fields = (
            "id", "tenant", "asker", "state", "reason", "amounts", "starts_at", "ends_at", "offered_starts_at",
            "offered_ends_at", "created_at", "moved_at",
        )  # fmt: skip

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_amounts(self, request: QuotaRequest) -> list[dict[str, Any]]:
        return [
            {
                "cluster": item.allowance.cluster,
                "resource": item.allowance.resource,
                "amount": item.amount,
                "offered": item.offered,
            }
            for item in request.items.all()
        ]


class QuotaRequestDetailSerializer(QuotaRequestSerializer):
    history = QuotaEventSerializer(source="events", many=True)

    class Meta(QuotaRequestSerializer.Meta):
        fields = (*QuotaRequestSerializer.Meta.fields, "history")  # type: ignore[assignment]  # longer


class PoolsView(GenericAPIView[Allowance]):
    serializer_class = QuotaPoolSerializer
    pagination_class = None

    @extend_schema(operation_id="list_quota", responses=QuotaPoolSerializer(many=True))
    def get(self, request: Request) -> Response:
        """What the tenants this person may see have, hold and have left, pool by pool."""
        actor = _actor(request)
        rows = [
            {
                "tenant": group.slug,
                "cluster": view.use.pool.cluster,
                "resource": view.use.pool.resource,
                "seconds": view.seconds,
                **{name: getattr(view.use, name) for name in ("base", "granted", "limit", "held", "used", "left")},
            }
            for group in services.pools_seen(actor, request.query_params.get("tenant", ""))
            for view in group.pools
        ]
        return Response(QuotaPoolSerializer(rows, many=True).data)


class RequestsView(GenericAPIView[QuotaRequest]):
    serializer_class = QuotaRequestSerializer

    def get_queryset(self) -> Any:
        visible = QuotaRequest.objects.visible_to(_actor(self.request))
        return visible.select_related("tenant").prefetch_related("items__allowance")

    @extend_schema(operation_id="list_quota_requests", responses=QuotaRequestSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The requests this person may see, newest first."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(QuotaRequestSerializer(page, many=True).data)

    @extend_schema(
        operation_id="ask_quota",
        request=QuotaAskSerializer,
        responses={201: QuotaRequestSerializer},
        parameters=[rest.IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Ask for quota. The same Idempotency-Key again answers with the same request."""
        form = QuotaAskSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor = _actor(request)
        tenant = rest.tenant_named(actor, form.validated_data["tenant"])
        key = rest.idempotency_key(request)
        digest = hashlib.sha256(key.encode()).hexdigest() if key else ""
        actor.require(Permission.QUOTA_ASK, tenant.pk, target=f"tenant:{tenant.pk}")
        wish = services.Ask(tenant.pk, form.terms(), form.validated_data["reason"], digest)
        try:
            made = services.ask(actor, wish=wish)
        except services.InvalidRequest as invalid:
            raise _invalid(invalid.problems) from invalid
        location = {"Location": f"/api/v1/quota-requests/{made.pk}"}
        return Response(QuotaRequestSerializer(made).data, status=status.HTTP_201_CREATED, headers=location)


class RequestView(GenericAPIView[QuotaRequest]):
    serializer_class = QuotaRequestDetailSerializer

    @extend_schema(operation_id="get_quota_request")
    def get(self, request: Request, pk: int) -> Response:
        """One request with its history."""
        return Response(QuotaRequestDetailSerializer(_request(request, pk)).data)


class ActView(GenericAPIView[QuotaRequest], ABC):
    """POST …/approve and the like: do it and answer with the request. 409: it is not where it was."""

    serializer_class = QuotaRequestSerializer
    form: type[serializers.Serializer[Any]] | None = None

    @abstractmethod
    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None: ...

    def answer(self, request: Request, pk: int) -> Response:
        found = _request(request, pk)
        form = self.form(data=request.data) if self.form else None
        if form is not None:
            form.is_valid(raise_exception=True)
        try:
            self.act(_actor(request), found, form)
        except services.AlreadyDecided as late:
            raise Late(services.late_text(late)) from late
        except services.InvalidRequest as invalid:
            raise _invalid(invalid.problems) from invalid
        return Response(QuotaRequestSerializer(_request(request, pk)).data)


def _seen(found: QuotaRequest, form: Any) -> services.State:
    return services.State(form.validated_data.get("seen") or found.state)


class ApproveView(ActView):
    form = QuotaDecisionSerializer

    @extend_schema(
        operation_id="approve_quota_request", request=QuotaDecisionSerializer, responses=QuotaRequestSerializer
    )
    def post(self, request: Request, pk: int) -> Response:
        """Approve the step it waits at."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        services.approve(actor, found, seen=_seen(found, form), note=form.validated_data["note"])


class RejectView(ActView):
    form = QuotaDecisionSerializer

    @extend_schema(
        operation_id="reject_quota_request", request=QuotaDecisionSerializer, responses=QuotaRequestSerializer
    )
    def post(self, request: Request, pk: int) -> Response:
        """Reject it; the note is the reason."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        services.reject(actor, found, seen=_seen(found, form), note=form.validated_data["note"])


class OfferView(ActView):
    form = QuotaOfferSerializer

    @extend_schema(operation_id="offer_quota", request=QuotaOfferSerializer, responses=QuotaRequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Offer other amounts or another time instead; who asked accepts or withdraws."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        note = form.validated_data["note"]
        services.offer(actor, found, seen=_seen(found, form), terms=form.terms(), note=note)


class AcceptView(ActView):
    @extend_schema(operation_id="accept_quota_offer", request=None, responses=QuotaRequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Accept what was offered instead."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        services.accept(actor, found)


class WithdrawView(ActView):
    @extend_schema(operation_id="withdraw_quota_request", request=None, responses=QuotaRequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Take it back, as long as it has not begun."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        services.withdraw(actor, found)


class CommentView(ActView):
    form = QuotaCommentSerializer

    @extend_schema(
        operation_id="comment_quota_request", request=QuotaCommentSerializer, responses=QuotaRequestSerializer
    )
    def post(self, request: Request, pk: int) -> Response:
        """Say something to those who ask and decide."""
        return self.answer(request, pk)

    def act(self, actor: Actor, found: QuotaRequest, form: Any) -> None:
        services.comment(actor, found, form.validated_data["text"])


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _request(request: Request, pk: int) -> QuotaRequest:
    visible = QuotaRequest.objects.visible_to(_actor(request)).select_related("tenant", "asker")
    return get_object_or_404(visible, pk=pk)


def _invalid(problems: list[services.Problem]) -> exceptions.ValidationError:
    errors: dict[str, list[str]] = {}
    for problem in problems:
        errors.setdefault(problem.field, []).append(services.problem_text(problem))
    return exceptions.ValidationError(errors)
