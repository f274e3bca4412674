"""Evaluates tolerations, for the controllers that act on taints.

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

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
    """How long all taints are tolerated: 0 if one is not, None: forever. Units: seconds.

    The first toleration that covers a taint counts for it, a longer or shorter one behind it does not.

    Source: GetMatchingTolerations in k8s.io/kubernetes, pkg/apis/core/v1/helper/helpers.go, and getMinTolerationTime in
    pkg/controller/tainteviction/taint_eviction.go.
    """
    used = []
    for taint in taints:
        covering = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if covering is None:
            return 0.0
        used.append(covering)
    limits = (each["tolerationSeconds"] for each in used if each.get("tolerationSeconds") is not None)
    return min((max(float(limit), 0.0) for limit in limits), default=None)
