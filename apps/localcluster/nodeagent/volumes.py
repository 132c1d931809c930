"""A pod's volumes as folders of this machine, and where its containers see them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from apps.localcluster.nodeagent.environment import ConfigError, Facts, Ref, expand, field_value, resource_value

Object = dict[str, Any]
READONLY = ("configMap", "secret", "downwardAPI", "projected")
DEFAULT_MODE = 0o644


class VolumeError(Exception):
    """A volume cannot be made (yet); the text says which and why."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine seen at `target` in the container."""

    volume: str
    source: Path
    target: str
    readonly: bool


@dataclass(frozen=True)
class Place:
    """Where a pod's volumes live and whose they are.

    `claims`: uid by name of those that exist; `group`: the pod's fsGroup; `shared`: its users are not the agent's.
    """

    pod_folder: Path
    claims_folder: Path
    claims: Mapping[str, str]
    group: int | None = None
    shared: bool = False
    tokens: Mapping[str, bytes] = field(default_factory=dict)


def sources_of(volume: Object) -> list[Object]:
    """The parts of a volume that hold files: those of a projected volume, or the volume itself."""
    if "projected" in volume:
        return list(volume["projected"].get("sources") or ())
    return [volume]


def references(volumes: Iterable[Object]) -> set[Ref]:
    """Configmaps and secrets the volumes are filled from."""
    found: set[Ref] = set()
    for source in (source for volume in volumes for source in sources_of(volume)):
        if source.get("configMap"):
            found.add(("configmaps", source["configMap"]["name"]))
        if source.get("secret"):
            found.add(("secrets", source["secret"].get("secretName") or source["secret"]["name"]))
    return found


