"""Which tolerations tolerate which taints. Source: k8s.io/api core/v1 Toleration.ToleratesTaint."""

from collections.abc import Iterable, Sequence

from trireme.v1 import core_pb2

Taint = tuple[str, str, str]  # key, value, effect

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
UNSCHEDULABLE: Taint = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


def tolerates(toleration: core_pb2.Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint. The operators Lt and Gt never do: their gate is off."""
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == value
    return toleration.operator == "Exists"


def tolerated(tolerations: Iterable[core_pb2.Toleration], taint: Taint) -> bool:
    """Whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(
    tolerations: Sequence[core_pb2.Toleration], taints: Iterable[Taint], effects: Iterable[str]
) -> Taint | None:
    """The first taint of one of the effects that no toleration covers, or None."""
    for taint in taints:
        if taint[2] in effects and not tolerated(tolerations, taint):
            return taint
    return None
