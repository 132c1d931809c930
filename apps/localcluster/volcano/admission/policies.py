"""Checks of lifecycle policies."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

EVENTS = ("*", "JobUpdated", "PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown")
ACTIONS = (
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
)


def events_of(policy: Object) -> list[str]:
    """The events a policy names, each once."""
    named = [*(policy.get("events") or []), *([policy["event"]] if policy.get("event") else [])]
    return list(dict.fromkeys(named))


def refusal(policies: list[Object] | None, path: str) -> str:
    """Why a list of policies is refused, with the valid values; the empty text accepts."""
    seen: set[str] = set()
    faults = [fault for fault in [_first_fault(policies or [], path, seen)] if fault]
    if "*" in seen and len(seen) > 1:
        faults.append("if there's * here, no other policy should be here")
    if not faults:
        return ""
    count = f"{len(faults)} error{'s' if len(faults) > 1 else ''} occurred:"
    bullets = "".join(f"\n\t* {fault}" for fault in faults)
    return f"{count}{bullets}\n\n valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"


def _first_fault(policies: list[Object], path: str, seen: set[str]) -> str:
    codes: set[int] = set()
    for policy in policies:
        events, code = events_of(policy), policy.get("exitCode")
        if events and code is not None:
            return "must not specify event and exitCode simultaneously"
        if not events and code is None:
            return "either event and exitCode should be specified"
        if events:
            fault = _event_fault(policy, events, path, seen)
        elif code == 0:
            fault = "0 is not a valid error code"
        else:
            fault = f"duplicate exitCode {code}" if code in codes else ""
            codes.add(int(code or 0))
        if fault:
            return fault
    return ""


def _event_fault(policy: Object, events: list[str], path: str, seen: set[str]) -> str:
    for event in events:
        if event not in EVENTS:
            return f'{path}: Invalid value: "{event}": invalid policy event'
        if policy.get("action") not in ACTIONS:
            return f'{path}: Invalid value: "{policy.get("action", "")}": invalid policy action'
        if event in seen:
            return f"duplicate event {event}  across different policy"
        seen.add(event)
    return ""
