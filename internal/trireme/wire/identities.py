"""Pods as requests to the filter phase name them.

Tests: tests/unit/evaluation/test_post_filter_results.py.
"""

from collections.abc import Sequence

from trireme.v1 import core_pb2, cycle_pb2, filter_phase_pb2


def identity(pod: core_pb2.Pod) -> cycle_pb2.PodIdentity:
    """The pod by namespace, name and UID."""
    metadata = pod.metadata
    return cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def preemptor(pod: core_pb2.Pod, seed: int) -> filter_phase_pb2.Preemptor:
    """The pod as PostFilter is run for it."""
    nominated_node = pod.status.nominated_node_name
    return filter_phase_pb2.Preemptor(pod=identity(pod), nominated_node=nominated_node, seed=seed)


def preemptors(pods: Sequence[core_pb2.Pod], seed: int) -> list[filter_phase_pb2.Preemptor]:
    """Pods as PostFilter is run for one after the other: the seed is the first one's, and grows by one with each."""
    return [preemptor(pod, seed + number) for number, pod in enumerate(pods)]


def nominees(pods: Sequence[core_pb2.Pod], slots: Sequence[int]) -> list[filter_phase_pb2.Nominee]:
    """The pods, each with the slot of the node that it is nominated for."""
    return [filter_phase_pb2.Nominee(pod=identity(pod), slot=slot) for pod, slot in zip(pods, slots, strict=True)]
