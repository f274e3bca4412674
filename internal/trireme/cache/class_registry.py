"""The registry of pod classes: pods that are equal in every field the enabled plugins read share one number.

A class is a base (everything but labels, see pod_projection) plus the labels whose keys some selector uses. The set of
keys only grows; when it does, the caller interns the pods that carry the new key again. A class without pods stays for
a while, since the next pod of its controller may come, and is then dropped; its number is never reused.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from trireme.cache.pod_projection import Labels
from trireme.framework import amounts, resizes
from trireme.snapshot import classes
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import normalization

# How many classes without pods to keep.
IDLE_CLASSES = 1024

# What makes pods one class: a base, the selected labels, and whether the pod has no labels at all (a budget protects no
# pod without labels).
ClassIdentity = tuple[int, Labels, bool]


_ResourceStatusField = Literal[
    "conditions",
    "container_statuses",
    "init_container_statuses",
    "allocated_resources",
    "resources",
    "node_allocatable_resource_claim_statuses",
]
_RESOURCE_STATUS_FIELDS: tuple[_ResourceStatusField, ...] = get_args(_ResourceStatusField)
"""The parts of a pod's status that resource arithmetic reads (`framework/amounts.py`)."""


class InvalidPod(ValueError):
    """The pod's scheduling fields are invalid; the text names the field."""


@dataclass(slots=True)
class ClassEntry:
    """One class of pods.

    `pod` is its message; `pods` counts the placed and pending pods that belong to it. Derived from its pod, when it is
    asked for: `pod_class` for hints (queueing/hints/cluster_view.py), and `most_in_turn`, how many of its pods may wait
    together to be placed in turn. `tried`: a pod of the class came up in the queue before.
    """

    id: int
    identity: ClassIdentity
    pod: core_pb2.Pod
    projected: bool
    pods: int = 0
    pod_class: classes.PodClass | None = None
    most_in_turn: int | None = None
    tried: bool = False


@dataclass(slots=True)
class BaseEntry:
    """The message of several classes without labels, its byte strings, and the number of classes."""

    pod: core_pb2.Pod
    texts: list[bytes] = field(default_factory=list)
    classes: int = 0


@dataclass(frozen=True, slots=True)
class RegistryContents:
    """The classes of a registry, for another one that goes on with them and may change these tables.

    Each class has at least one pod. `keys` are the label keys that are distinguished.
    """

    bases: dict[bytes, int]
    base_entries: dict[int, BaseEntry]
    ids: dict[ClassIdentity, int]
    entries: dict[int, ClassEntry]
    next_base: int
    next_class: int
    keys: frozenset[str]


