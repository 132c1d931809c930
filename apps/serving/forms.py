"""The filters of the list of deployments."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.serving.domain.phases import SERVING, STARTING, Phase
from apps.serving.models import Deployment

STATES: dict[str, tuple[Promise, frozenset[Phase]]] = {
    "serving": (_("Serving"), SERVING),
    "starting": (_("Starting"), frozenset(STARTING)),
    "failed": (_("Failed"), frozenset({Phase.FAILED})),
    "stopped": (_("Stopped"), frozenset({Phase.STOPPING, Phase.STOPPED})),
    "removed": (_("Removed"), frozenset({Phase.REMOVING, Phase.REMOVED})),
}
SHOWN = frozenset(Phase) - {Phase.REMOVED}


class DeploymentFilter(django_filters.FilterSet):
    """`?state=&mine=&tenant=&q=` of the list. A value nobody knows filters nothing; what was removed is asked for."""

    state = django_filters.ChoiceFilter(choices=[(key, word) for key, (word, _p) in STATES.items()], method="in_state")
    mine = django_filters.ChoiceFilter(choices=[("1", "1")], method="of_mine")
    tenant = django_filters.CharFilter(field_name="tenant__slug")
    q = django_filters.CharFilter(method="named", max_length=63)

    class Meta:
        model = Deployment
        fields: list[str] = []

    def in_state(self, rows: QuerySet[Deployment], _name: str, value: str) -> QuerySet[Deployment]:
        return rows.filter(phase__in=STATES[value][1])

    def of_mine(self, rows: QuerySet[Deployment], _name: str, _value: str) -> QuerySet[Deployment]:
        return rows.filter(owner_id=self.request.actor.user_pk or None)

    def named(self, rows: QuerySet[Deployment], _name: str, value: str) -> QuerySet[Deployment]:
        return rows.filter(name__icontains=value)
