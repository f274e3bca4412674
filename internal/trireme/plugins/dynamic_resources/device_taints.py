"""Taints of devices, and whether the tolerations of a request accept them.

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py.
"""

from collections.abc import Sequence

from trireme.v1 import resource_pb2


def is_tolerated(taint: resource_pb2.DeviceTaint, tolerations: Sequence[resource_pb2.DeviceToleration]) -> bool:
    """Whether any of the tolerations accepts the taint."""
    return any(_tolerates_taint(toleration, taint) for toleration in tolerations)


def _tolerates_taint(toleration: resource_pb2.DeviceToleration, taint: resource_pb2.DeviceTaint) -> bool:
    """Whether the toleration accepts the taint; an empty key or effect matches any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
