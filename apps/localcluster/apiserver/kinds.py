"""The kinds this server offers: a table of built-in ones, and those that custom resource definitions add."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """One kind in one version. `subresources` maps a name to (kind of its body, verbs); `selectable` lists the field
    selectors it takes besides metadata.name and metadata.namespace; `generation` says that changes of anything but
    metadata and status are counted."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    selectable: tuple[str, ...] = ()
    generation: bool = False
    custom: bool = False
    schema: Object = field(default_factory=dict)
    singular: str = ""
    list_kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Name with group, the same for every version: `pods`, `jobs.batch.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def prefix(self) -> bytes:
        """How the JSON of an object of this kind begins; the store keeps the rest."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def field_names(self) -> tuple[str, ...]:
        return ("metadata.name", "metadata.namespace", *self.selectable)


EDIT = ("get", "patch", "update")


def _status(kind: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {"status": (kind, EDIT)}


CORE_KINDS = (
    Kind(
        "",
        "v1",
        "Namespace",
        "namespaces",
        False,
        ("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources={"finalize": ("Namespace", ("update",))} | _status("Namespace"),
        selectable=("status.phase",),
    ),
    Kind("", "v1", "Node", "nodes", False, ("no",), subresources=_status("Node"), selectable=("spec.unschedulable",)),
    Kind(
        "",
        "v1",
        "Pod",
        "pods",
        True,
        ("po",),
        ("all",),
        subresources={
            "binding": ("Binding", ("create",)),
            "eviction": ("Eviction", ("create",)),
            "log": ("Pod", ("get",)),
        }
        | _status("Pod"),
        selectable=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        generation=True,
    ),
    Kind("", "v1", "Service", "services", True, ("svc",), ("all",), subresources=_status("Service")),
    Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",)),
    Kind("", "v1", "Secret", "secrets", selectable=("type",)),
    Kind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        ("pvc",),
        subresources=_status("PersistentVolumeClaim"),
    ),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), subresources=_status("PersistentVolume")),
    Kind(
        "",
        "v1",
        "Event",
        "events",
        True,
        ("ev",),
        selectable=(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
    ),
    Kind(
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        True,
        ("sa",),
        subresources={"token": ("TokenRequest", ("create",))},
    ),
    Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), subresources=_status("ResourceQuota")),
    Kind("", "v1", "LimitRange", "limitranges", True, ("limits",)),
)

RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
GROUP_KINDS = (
    Kind(RBAC, "v1", "Role", "roles"),
    Kind(RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind(RBAC, "v1", "ClusterRole", "clusterroles", False),
    Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Kind("coordination.k8s.io", "v1", "Lease", "leases"),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",)),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",), generation=True),
    Kind(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        generation=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        generation=True,
    ),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        ("crd", "crds"),
        ("api-extensions",),
        subresources=_status("CustomResourceDefinition"),
        generation=True,
    ),
)

# Answered from what the server knows, never stored.
REVIEW_KINDS = (
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=("create",)),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=("create",)),
)


def kinds_of_definition(definition: Object) -> list[Kind]:
    """The kinds that a CustomResourceDefinition serves, one for each served version."""
    spec = definition["spec"]
    names = spec["names"]
    kinds = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = _status(names["kind"]) if "status" in (version.get("subresources") or {}) else {}
        kinds.append(
            Kind(
                spec["group"],
                version["name"],
                names["kind"],
                names["plural"],
                spec["scope"] == "Namespaced",
                tuple(names.get("shortNames") or ()),
                tuple(names.get("categories") or ()),
                CUSTOM_VERBS,
                subresources,
                tuple(each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ()),
                generation=True,
                custom=True,
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
                singular=names.get("singular") or names["kind"].lower(),
                list_kind=names.get("listKind") or names["kind"] + "List",
            )
        )
    return kinds


class Registry:
    """Finds a kind by where it stands in a path."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._review = {(kind.group, kind.version, kind.plural): kind for kind in REVIEW_KINDS}
        for kind in CORE_KINDS + GROUP_KINDS + REVIEW_KINDS:
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def by_resource(self, resource: str) -> Kind | None:
        """Any version of a stored resource."""
        return next((kind for kind in self.stored() if kind.resource == resource), None)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        return next((each for each in self.stored() if each.kind == kind and each.api_version == api_version), None)

    def is_review(self, kind: Kind) -> bool:
        return (kind.group, kind.version, kind.plural) in self._review

    def stored(self) -> list[Kind]:
        return [kind for key, kind in self._kinds.items() if key not in self._review]

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Group name to version to kinds, in the order of the table."""
        groups: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._kinds.values():
            groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        return groups

    def install(self, definition: Object) -> None:
        """Serve what a CustomResourceDefinition defines, in place of what it defined before."""
        self.uninstall(definition)
        for kind in kinds_of_definition(definition):
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def uninstall(self, definition: Object) -> None:
        spec = definition["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            if self._kinds[key].custom:
                del self._kinds[key]
