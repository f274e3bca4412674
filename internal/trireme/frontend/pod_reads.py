"""What plugins read of pods, and for which pods canaries answer.

Tests: tests/unit/cache/test_pod_fields_of_specs.py, tests/unit/frontend/test_reconfiguration.py.
"""

from collections.abc import Mapping, Sequence

from trireme.cache import class_registry, pod_read_set
from trireme.framework import canaries
from trireme.v1 import plugin_pb2


class PodReads:
    """The fields of pods that plugins read, beside those of the projection. The set only grows."""

    def __init__(
        self,
        infos: Mapping[str, plugin_pb2.PluginInfo],
        in_tree_fields: Sequence[str],
        shares: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    ) -> None:
        """`in_tree_fields`: the `pod_fields` of the in-tree plugins; `shares`: those of canaries, by profile."""
        self._reads = _reads_of(infos, in_tree_fields)
        #: Fields of pods; informers look them up for each pod.
        self.paths = set(self._reads.paths)
        #: For which pods canaries of plugins answer.
        self.shares = canaries.Shares(shares)

    @property
    def label_keys(self) -> frozenset[str] | None:
        """The labels that plugins read; None: all."""
        return self._reads.label_keys

    def extend(
        self,
        infos: Mapping[str, plugin_pb2.PluginInfo],
        registry: class_registry.ClassRegistry,
        in_tree_fields: Sequence[str] = (),
    ) -> bool:
        """Add the fields that these plugins read; False if all of them are read already."""
        reads = _reads_of(infos, in_tree_fields)
        if self._reads.covers(reads):
            return False
        self._reads = self._reads.union(reads)
        self.paths |= reads.paths
        if reads.label_keys is None:
            registry.use_all_labels()
        else:
            registry.add_selector_keys(reads.label_keys)
        return True


def _reads_of(infos: Mapping[str, plugin_pb2.PluginInfo], in_tree_fields: Sequence[str]) -> pod_read_set.PodReadSet:
    """What remote plugins read, and in-tree ones with these `pod_fields`."""
    return pod_read_set.of_remote_plugins(infos.values()).union(pod_read_set.of_in_tree_plugins(in_tree_fields))
