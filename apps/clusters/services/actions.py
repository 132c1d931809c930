"""What the audit log says of clusters, and what operators are told."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.audit.services import action
from apps.notices import services as notices

ENTERED = action(
    "cluster.entered", _("{actor} entered the cluster {name} at {server} to be checked"), name=_("Add a cluster")
)
CREDENTIAL_ENTERED = action(
    "cluster.credential-entered",
    _("{actor} entered a new credential for the cluster {name} at {server} to be checked"),
    name=_("Enter a cluster's new credential"),
)
CHECK_ASKED = action(
    "cluster.check-asked", _("{actor} asked to check the cluster {name} again"), name=_("Check a cluster again")
)
ACCEPTED = action(
    "cluster.credential-accepted",
    _("{actor} checked the credential of {name} and took it into use: {account}, until {expires}"),
    name=_("Take a cluster's credential into use"),
)
REFUSED = action(
    "cluster.credential-refused",
    _("{actor} checked a credential of {name} and did not take it into use: {failed}"),
    name=_("Refuse a cluster's credential"),
)
MAINTENANCE_BEGUN = action(
    "cluster.maintenance-begun",
    _("{actor} put {name} into maintenance until {until}: {reason}"),
    name=_("Put a cluster into maintenance"),
)
MAINTENANCE_ENDED = action(
    "cluster.maintenance-ended", _("{actor} ended the maintenance of {name}"), name=_("End a cluster's maintenance")
)
PROFILED = action(
    "cluster.profiled", _("{actor} changed the profile of {name}: {fields}"), name=_("Change a cluster's profile")
)
SOURCE_ENTERED = action(
    "cluster.source-entered",
    _("{actor} entered {url} as the {kind} of {name} to be checked"),
    name=_("Enter a source of a cluster"),
)
SOURCE_ACCEPTED = action(
    "cluster.source-accepted",
    _("{actor} checked {url} and took it into use as the {kind} of {name}"),
    name=_("Take a source of a cluster into use"),
)
SOURCE_REFUSED = action(
    "cluster.source-refused",
    _("{actor} checked {url} as the {kind} of {name} and did not take it into use"),
    name=_("Refuse a source of a cluster"),
)
SOURCE_REMOVED = action(
    "cluster.source-removed", _("{actor} removed the {kind} of {name}, {url}"), name=_("Remove a source of a cluster")
)
REMOVED = action("cluster.removed", _("{actor} removed the cluster {name}"), name=_("Remove a cluster"))

TOLD_EXPIRING = notices.kind(
    "cluster.expiring",
    _("The credential of {cluster} is over in less than {days} days, on {date}: enter a new one"),
    name=_("A cluster's credential is nearly over"),
    icon="key",
    tone="amber",
)
TOLD_EXPIRED = notices.kind(
    "cluster.expired",
    _("The credential of {cluster} is over: the portal cannot reach it until somebody enters a new one"),
    name=_("A cluster's credential is over"),
    icon="key-off",
    tone="red",
)
TOLD_REJECTED = notices.kind(
    "cluster.credential-rejected",
    _("{cluster} does not take the portal's credential any more: enter a new one"),
    name=_("A cluster rejects the credential in use"),
    icon="key-off",
    tone="red",
)
TOLD_REFUSED = notices.kind(
    "cluster.credential-refused",
    _("The credential that you entered for {cluster} was not taken into use: {failed}"),
    name=_("A cluster's credential was refused"),
    icon="alert-triangle",
    tone="red",
)
