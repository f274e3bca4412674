"""What plugins read of the cluster when they filter: a snapshot, or one that is changed in thought.

Nodes, objects and classes are the same over both. What pods change is read through methods, so that an overlay can
answer for its own pods. Scorers and the engine read a `Snapshot`, whose columns they index.
"""

from collections.abc import Callable, Hashable
from typing import Protocol

from trireme.snapshot import arrays, classes, nodes, nominations, objects, pod_overlay, snapshot


class SnapshotView(Protocol):
    """The cluster as evaluation sees it, with or without supposed pods.

    Implementers: trireme.snapshot.overlay.SnapshotOverlay, trireme.snapshot.snapshot.Snapshot.
    """

    @property
    def base(self) -> snapshot.Snapshot:
        """The snapshot itself, or the one below the overlay."""
        ...

    @property
    def overlaid_pods(self) -> pod_overlay.OverlaidPods | None:
        """The pods that the overlay removes and adds; None: this is no overlay."""
        ...

    @property
    def dry_run(self) -> pod_overlay.OverlaidPods | None:
        """The overlaid pods where plugins are to answer as after AddPod and RemovePod of kube-scheduler; else None."""
        ...

    @property
    def generation(self) -> int:
        """The generation of the snapshot."""
        ...

    @property
    def nodes(self) -> nodes.NodeTable:
        """The nodes. Filters read the columns of used resources and of pods through the methods below."""
        ...

    @property
    def objects(self) -> objects.ObjectTable:
        """All objects other than nodes and pods."""
        ...

    @property
    def classes(self) -> dict[int, classes.PodClass]:
        """The classes by number."""
        ...

    @property
    def class_capacity(self) -> int:
        """One more than the highest index of a class so far."""
        ...

    @property
    def nominations(self) -> nominations.Nominations:
        """The nominated pods."""
        ...

    def last_change(self, kinds: tuple[str, ...]) -> int:
        """The last change of any of the kinds; see Snapshot.last_change."""
        ...

    def class_mask(self, class_ids: list[int]) -> arrays.BoolArray:
        """A mask of the classes with these numbers; none may be gone. Shape: (class,)."""
        ...

    def derived(
        self, key: Hashable, make: "Callable[[snapshot.Snapshot], snapshot.Entry]", of_class: int | None = None
    ) -> "snapshot.Entry":
        """The value that is derived from `base` under this key. If it counts pods, adjust it for `overlaid_pods`.

        Where `make` holds a class, `of_class` is its number: the value is dropped with it.
        """
        ...

    def requested(self, resource: int, slots: arrays.SlotArray) -> arrays.Int64Array:
        """What the pods of each slot request of the resource. Read-only. Shape: as `slots`."""
        ...

    def pod_count(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The number of pods on each slot. Read-only. Shape: as `slots`."""
        ...

    def count_pods(self, chosen: arrays.BoolArray) -> arrays.Int64Array:
        """The number of pods of the marked classes on each slot. Shapes: chosen (class,), result (slot,)."""
        ...

    def placed_pods(self, chosen: arrays.BoolArray) -> tuple[arrays.Int32Array, arrays.Int32Array]:
        """Class number and slot of each pod of the marked classes. Shapes: chosen (class,), results (pod,)."""
        ...

    def class_of_pod(self, uid: str, slot: int) -> int | None:
        """The number of the class of the pod with this UID on the slot; None if it is not there."""
        ...
