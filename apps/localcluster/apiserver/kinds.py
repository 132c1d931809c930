"""The kinds this server offers: a table of built-in ones, and those that custom resource definitions add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import schemas

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
EDIT = ("get", "patch", "update")


@dataclass(frozen=True)
class Kind:
    """One kind in one version. `subresources` maps a name to (kind of its body, verbs); `selectable` lists the field
    selectors besides metadata.name and metadata.namespace; `generation`: changes of the specification are counted;
    `review`: a question that is answered and not stored; `schema` is structural, as in a custom resource definition."""

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
    review: bool = False
    custom: bool = False
    schema: Object = field(default_factory=dict)
    singular: str = ""
    list_kind: str = ""
    columns: tuple[Object, ...] = ()

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


def built_in_kinds() -> Iterator[Kind]:
    """The kinds of `kinds.yaml`."""
    for section in yaml.load(Path(__file__).with_name("kinds.yaml").read_text(), Loader=yaml.CSafeLoader):
        for row in section["kinds"]:
            subresources = {name: (body, tuple(verbs)) for name, (body, *verbs) in row.get("subresources", {}).items()}
            if row.get("status"):
                subresources["status"] = (row["kind"], EDIT)
            yield Kind(
                section["group"],
                section["version"],
                row["kind"],
                row["plural"],
                row.get("namespaced", True),
                tuple(row.get("short", ())),
                tuple(row.get("categories", ())),
                tuple(row.get("verbs", ALL_VERBS)),
                subresources,
                tuple(row.get("fields", ())),
                generation=row.get("generation", False),
                review=row.get("review", False),
                schema=schemas.of_kind(section["group"], section["version"], row["kind"]),
                singular=row["kind"].lower(),
                list_kind=row["kind"] + "List",
            )


def kinds_of_definition(definition: Object) -> list[Kind]:
    """The kinds that a CustomResourceDefinition serves, one for each served version."""
    spec, names = definition["spec"], definition["spec"]["names"]
    return [
        Kind(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            spec["scope"] == "Namespaced",
            tuple(names.get("shortNames") or ()),
            tuple(names.get("categories") or ()),
            CUSTOM_VERBS,
            {"status": (names["kind"], EDIT)} if "status" in (version.get("subresources") or {}) else {},
            tuple(each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ()),
            generation=True,
            custom=True,
            schema=schemas.of_custom((version.get("schema") or {}).get("openAPIV3Schema") or {}),
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or names["kind"] + "List",
            columns=tuple(version.get("additionalPrinterColumns") or ()),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


class Registry:
    """Finds a kind by where it stands in a path."""

    def __init__(self) -> None:
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in built_in_kinds()}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def by_resource(self, resource: str) -> Kind | None:
        """Any version of a stored resource."""
        return next((kind for kind in self._kinds.values() if kind.resource == resource), None)

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        found = (each for each in self._kinds.values() if each.kind == kind and each.api_version == api_version)
        return next(found, None)

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Group name to version to kinds, in the order of the table."""
        groups: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._kinds.values():
            groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        return groups

    def install(self, definition: Object) -> None:
        """Serve what a CustomResourceDefinition defines, in place of what it defined before, if its names hold."""
        conditions = (definition.get("status") or {}).get("conditions") or ()
        if any(each["type"] == "NamesAccepted" and each["status"] == "False" for each in conditions):
            return
        self.uninstall(definition)
        for kind in kinds_of_definition(definition):
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def clash(self, definition: Object) -> tuple[str, str] | None:
        """Reason and message when another kind of the group has one of the names; of several, the last."""
        spec, names = definition["spec"], definition["spec"]["names"]
        others = [kind for kind in self._kinds.values() if kind.group == spec["group"]]
        others = [kind for kind in others if kind.custom and kind.plural != names["plural"]]
        resources = {name for kind in others for name in (kind.singular, kind.plural, *kind.short_names)}
        kinds = {name for kind in others for name in (kind.kind, kind.list_kind)}
        wanted = [("Singular", names["singular"], resources)]
        wanted += [("ShortNames", name, resources) for name in names.get("shortNames") or ()]
        wanted += [("Kind", names["kind"], kinds), ("ListKind", names["listKind"], kinds)]
        found = [(f"{what}Conflict", f'"{name}" is already in use') for what, name, taken in wanted if name in taken]
        return found[-1] if found else None

    def uninstall(self, definition: Object) -> None:
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            if self._kinds[key].custom:
                del self._kinds[key]
