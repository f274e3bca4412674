"""Which tolerations tolerate which taints. Source: k8s.io/api core/v1 Toleration.ToleratesTaint.

Everywhere `comparing` says whether the operators Lt and Gt count (gate TaintTolerationComparisonOperators); where they
do not, a toleration with one of them tolerates nothing.

Also change: internal/trireme/simulation/manifests.py, internal/trireme_kube/embedded/controllers/node_lifecycle.py,
internal/trireme_kube/embedded/registry/pod_defaults.py (taints of nodes).

Tests: tests/unit/framework/test_tolerations.py, tests/unit/plugins/test_taint_toleration_hints.py.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from trireme.framework import selectors
from trireme.v1 import core_pb2

GATE: Final = "TaintTolerationComparisonOperators"

Taint = tuple[str, str, str]  # key, value, effect


class Toleration(NamedTuple):
    """What is read of a toleration, in a form that is read faster than a message and may be a key."""

    key: str
    operator: str
    value: str
    effect: str


AnyToleration = core_pb2.Toleration | Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
UNSCHEDULABLE: Taint = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


# As people write an integer: no plus sign, no leading zeros.
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


def read(stated: Iterable[core_pb2.Toleration]) -> tuple[Toleration, ...]:
    """The tolerations."""
    return tuple([Toleration(each.key, each.operator, each.value, each.effect) for each in stated])


def tolerates(toleration: AnyToleration, taint: Taint, *, comparing: bool) -> bool:
    """Whether one toleration tolerates one taint."""
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == value
    if toleration.operator in ("Lt", "Gt"):
        return comparing and _value_within_bound(toleration.operator, value, toleration.value)
    return toleration.operator == "Exists"


def _value_within_bound(operator: str, value: str, bound: str) -> bool:
    """Whether the taint's value is on the tolerated side of the bound; False if it is not a 64-bit integer."""
    numbers = [selectors.parse_int64(text) if _CANONICAL.fullmatch(text) else None for text in (value, bound)]
    there, limit = numbers
    if there is None or limit is None:
        return False
    return there < limit if operator == "Lt" else there > limit


def is_tolerated(tolerations: Iterable[AnyToleration], taint: Taint, *, comparing: bool) -> bool:
    """Whether any toleration tolerates the taint."""
    return any(tolerates(toleration, taint, comparing=comparing) for toleration in tolerations)


def first_untolerated_taint(
    tolerations: Sequence[AnyToleration], taints: Iterable[Taint], effects: Iterable[str], *, comparing: bool
) -> Taint | None:
    """The first taint with one of the effects that no toleration tolerates, or None."""
    for taint in taints:
        if taint[2] in effects and not is_tolerated(tolerations, taint, comparing=comparing):
            return taint
    return None
