"""Strategic merge patches of a pod's status: exactly the changed fields, as kube-scheduler sends them.

Pure. A patch lists conditions by type. For an existing condition it contains only the fields that differ, and
`$setElementOrder/conditions` keeps the order; `lastTransitionTime` changes only with the status. A caller that does not
know the pod's conditions passes none: the patch then has the complete condition, which merges to the same object except
for that time.

Also change: internal/trireme/bind/patch_bodies.py (status patches).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

CONDITION_FIELDS = ("lastProbeTime", "lastTransitionTime", "message", "observedGeneration", "reason", "status")


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition to set. `observed_generation` 0 and an empty reason or message are left out."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


def pod_status_patch(
    conditions: Sequence[Mapping[str, Any]],
    condition: Condition | None,
    time: str,
    *,
    old_nomination: str = "",
    nomination: str | None = None,
) -> dict[str, Any] | None:
    """Return the patch, or None if nothing changes.

    `conditions` are the pod's, as JSON; `time` is now (RFC 3339, seconds); `nomination` "" clears, None leaves.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        change = _condition_change(conditions, condition, time)
        if change is not None:
            types = [str(old.get("type")) for old in conditions]
            if types:
                order = types if condition.type in types else [*types, condition.type]
                status["$setElementOrder/conditions"] = [{"type": name} for name in order]
            status["conditions"] = [change]
    if nomination is not None and nomination != old_nomination:
        status["nominatedNodeName"] = nomination or None
    return {"status": status} if status else None


def _condition_change(
    conditions: Sequence[Mapping[str, Any]], condition: Condition, time: str
) -> dict[str, Any] | None:
    """Return the entry of a patch for one condition, or None if nothing changes.

    The time of transition moves only with the status. A field that is to be removed is None.
    """
    old = next((entry for entry in conditions if entry.get("type") == condition.type), None)
    same_status = old is not None and old.get("status") == condition.status
    new: dict[str, Any] = {
        "lastProbeTime": old.get("lastProbeTime") if old is not None else None,
        "lastTransitionTime": old.get("lastTransitionTime") if old is not None and same_status else time,
        "message": condition.message or None,
        "observedGeneration": condition.observed_generation or None,
        "reason": condition.reason or None,
        "status": condition.status,
        "type": condition.type,
    }
    if old is None:
        return {key: value for key, value in new.items() if value is not None or key == "lastProbeTime"}
    changed = {key: new[key] for key in CONDITION_FIELDS if new[key] != old.get(key)}
    return {**changed, "type": condition.type} if changed else None
