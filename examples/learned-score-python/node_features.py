"""What the model sees of a node with one more pod on it: the same in training and in the scheduler.

Also change: examples/spot-batch-python/pod_requests.py (how requests are counted).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trireme import sdk
from trireme.v1 import core_pb2

# Shares of the node with the pod: requested cpu and memory, pods of those that it may have; and the pod's own cpu.
FEATURES = ("cpuShare", "memoryShare", "podShare", "ownCpuShare")

_SUFFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SUFFIXES |= {suffix: 1024.0**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}

# Of so many classes of pods the requests are remembered.
_MAX_CLASSES = 10_000


def quantity(text: str) -> float:
    """The number that a quantity such as `250m` or `1Gi` stands for."""
    number = text.rstrip("numkKMGTPEi")
    return float(number) * _SUFFIXES[text[len(number) :]]


class FeatureReader:
    """Makes the rows of nodes; the requests of a class of pods, which share one message, are read once."""

    def __init__(self) -> None:
        # By the message's identity: the message, kept so that the identity stays its own, and cpu and memory.
        self._requests: dict[int, tuple[core_pb2.Pod, float, float]] = {}

    def rows(self, pod: core_pb2.Pod, nodes: Sequence[sdk.Node]) -> npt.NDArray[np.float64]:
        """The features of each node with the pod on it. Shape: (node, feature)."""
        own_cpu, own_memory = _requests_of(pod)
        # Columns: requested cpu and memory, pods; what the node has of each.
        table = np.zeros((len(nodes), 6))
        for at, node in enumerate(nodes):
            cpu, memory = own_cpu, own_memory
            for each in node.pods:
                _, more_cpu, more_memory = self._of_class(each.pod)
                cpu, memory = cpu + more_cpu, memory + more_memory
            has = node.message.status.allocatable
            sizes = [quantity(has[name].string) if name in has else 0.0 for name in ("cpu", "memory", "pods")]
            table[at] = (cpu, memory, len(node.pods) + 1, *sizes)
        sizes_or_one = np.where(table[:, 3:] > 0, table[:, 3:], 1.0)
        shares = table[:, :3] / sizes_or_one
        return np.column_stack([shares, own_cpu / sizes_or_one[:, 0]])

    def _of_class(self, pod: core_pb2.Pod) -> tuple[core_pb2.Pod, float, float]:
        known = self._requests.get(id(pod))
        if known is None:
            if len(self._requests) >= _MAX_CLASSES:
                self._requests.clear()
            known = self._requests[id(pod)] = (pod, *_requests_of(pod))
        return known


def _requests_of(pod: core_pb2.Pod) -> tuple[float, float]:
    """The cpu and memory that the pod's containers request."""
    cpu = memory = 0.0
    for container in pod.spec.containers:
        requests = container.resources.requests
        cpu += quantity(requests["cpu"].string) if "cpu" in requests else 0.0
        memory += quantity(requests["memory"].string) if "memory" in requests else 0.0
    return cpu, memory
