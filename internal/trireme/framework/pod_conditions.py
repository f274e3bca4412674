"""Conditions of pods that one part of Trireme writes, or the kubelet, and another one reads."""

from typing import Final

POD_SCHEDULED: Final = "PodScheduled"

#: The type and the reason that say that a scheduler preempts the pod.
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"

#: The kubelet cannot resize the pod now; reasons are DEFERRED, and INFEASIBLE for good.
RESIZE_PENDING: Final = "PodResizePending"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
