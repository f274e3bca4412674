"""Evaluates tolerations, for the controllers that act on taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trireme_kube.embedded.api.resources import Object


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and str(toleration.get("value", "")) == str(taint.get("value", ""))


def tolerated_seconds(tolerations: Sequence[Object], taints: Iterable[Object]) -> float | None:
    """How long all taints are tolerated: 0 if one is not, None: forever. Units: seconds."""
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
