"""Whether a pod puts up with a taint: for the controllers that act on taints, as the scheduler does for placing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trireme_kube.embedded.store import Object


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and str(toleration.get("value", "")) == str(taint.get("value", ""))


def patience(tolerations: Sequence[Object], taints: Iterable[Object]) -> float | None:
    """Seconds for which all the taints are put up with: 0 where one is not, None for ever."""
    shortest: float | None = None
    for taint in taints:
        covering = [one for one in tolerations if tolerates(one, taint)]
        if not covering:
            return 0.0
        limits = [
            max(float(one["tolerationSeconds"]), 0.0) for one in covering if one.get("tolerationSeconds") is not None
        ]
        if limits:
            shortest = min(limits) if shortest is None else min(shortest, *limits)
    return shortest