def claims(volumes: Iterable[Object]) -> set[str]:
    return {v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")}


def audiences(volumes: Iterable[Object]) -> set[str]:
    """Audiences of the service account tokens the volumes ask for; "" is the API server itself."""
    sources = [source for volume in volumes for source in sources_of(volume)]
    return {s["serviceAccountToken"].get("audience", "") for s in sources if s.get("serviceAccountToken")}


def prepare(volume: Object, place: Place, facts: Facts) -> Path:
    """Make one volume, or find it made; returns its folder. Raises VolumeError, OSError."""
    name = volume["name"]
    folder: Path
    if claim := volume.get("persistentVolumeClaim"):
        if claim["claimName"] not in place.claims:
            raise VolumeError(f'persistentvolumeclaim "{claim["claimName"]}" not found')
        return _claimed(claim["claimName"], place)
    folder = place.pod_folder / "volumes" / name
    if "emptyDir" in volume:
        _make(folder, 0o777, place.group)
        return folder
    if "hostPath" in volume:
        raise VolumeError(f'volume "{name}": this node gives no hostPath; use a claim or an emptyDir')
    if not any(kind in volume for kind in READONLY):
        kinds = ", ".join(key for key in volume if key != "name")
        raise VolumeError(f'volume "{name}": this node does not have volumes of type {kinds}')
    if folder.exists():
        return folder  # what it was filled from may be gone by now
    try:
        files = content(volume, facts, place.tokens)
    except ConfigError as error:
        raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
    _write_all(folder, files, place)
    return folder


def _claimed(name: str, place: Place) -> Path:
    """The folder of a claim. A claim made anew under an old name starts empty; the old one's files are put aside."""
    folder, mark = place.claims_folder / name, place.claims_folder / f".{name}.uid"
    owner = mark.read_text() if mark.exists() else ""
    if folder.exists() and owner not in ("", place.claims[name]):
        folder.rename(folder.with_name(f".{name}.{owner}"))
    if owner != place.claims[name]:
        place.claims_folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(place.claims[name])
    _make(folder, 0o777, place.group)
    return folder


def content(volume: Object, facts: Facts, tokens: Mapping[str, bytes]) -> dict[str, tuple[bytes, int]]:
    """Files of a volume: path → (bytes, mode). Raises ConfigError."""
    own = next(volume[kind] for kind in READONLY if kind in volume) or {}
    default = own.get("defaultMode", DEFAULT_MODE)
    files: dict[str, tuple[bytes, int]] = {}
    for source in sources_of(volume):
        for path, (data, mode) in _files(source, facts, tokens).items():
            if ".." in PurePosixPath(path).parts or path.startswith("/"):
                raise ConfigError(f"invalid path of an item: {path}")
            files[path] = (data, default if mode is None else mode)
    return files


def _files(source: Object, facts: Facts, tokens: Mapping[str, bytes]) -> dict[str, tuple[bytes, int | None]]:
    if token := source.get("serviceAccountToken"):
        return {token["path"]: (tokens.get(token.get("audience", ""), b""), None)}
    if api := source.get("downwardAPI"):
        return {item["path"]: (_downward(item, facts).encode(), item.get("mode")) for item in api.get("items") or ()}
    kind = "configMap" if source.get("configMap") else "secret"
    own = source[kind]
    name = own.get("secretName") or own.get("name", "")
    data = facts.found.get((f"{kind.lower()}s", name))
    if data is None:
        if own.get("optional"):
            return {}
        raise ConfigError(f'{kind.lower()} "{name}" not found')
    if not own.get("items"):
        return {key: (value, None) for key, value in data.items()}
    missing = [item["key"] for item in own["items"] if item["key"] not in data]
    if missing and not own.get("optional"):
        raise ConfigError(f"references non-existent {kind.lower()} key: {missing[0]}")
    return {item["path"]: (data[item["key"]], item.get("mode")) for item in own["items"] if item["key"] in data}


def _downward(item: Object, facts: Facts) -> str:
    if item.get("fieldRef"):
        return field_value(item["fieldRef"]["fieldPath"], facts)
    return resource_value(item["resourceFieldRef"], {}, facts)


def _make(folder: Path, mode: int, group: int | None) -> None:
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft")
    draft.mkdir(exist_ok=True)
    if group is not None:
        os.chown(draft, -1, group)
        mode |= 0o2000
    draft.chmod(mode)
    draft.rename(folder)


def _write_all(folder: Path, files: Mapping[str, tuple[bytes, int]], place: Place) -> None:
    """Write the files beside each other first, so that a half-made volume is never mounted."""
    draft = folder.with_name(f".{folder.name}.draft")
    draft.mkdir(parents=True, exist_ok=True)
    for path, (data, mode) in files.items():
        file = draft / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
            out.write(data)
        if place.group is not None:
            os.chown(file, -1, place.group)
            mode |= 0o440
        file.chmod(mode)
    # The pod's own folder above is closed to others, so opening this one to the pod's users gives nothing away.
    draft.chmod(0o755 if place.shared or place.group is not None else 0o700)
    draft.rename(folder)


def mounts(container: Object, folders: Mapping[str, Path], env: Mapping[str, str]) -> list[Mount]:
    """What a container sees where. Raises ConfigError for a subPath that leads out of its volume."""
    found = []
    for mount in container.get("volumeMounts") or ():
        volume = mount["name"]
        if volume not in folders:
            raise ConfigError(f'volume "{volume}" of a mount is not among the pod\'s volumes')
        source = folders[volume]
        part = expand(mount["subPathExpr"], env) if mount.get("subPathExpr") else mount.get("subPath", "")
        if part:
            source = _sub_path(source, part)
        found.append(Mount(volume, source, os.path.normpath(mount["mountPath"]), bool(mount.get("readOnly"))))
    return found


def _sub_path(folder: Path, part: str) -> Path:
    path = (folder / part).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ConfigError(f"subPath {part!r} leads out of its volume")
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o777)
    return path


def rewritten(text: str, found: Iterable[Mount]) -> str:
    """A text in which paths below a mount's target became paths of this machine, where there are no mounts."""
    table = {mount.target: str(mount.source) for mount in found if mount.target != "/"}
    if not table:
        return text
    longest = sorted(table, key=len, reverse=True)
    pattern = rf"(?<![\w./-])({'|'.join(map(re.escape, longest))})(?![\w.-])"
    return re.sub(pattern, lambda match: table[match[1]], text)
