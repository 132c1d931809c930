"""The scheduler's configuration, in Volcano's own format: actions, and tiers of plugins with switches and arguments.

What the stand-in does not offer is refused, so that one file means the same here and on the real scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim")
DEFAULT = Path(__file__).with_name("default.yaml")

# Plugin: beginnings of the arguments it takes.
_PLUGINS: dict[str, tuple[str, ...]] = {
    "priority": (),
    "gang": (),
    "conformance": (),
    "sla": (),
    "overcommit": ("overcommit-factor",),
    "drf": (),
    "predicates": ("predicate.",),
    "capacity": (),
    "proportion": (),
    # Weights of wishes that are not scored (affinity, taints, images) are read and change nothing.
    "nodeorder": tuple(
        f"{wish}.weight"
        for wish in (
            "leastrequested",
            "mostrequested",
            "balancedresource",
            "podtopologyspread",
            "nodeaffinity",
            "podaffinity",
            "tainttoleration",
            "imagelocality",
        )
    ),
    "binpack": ("binpack.",),
    "network-topology-aware": ("weight", "hypernode.binpack."),
}
# Switches that may be turned; all others are on, and are refused with another value.
_SWITCHES = ("enablePreemptable", "enableReclaimable", "enableJobOrder", "enableNodeOrder", "enableHierarchy")


@dataclass(frozen=True)
class Plugin:
    """One plugin of a tier."""

    name: str
    switches: Mapping[str, bool] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def on(self, switch: str) -> bool:
        return self.switches.get(switch, switch != "enableHierarchy")

    def number(self, key: str, default: float) -> float:
        """A numeric argument. Raises ValueError."""
        return float(self.arguments.get(key, default))

    def weights(self, prefix: str) -> dict[str, float]:
        """Weights of resources: `PREFIX.cpu`, `PREFIX.memory`, `PREFIX.resources.X` of those in `PREFIX.resources`."""
        named = [part.strip() for part in str(self.arguments.get(f"{prefix}.resources") or "").split(",")]
        known = {name: self.number(f"{prefix}.resources.{name}", 1) for name in named if name}
        known |= {name: self.number(f"{prefix}.{name}", 1) for name in ("cpu", "memory")}
        return {name: weight if weight >= 0 else 1 for name, weight in known.items()}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Plugin:
        name, arguments = str(given.get("name")), dict(given.get("arguments") or {})
        if name not in _PLUGINS:
            raise ValueError(f"plugin {name} is not offered; there are {', '.join(_PLUGINS)}")
        if strange := [key for key in arguments if not key.startswith(_PLUGINS[name])]:
            raise ValueError(f"plugin {name}: argument {strange[0]} is not offered")
        switches = {key: value for key, value in given.items() if key not in ("name", "arguments")}
        for key, value in switches.items():
            hierarchy = key == "enableHierarchy" and name != "capacity"
            if not isinstance(value, bool) or (not value and key not in _SWITCHES) or (value and hierarchy):
                raise ValueError(f"plugin {name}: {key}: {value} is not offered")
        return cls(name, switches, arguments)


@dataclass(frozen=True)
class Settings:
    """Which actions run, in order, and which plugins have a say, in tiers."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[Plugin, ...], ...]

    @cached_property
    def plugins(self) -> dict[str, Plugin]:
        return {plugin.name: plugin for tier in self.tiers for plugin in tier}

    def has(self, name: str, switch: str = "") -> bool:
        """Whether a plugin takes part, and its switch is on."""
        return name in self.plugins and (not switch or self.plugins[name].on(switch))

    @classmethod
    def parse(cls, text: str) -> Settings:
        """Raises ValueError, saying what is wrong or not offered."""
        try:
            document = yaml.safe_load(text)
            actions = tuple(part.strip() for part in document["actions"].split(","))
            tiers = tuple(tuple(map(Plugin.of, tier["plugins"])) for tier in document["tiers"])
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a configuration of Volcano's scheduler: {error!r}") from error
        if strange := set(actions) - set(ACTIONS):
            raise ValueError(f"action {min(strange)} is not offered; there are {', '.join(ACTIONS)}")
        if document.get("configurations"):
            raise ValueError("configurations of actions are not offered")
        settings = cls(actions, tiers)
        if missing := {"gang", "predicates"} - settings.plugins.keys():
            raise ValueError(f"without plugin {min(missing)} it is not offered")
        if {"capacity", "proportion"} <= settings.plugins.keys():
            raise ValueError("capacity and proportion exclude each other")
        return settings

    @classmethod
    def load(cls, path: Path = DEFAULT) -> Settings:
        """Raises ValueError, OSError."""
        return cls.parse(path.read_text())
