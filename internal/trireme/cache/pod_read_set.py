"""Which fields of pods plugins read beside those that every pod is projected with: they decide the pod's class.

Tests: tests/unit/cache/test_pod_read_set.py, tests/unit/simulation/test_fields_that_plugins_read.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trireme.cache import pod_projection
from trireme.plugin_api import pod_fields
from trireme.v1 import plugin_pb2


@dataclass(frozen=True, slots=True)
class PodReadSet:
    """The pod fields that plugins read beside those of the projection.

    `label_keys` None: all labels. `paths` are those that `pod_projection.parse` takes as `extra`.
    """

    label_keys: frozenset[str] | None = frozenset()
    paths: frozenset[str] = frozenset()

    def covers(self, other: "PodReadSet") -> bool:
        """Whether this includes all of the other."""
        keys = self.label_keys is None or (other.label_keys is not None and other.label_keys <= self.label_keys)
        return keys and other.paths <= self.paths

    def union(self, other: "PodReadSet") -> "PodReadSet":
        """The union of both."""
        keys = None if self.label_keys is None or other.label_keys is None else self.label_keys | other.label_keys
        return PodReadSet(keys, self.paths | other.paths)


def of_remote_plugins(infos: Iterable[plugin_pb2.PluginInfo]) -> PodReadSet:
    """What all of these plugins together read."""
    keys: frozenset[str] | None = frozenset()
    paths = set()
    for info in infos:
        own = pod_fields.label_keys(info.pod_fields)
        keys = None if keys is None or own is None else keys | own
        for path in info.pod_fields:
            parts = path.split("[", 1)[0].split(".")
            if len(parts) > 1 and parts[:2] != ["metadata", "labels"]:
                paths.add(path)
    return PodReadSet(keys, frozenset(paths))


def of_in_tree_plugins(fields: Sequence[str]) -> PodReadSet:
    """What in-tree plugins with these `pod_fields` read."""
    return PodReadSet(pod_fields.label_keys(fields), pod_projection.missing_fields(fields))
