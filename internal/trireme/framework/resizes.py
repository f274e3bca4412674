"""Deferred resizes: of running pods that their node has no room for.

The kubelet marks such a pod. With the gate InPlacePodVerticalScalingSchedulerPreemption the scheduler preempts for it
on its own node.

Source: k8s.io/component-helpers/resource (IsPodResizeDeferred).
"""

from typing import Final

from trireme.framework import pod_conditions
from trireme.v1 import core_pb2, projection_pb2

GATE: Final = "InPlacePodVerticalScalingSchedulerPreemption"


def is_deferred(status: core_pb2.PodStatus | projection_pb2.ProjectedPodStatus) -> bool:
    """Whether the pod's resize is deferred; the first condition of the type counts."""
    return (
        next(
            (condition.reason for condition in status.conditions if condition.type == pod_conditions.RESIZE_PENDING), ""
        )
        == pod_conditions.DEFERRED
    )
