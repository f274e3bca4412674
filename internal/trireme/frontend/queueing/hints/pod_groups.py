"""Hints of GangScheduling: the gang's group is there, asks for fewer pods, or has one pod more.

Source: pkg/scheduler/framework/plugins/gangscheduling.
"""

from collections.abc import Sequence
from typing import Any

from trireme.frontend.queueing.hints.wanted import Helps, Setting, Wanted, nobody
from trireme.snapshot import classes
from trireme.v1 import core_pb2, scheduling_pb2

_GROUP = "scheduling.k8s.io/PodGroup"


def gang_scheduling(setting: Setting) -> Sequence[Wanted]:
    """GangScheduling. A pod never changes its group, so only new pods matter."""
    return (
        Wanted("UnscheduledPod", ("Add",), _after_pod),
        Wanted("AssignedPod", ("Add",), _after_pod),
        Wanted(_GROUP, ("Add",), _after_group),
        Wanted(_GROUP, ("Update",), _after_update),
    )


def _after_pod(old: None, new: Any) -> Helps:
    pod: core_pb2.Pod = new.pod
    if not pod.spec.HasField("scheduling_group"):
        return nobody
    return _members(pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name)


def _after_group(old: None, new: scheduling_pb2.PodGroup) -> Helps:
    return _members(new.metadata.namespace, new.metadata.name)


def _after_update(old: scheduling_pb2.PodGroup, new: scheduling_pb2.PodGroup) -> Helps:
    before, after = old.spec.scheduling_policy, new.spec.scheduling_policy
    if not before.HasField("gang") or not after.HasField("gang") or after.gang.min_count >= before.gang.min_count:
        return nobody
    return _members(new.metadata.namespace, new.metadata.name)


def _members(namespace: str, name: str) -> Helps:
    """The pods of the group."""

    def helps(pod_class: classes.PodClass) -> bool:
        spec = pod_class.pod.spec
        if pod_class.namespace != namespace or not spec.HasField("scheduling_group"):
            return False
        return spec.scheduling_group.pod_group_name == name

    return helps
