"""Conditions of pods that one part of Trireme writes, or the kubelet, and another one reads.

Also change: internal/trireme_kube/embedded/registry/quotas/pod_usage.py (conditions of pods).
Also change: tools/bench/limit/main.go, internal/trireme_kube/client/events/event_recorder.py,
internal/trireme/scheduling/attempt_reporter.py (how the scheduler's writes look).
"""

from typing import Final

POD_SCHEDULED: Final = "PodScheduled"

#: The type and the reason that say that a scheduler preempts the pod.
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"

#: The kubelet cannot resize the pod now; reasons are DEFERRED, and INFEASIBLE for good.
RESIZE_PENDING: Final = "PodResizePending"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