class ClassRegistry:
    """Assigns pods to classes: their base (all fields but labels) and the labels that some selector uses."""

    def __init__(
        self,
        idle_classes: int = IDLE_CLASSES,
        *,
        all_labels: bool = False,
        rules: amounts.Rules = amounts.DEFAULT_RULES,
        keep_deferred: bool = False,
    ) -> None:
        """The arguments say what classes distinguish.

        `all_labels`: all labels of a pod, because a plugin reads all. `rules`: how pods are counted. `keep_deferred`:
        pods whose resize is deferred. Simulations do without: their pods are of the classes that they have in the
        cluster, or of manifests, whose status is not read.
        """
        self.rules = rules
        self.keep_deferred = keep_deferred
        self._all_labels = all_labels
        self._idle_limit = idle_classes
        self._bases: dict[bytes, int] = {}
        self._base_entries: dict[int, BaseEntry] = {}
        self._next_base = 1
        self._next_class = 1
        self._ids: dict[ClassIdentity, int] = {}
        self._entries: dict[int, ClassEntry] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._keys: set[str] = set()
        self._added: dict[int, ClassEntry] = {}  # since the last delta, of those that still exist
        self._removed: list[int] = []  # since the last delta, of those that it had
        self._projections: dict[Labels, Labels] = {}
        self._new_keys: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, class_id: int) -> ClassEntry:
        return self._entries[class_id]

    def resume(self, contents: "RegistryContents") -> None:
        """Begin with the classes of another registry. They keep their numbers, and none of them counts as added."""
        self._bases, self._base_entries = contents.bases, contents.base_entries
        self._ids, self._entries = contents.ids, contents.entries
        self._next_base, self._next_class = contents.next_base, contents.next_class
        self._keys = set(contents.keys)

    def pod_of(self, class_id: int, base: bytes, labels: Labels) -> core_pb2.Pod:
        """A copy of the class's message, for a pod with this base and these labels.

        The pod may have been deleted, and its class dropped, since it was popped.
        """
        pod = core_pb2.Pod()
        entry = self._entries.get(class_id)
        if entry is not None:
            pod.CopyFrom(entry.pod)
        else:
            pod.ParseFromString(base)
            normalization.normalize(pod)
            pod.metadata.labels.update(dict(self._selected_labels(labels)))
        return pod

    def base_text(self, base: int) -> bytes:
        """The base with this number, as `intern_base` takes it."""
        return self._base_entries[base].texts[0]

    def is_of_one_pod(self, class_id: int) -> bool:
        """Whether the class contains its pod's name, because claims are named after the pod."""
        return bool(class_id) and bool(self[class_id].pod.metadata.uid)

    def intern_base(self, base: bytes) -> int:
        """Intern a base. Raises: InvalidPod."""
        number = self._bases.get(base)
        if number is None:
            number = self._bases[base] = self._new_base(base)
            self._base_entries[number].texts.append(base)
        return number

    def base_with_claims(self, base: int, statuses: Sequence[core_pb2.NodeAllocatableResourceClaimStatus]) -> int:
        """The base that equals this one but takes these resources for its claims."""
        pod = core_pb2.Pod()
        pod.CopyFrom(self._base_entries[base].pod)
        del pod.status.node_allocatable_resource_claim_statuses[:]
        pod.status.node_allocatable_resource_claim_statuses.extend(statuses)
        return self.intern_base(pod.SerializeToString(deterministic=True))

    def intern(self, base: int, labels: Labels) -> int:
        """Return the class of a base and a pod's labels, and count one more pod in it."""
        key = (base, self._selected_labels(labels), not labels)
        class_id = self._ids.get(key)
        if class_id is None:
            class_id = self._new_class(key, len(key[1]) < len(labels))
        entry = self._entries[class_id]
        if entry.pods == 0:
            self._idle.pop(class_id, None)
        entry.pods += 1
        return class_id

    def release(self, class_id: int) -> None:
        """Count one pod fewer in the class."""
        entry = self._entries[class_id]
        entry.pods -= 1
        if entry.pods == 0:
            self._idle[class_id] = None
            while len(self._idle) > self._idle_limit:
                self._drop_class(self._idle.popitem(last=False)[0])

    def add_selector_keys(self, keys: Iterable[str]) -> None:
        """Add label keys that selectors use."""
        new = set(keys) - self._keys
        if new:
            self._keys |= new
            self._new_keys |= new
            self._projections.clear()

    @property
    def uses_all_labels(self) -> bool:
        """Whether all labels take part."""
        return self._all_labels

    def use_all_labels(self) -> None:
        """Distinguish pods by all labels from now on. The caller must intern all pods again."""
        self._all_labels = True
        self._projections.clear()

    def take_new_selector_keys(self) -> frozenset[str]:
        """Return the keys added since the last call; pods that carry one must be interned again."""
        new = frozenset(self._new_keys)
        self._new_keys.clear()
        return new

    def take_changes(self) -> tuple[list[ClassEntry], list[int]]:
        """Return the classes added and removed since the last call; one that was both is in neither list."""
        added, removed = list(self._added.values()), self._removed
        self._added, self._removed = {}, []
        return added, removed

    def entries(self) -> Iterable[ClassEntry]:
        """All classes."""
        return self._entries.values()

    def _selected_labels(self, labels: Labels) -> Labels:
        """The labels that tell classes apart: those whose key some selector uses, or all."""
        projected = self._projections.get(labels)
        if projected is None:
            projected = tuple(pair for pair in labels if self._all_labels or pair[0] in self._keys)
            # Each pod of a StatefulSet has a label of its own: bound the table.
            if len(self._projections) >= 4 * self._idle_limit:
                self._projections.clear()
            self._projections[labels] = projected
        return projected

    def _new_base(self, base: bytes) -> int:
        """Number a new base. One whose status only reports what is requested gets the plain one's number.

        Raises: InvalidPod.
        """
        pod = core_pb2.Pod.FromString(base)
        try:
            normalization.normalize(pod)
        except ValueError as error:
            raise InvalidPod(str(error)) from error
        if pod.HasField("status") and not (self.keep_deferred and resizes.is_deferred(pod.status)):
            plain = _without_resources_in_status(pod)
            if plain != pod and amounts.pod_amounts(plain, self.rules) == amounts.pod_amounts(pod, self.rules):
                # The kubelet reports exactly the requested resources: use the class without the report.
                return self.intern_base(plain.SerializeToString(deterministic=True))
        number = self._next_base
        self._next_base += 1
        self._base_entries[number] = BaseEntry(pod)
        return number

    def _new_class(self, key: ClassIdentity, projected: bool) -> int:
        """Number a new class, and have the label keys that its pods select by distinguished too."""
        class_id = self._next_class
        self._next_class += 1
        pod = core_pb2.Pod()
        pod.CopyFrom(self._base_entries[key[0]].pod)
        pod.metadata.labels.update(dict(key[1]))
        self.add_selector_keys(selected_keys(pod))
        entry = ClassEntry(class_id, key, pod, projected)
        self._ids[key] = class_id
        self._entries[class_id] = entry
        self._base_entries[key[0]].classes += 1
        self._added[class_id] = entry
        return class_id

    def _drop_class(self, class_id: int) -> None:
        """Remove a class without pods, and its base with its last class."""
        entry = self._entries.pop(class_id)
        del self._ids[entry.identity]
        if self._added.pop(class_id, None) is None:
            self._removed.append(class_id)
        number = entry.identity[0]
        base = self._base_entries[number]
        base.classes -= 1
        if base.classes == 0:
            del self._base_entries[number]
            for text in base.texts:
                del self._bases[text]


def selected_keys(pod: core_pb2.Pod) -> set[str]:
    """Return the label keys by which the pod selects other pods: in affinities and spread constraints."""
    keys: set[str] = set()
    spec = pod.spec
    affinity = spec.affinity if spec.HasField("affinity") else None
    for either in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        terms = list(either.required_during_scheduling_ignored_during_execution)
        preferred = either.preferred_during_scheduling_ignored_during_execution
        terms += [weighted.pod_affinity_term for weighted in preferred]
        for term in terms:
            keys.update(term.label_selector.match_labels)
            keys.update(expression.key for expression in term.label_selector.match_expressions)
    for constraint in spec.topology_spread_constraints:
        keys.update(constraint.label_selector.match_labels)
        keys.update(expression.key for expression in constraint.label_selector.match_expressions)
        keys.update(constraint.match_label_keys)
    return keys


def _without_resources_in_status(pod: core_pb2.Pod) -> core_pb2.Pod:
    """The pod without the resources in force in its status."""
    plain = core_pb2.Pod()
    plain.CopyFrom(pod)
    for name in _RESOURCE_STATUS_FIELDS:
        plain.status.ClearField(name)
    if not plain.status.ListFields():
        plain.ClearField("status")
    return plain
