"""The classes of a snapshot as a class registry knows them, so that pods that are added find their class.

A snapshot has of each class the pod that its pods have in common. That is all that the registry needs, but for one
thing: of labels that no selector uses, a snapshot knows only whether there are any. So a class can be made here,
without the frontend, unless a pod selects by a label key that nothing in the cluster selects by: which of the others
have that label, only the frontend can say.

Tests: tests/unit/simulation/test_pods_of_nodes.py.
"""

from dataclasses import dataclass

from trireme.cache import class_registry, object_kinds
from trireme.cache.pod_projection import Labels
from trireme.simulation import lazy_table
from trireme.snapshot import classes, snapshot
from trireme.v1 import core_pb2

#: Stands for labels that no selector uses: no pod that a cluster accepts has a key with this many slashes.
UNKNOWN_LABEL = ("//", "")

SELECTING_KINDS = tuple(kind.field for kind in object_kinds.KINDS)
"""The kinds whose objects may select pods."""

# Pods of each class, so that none is dropped.
_MANY = 1 << 30


class UnknownLabelKeyError(ValueError):
    """A selector uses label keys that a snapshot does not index."""

    def __init__(self, keys: frozenset[str]) -> None:
        named = ", ".join(sorted(keys))
        super().__init__(
            f"no selector in the cluster uses the label key {named}, so insight does not know which pods have it: "
            "select by another key, or create the selector first (in a Service, say)"
        )


@dataclass(frozen=True, slots=True)
class KnownClasses:
    """The classes of a snapshot at one generation of its classes; shared by all copies of the cluster."""

    bases: dict[bytes, int]
    texts: dict[int, bytes]
    identities: dict[int, class_registry.ClassIdentity]
    numbers: dict[class_registry.ClassIdentity, int]
    classes: dict[int, classes.PodClass]
    keys: frozenset[str]
    #: The first number that no class has, or will get from the frontend soon.
    next_class: int

    def contents(self, keys: frozenset[str]) -> class_registry.RegistryContents:
        """Tables for a registry of its own, which distinguishes these label keys, too."""

        def base_entry(number: int) -> class_registry.BaseEntry:
            text = self.texts[number]
            return class_registry.BaseEntry(core_pb2.Pod.FromString(text), [text], 1)

        def entry(number: int) -> class_registry.ClassEntry:
            known = self.classes[number]
            return class_registry.ClassEntry(
                number, self.identities[number], known.pod, known.labels_projected, _MANY, pod_class=known
            )

        return class_registry.RegistryContents(
            bases=lazy_table.LazyTable(self.bases, self.bases.__getitem__),
            base_entries=lazy_table.LazyTable(self.texts, base_entry),
            ids=lazy_table.LazyTable(self.numbers, self.numbers.__getitem__),
            entries=lazy_table.LazyTable(self.classes, entry),
            next_base=len(self.texts) + 1,
            next_class=self.next_class,
            keys=self.keys | keys,
        )

    def base_of(self, class_id: int) -> int:
        """The number of the base of a class."""
        return self.identities[class_id][0]

    def labels_of(self, class_id: int) -> Labels:
        """The labels of a pod of the class, as far as they are known."""
        known = self.classes[class_id]
        labels = self.identities[class_id][1]
        return (*labels, UNKNOWN_LABEL) if known.labels_projected else labels


def of_snapshot(snap: snapshot.Snapshot) -> KnownClasses:
    """The classes of the snapshot."""
    bases: dict[bytes, int] = {}
    texts: dict[int, bytes] = {}
    identities: dict[int, class_registry.ClassIdentity] = {}
    keys: set[str] = set()
    for number, known in snap.classes.items():
        text, labels, selected = known.memo("known_classes", _parts)
        base = bases.get(text)
        if base is None:
            base = bases[text] = len(bases) + 1
            texts[base] = text
        identities[number] = base, labels, not labels and not known.labels_projected
        keys.update(selected)
    for kind in object_kinds.KINDS:
        for each in snap.objects.all(kind.field):
            keys.update(kind.selected_keys(each))
    numbers = {identity: number for number, identity in identities.items()}
    return KnownClasses(bases, texts, identities, numbers, dict(snap.classes), frozenset(keys), snap.highest_class + 1)


def _parts(known: classes.PodClass) -> tuple[bytes, Labels, frozenset[str]]:
    """The base of a class as bytes, its labels, and the label keys that it shows to be distinguished."""
    labels = tuple(sorted(known.pod.metadata.labels.items()))
    selected = class_registry.selected_keys(known.pod) | {key for key, _ in labels}
    return base_text(known.pod), labels, frozenset(selected)


def base_text(pod: core_pb2.Pod) -> bytes:
    """The base of this pod's class: the class without labels, as bytes."""
    out = core_pb2.Pod()
    out.CopyFrom(pod)
    out.metadata.ClearField("labels")
    return out.SerializeToString(deterministic=True)
