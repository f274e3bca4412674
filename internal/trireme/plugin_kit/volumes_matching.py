"""Which volumes the claims of a class get on every node, and where they would have to be made.

The claims of a class are sorted out once (bound, waiting for a node, refused). Then each claim is matched on all slots
at once: the volumes it could take are few kinds of reach, each a set of slots, and a volume that an earlier claim of
the pod took on a slot is not there any more for a later one. What Filter refuses, Score rates and Reserve assumes are
three readings of the same answer.

Where kube-scheduler's choice depends on the order in which its caches happen to list objects (volumes of one size,
several reports of free storage for one node), the first by name is taken here.
Source: pkg/scheduler/framework/plugins/volumebinding (binder), k8s.io/component-helpers/storage/volume.

Also change: internal/trireme/simulation/submission/claims.py, internal/trireme_kube/embedded/registry/admission.py,
internal/trireme_kube/embedded/controllers/persistent_volumes.py (rules for claims without a class).

Tests: tests/unit/plugin_kit/test_volumes_matching.py, tests/conformance/test_decisions.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.framework import label_selectors
from trireme.plugin_kit import volumes_claims, volumes_index, volumes_nodes, volumes_objects, volumes_translation
from trireme.snapshot import arrays, classes, snapshot_view
from trireme.v1 import core_pb2

NONE = -1
_NOT_OFFERED = -2

# Bits of VolumeMatches.conflicts, in the order of their reasons.
NODE_CONFLICT = 1
BIND_CONFLICT = 2
NOT_ENOUGH_SPACE = 4
NO_VOLUME = 8

_FILESYSTEM = "Filesystem"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimError(Exception):
    """The claims cannot be sorted out: an error, not a refusal."""


@dataclass(frozen=True, slots=True)
class PodClaims:
    """A class's claims: bound ones, ones that wait for a node, and others, which should have been bound before."""

    bound: tuple[core_pb2.PersistentVolumeClaim, ...] = ()
    delayed: tuple[core_pb2.PersistentVolumeClaim, ...] = ()
    immediate: tuple[core_pb2.PersistentVolumeClaim, ...] = ()


def pod_claims(pod_class: classes.PodClass, snap: snapshot_view.SnapshotView) -> PodClaims:
    """The claims of a class, all of which exist. Raises: ClaimError."""
    bound, delayed, immediate = [], [], []
    for use in volumes_claims.claims_of(pod_class):
        claim = volumes_claims.find_claim(snap, pod_class.namespace, use.name)
        if claim is None:
            raise ClaimError(f'error getting PVC "{pod_class.namespace}/{use.name}": could not find it')
        if volumes_objects.fully_bound(claim):
            bound.append(claim)
        elif _is_binding_delayed(claim, snap) and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _is_binding_delayed(claim: core_pb2.PersistentVolumeClaim, snap: snapshot_view.SnapshotView) -> bool:
    """Whether the claim's storage class waits for the first pod. Raises: ClaimError if the class does not say."""
    name = volumes_objects.storage_class_of_claim(claim)
    storage_class = volumes_claims.find_storage_class(snap, name) if name else None
    if storage_class is None:
        return False
    if not storage_class.HasField("volume_binding_mode"):
        raise ClaimError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == volumes_objects.WAIT_FOR_FIRST_CONSUMER


@dataclass(slots=True)
class StaticBindings:
    """A claim that takes existing volumes: `chosen` is an index into `volumes` or NONE. Shape: chosen (slot,)."""

    claim: core_pb2.PersistentVolumeClaim
    chosen: arrays.Int32Array
    volumes: list[volumes_index.IndexedVolume] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number_of(self, name: str) -> int:
        """By which number the volume of this name would be chosen; one that no slot has where it is not among them."""
        if len(self._numbers) != len(self.volumes):
            self._numbers = {volume.name: number for number, volume in enumerate(self.volumes)}
        return self._numbers.get(name, _NOT_OFFERED)


@dataclass(slots=True)
class DynamicProvisions:
    """A claim that is to be provisioned where `needed`.

    `reported` is an index into `capacities`, NONE where free storage is not looked at. Shapes: needed and reported
    (slot,).
    """

    claim: core_pb2.PersistentVolumeClaim
    needed: arrays.BoolArray
    capacities: list[volumes_index.IndexedCapacity]
    reported: arrays.Int32Array


@dataclass(slots=True)
class VolumeMatches:
    """The answer. Shapes: conflicts and error (slot,); `error` counts from 1 in `errors`."""

    conflicts: arrays.UInt8Array
    error: arrays.Int16Array
    errors: list[str] = field(default_factory=list)
    static: list[StaticBindings] = field(default_factory=list)
    dynamic: list[DynamicProvisions] = field(default_factory=list)

    @property
    def open(self) -> arrays.BoolArray:
        """Slots without an error so far."""
        return self.error == 0

    def set_error(self, where: arrays.BoolArray, text: str) -> None:
        """Set the error of these slots, unless they had one before."""
        if where.any():
            self.errors.append(text)
            self.error[where & self.open] = len(self.errors)


def match_volumes(claims: PodClaims, snap: snapshot_view.SnapshotView) -> VolumeMatches:
    """What becomes of the claims on each slot."""
    size = snap.nodes.size
    matches = VolumeMatches(np.zeros(size, dtype=np.uint8), np.zeros(size, dtype=np.int16))
    matcher = _ClaimMatcher(snap, matches)
    matcher.check_bound_claims(claims.bound)
    if claims.delayed:
        matcher.match_or_provision_delayed_claims(claims.delayed)
    return matches


def may_take_volumes(claims: PodClaims, snap: snapshot_view.SnapshotView) -> bool:
    """Whether there are volumes that one of the waiting claims may take: other pods lose those, on any node."""
    index = volumes_index.volume_index_of(snap)
    return any(
        bool(index.volumes_reserved_for(claim))
        or any(index.available_volumes(volumes_objects.storage_class_of_claim(claim), _requested_size(claim)))
        for claim in claims.delayed
    )


class _ClaimMatcher:
    """Matches one pod's claims with volumes on all slots at once, and writes what it finds into VolumeMatches."""

    def __init__(self, snap: snapshot_view.SnapshotView, matches: VolumeMatches) -> None:
        self._snap = snap
        self._index = volumes_index.volume_index_of(snap)
        self._matches = matches
        self._size = snap.nodes.size

    def check_bound_claims(self, claims: Iterable[core_pb2.PersistentVolumeClaim]) -> None:
        """Find where the claims' volumes cannot be reached.

        The first claim that has something to say decides for a slot.
        """
        undecided = np.ones(self._size, dtype=np.bool_)
        for claim in claims:
            volume = volumes_claims.find_volume(self._snap, claim.spec.volume_name)
            if volume is None:
                self._matches.conflicts[undecided] |= NO_VOLUME
                return
            reached = self._slots_that_reach_volume(volume, undecided)
            self._matches.conflicts[undecided & ~reached & self._matches.open] |= NODE_CONFLICT
            undecided &= reached & self._matches.open

    def _slots_that_reach_volume(self, volume: core_pb2.PersistentVolume, where: arrays.BoolArray) -> arrays.BoolArray:
        """Return the slots from which a bound volume can be reached. Shape: (slot,).

        On nodes where the in-tree volume's plugin is migrated, its affinity counts as the driver states it; if that
        cannot be translated, the slots of `where` fail.
        """
        stated = volume.spec.node_affinity if volume.spec.HasField("node_affinity") else None
        reached = self._mask_of_slots(_slots_in_affinity(stated, self._snap, self._index))
        kind = volumes_translation.in_tree_kind_of_volume(volume)
        if kind is None or not kind.migrated:
            return reached
        migrated = self._index.csi.migrated(kind.plugin)[: self._size]
        if not (migrated & where).any():
            return reached
        try:
            translated = volumes_translation.translated_affinity(kind, volume)
        except volumes_translation.TranslationError as error:
            self._matches.set_error(where & migrated, f"could not translate pv: {error}")
            return reached
        return np.where(migrated, self._mask_of_slots(_slots_in_affinity(translated, self._snap, self._index)), reached)

    def match_or_provision_delayed_claims(self, claims: Sequence[core_pb2.PersistentVolumeClaim]) -> None:
        """Find existing volumes for claims that wait for a node, smallest claim first, or room to make them.

        A claim whose node is chosen refuses all other slots. An error with one claim ends the matching.
        """
        undecided = self._matches.open.copy()
        to_match: list[core_pb2.PersistentVolumeClaim] = []
        to_provision: list[tuple[core_pb2.PersistentVolumeClaim, arrays.BoolArray]] = []
        for claim in claims:
            node = claim.metadata.annotations.get(volumes_objects.SELECTED_NODE)
            if node is None:
                to_match.append(claim)
                continue
            slot = self._snap.nodes.slot_of_name.get(node, NONE)
            elsewhere = np.arange(self._size) != slot
            self._matches.conflicts[undecided & elsewhere] |= BIND_CONFLICT
            undecided &= ~elsewhere
            to_provision.append((claim, undecided))
        for claim in sorted(to_match, key=_requested_size):
            unmatched = self._match_claim(claim, undecided)
            if unmatched is None:
                return
            to_provision.append((claim, unmatched))
        for claim, needed in to_provision:
            needed = needed & undecided
            if needed.any():
                undecided &= self._provision_where_possible(claim, needed)

    # Existing volumes

    def _match_claim(
        self, claim: core_pb2.PersistentVolumeClaim, undecided: arrays.BoolArray
    ) -> arrays.BoolArray | None:
        """Choose a volume for the claim on each undecided slot; return where it has to be provisioned.

        None: its selector is invalid, and all undecided slots have failed.
        """
        try:
            selector = label_selectors.parse(claim.spec.selector)
        except label_selectors.InvalidSelectorError as error:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            self._matches.set_error(undecided, f"error creating internal label selector for claim: {name}: {error}")
            return None
        entry = StaticBindings(claim, np.full(self._size, NONE, dtype=np.int32))
        left = self._take_volume_with_claim_ref(entry, undecided)
        self._take_smallest_volumes(entry, selector, left)
        self._matches.static.append(entry)
        return undecided & (entry.chosen == NONE)

    def _take_volume_with_claim_ref(self, entry: StaticBindings, undecided: arrays.BoolArray) -> arrays.BoolArray:
        """Take the volume that names the claim, where it can be reached: no other will do. Returns the slots left."""
        left = undecided.copy()
        for volume in self._index.volumes_reserved_for(entry.claim):
            if volume.volume.metadata.HasField("deletion_timestamp") or not _has_what_claim_requests(
                volume, entry.claim
            ):
                continue
            if volume.storage_class != volumes_objects.storage_class_of_claim(entry.claim):
                continue
            here = left.copy()
            for earlier in self._matches.static:
                here &= earlier.chosen != earlier.number_of(volume.name)
            reached = here & self._mask_of_slots(_slots_that_reach(volume, self._snap, self._index))
            entry.volumes.append(volume)
            entry.chosen[reached] = len(entry.volumes) - 1
            left &= ~here
        return left

    def _take_smallest_volumes(
        self, entry: StaticBindings, selector: label_selectors.LabelSelector, left: arrays.BoolArray
    ) -> None:
        """Take the smallest free volume on each slot that is left, but none that a claim before it took there."""
        if not left.any():
            return
        found = list(self._candidate_volumes(entry.claim, selector))
        if not found:
            return
        slots = self._index.reach.of_many(((volume.reach_key, volume.terms) for volume in found), self._snap.generation)
        # Each pair of a volume and a slot from which it can be reached, best volumes first.
        where = np.concatenate(slots)
        which = np.repeat(np.arange(len(found), dtype=np.int32), [part.size for part in slots])
        possible = left[where]
        for earlier in self._matches.static:
            taken_as = np.array([earlier.number_of(volume.name) for volume in found], dtype=np.int32)
            possible &= earlier.chosen[where] != taken_as[which]
        # The last write to an element stands, so the best are written last.
        entry.chosen[where[possible][::-1]] = which[possible][::-1] + len(entry.volumes)
        entry.volumes.extend(found)

    def _candidate_volumes(
        self, claim: core_pb2.PersistentVolumeClaim, selector: label_selectors.LabelSelector
    ) -> Iterator[volumes_index.IndexedVolume]:
        """Free volumes that suit the claim, best first.

        Of equally reachable ones only as many as claims before this one can have taken, and one more.
        """
        most = len(self._matches.static) + 1
        seen: dict[bytes, int] = {}
        mode, attributes_class = claim.spec.volume_mode or _FILESYSTEM, claim.spec.volume_attributes_class_name
        access_modes = frozenset(claim.spec.access_modes)
        for volume in self._index.available_volumes(
            volumes_objects.storage_class_of_claim(claim), _requested_size(claim)
        ):
            if volume.mode != mode or volume.attributes_class != attributes_class:
                continue
            count = seen.get(volume.reach_key, 0)
            if count >= most or not access_modes <= volume.access_modes:
                continue
            if not selector.empty and not selector.matches(volume.volume.metadata.labels):
                continue
            seen[volume.reach_key] = count + 1
            yield volume
            if volume.terms is None and count + 1 >= most:
                return

    # Volumes to be made

    def _provision_where_possible(
        self, claim: core_pb2.PersistentVolumeClaim, needed: arrays.BoolArray
    ) -> arrays.BoolArray:
        """Have the claim provisioned where needed and possible; return where the pod can still go.

        It is impossible without a provisioner, outside the class's allowed topologies, or where too little capacity is
        reported.
        """
        name = volumes_objects.storage_class_of_claim(claim)
        storage_class = volumes_claims.find_storage_class(self._snap, name)
        if storage_class is None:
            self._matches.set_error(needed, f'failed to find storage class "{name}"')
            return ~needed
        if storage_class.provisioner in ("", _NO_PROVISIONER):
            self._matches.conflicts[needed] |= BIND_CONFLICT
            return ~needed
        allowed = volumes_nodes.allowed_terms(storage_class.allowed_topologies)
        possible = needed.copy()
        if allowed is not None:
            key = tuple(term.SerializeToString(deterministic=True) for term in storage_class.allowed_topologies)
            possible &= self._mask_of_slots(
                self._index.reach.of_terms(("allowed", key), allowed, self._snap.generation)
            )
        self._matches.conflicts[needed & ~possible] |= BIND_CONFLICT
        entry = DynamicProvisions(claim, possible, [], np.full(self._size, NONE, dtype=np.int32))
        if self._is_limited_by_capacity(claim, storage_class.provisioner):
            self._find_capacity(entry, name)
            scarce = possible & (entry.reported == NONE)
            self._matches.conflicts[scarce] |= NOT_ENOUGH_SPACE
            entry.needed = possible & ~scarce
        self._matches.dynamic.append(entry)
        return ~needed | entry.needed

    def _is_limited_by_capacity(self, claim: core_pb2.PersistentVolumeClaim, provisioner: str) -> bool:
        """Whether reported capacity limits where the claim can be provisioned: its driver reports some."""
        driver = self._snap.objects.get("csi_driver", "", provisioner)
        return "storage" in claim.spec.resources.requests and driver is not None and driver.spec.storage_capacity

    def _find_capacity(self, entry: DynamicProvisions, storage_class: str) -> None:
        """Set for each slot which reported capacity is large enough for the claim, the first in order; else NONE."""
        size = volumes_objects.storage_size(entry.claim.spec.resources.requests)
        wanted = 0 if size is None else size.nanos
        seen: set[bytes] = set()
        for capacity in self._index.capacities(storage_class):
            if capacity.largest_volume >= wanted and capacity.topology_key not in seen:
                seen.add(capacity.topology_key)
                entry.capacities.append(capacity)
        if not entry.capacities:
            return
        slots = self._index.reach.of_many(
            ((("capacity", capacity.topology_key), capacity.terms) for capacity in entry.capacities),
            self._snap.generation,
        )
        which = np.repeat(np.arange(len(slots), dtype=np.int32), [part.size for part in slots])
        # The last write to an element stands, so the first are written last.
        entry.reported[np.concatenate(slots)[::-1]] = which[::-1]

    def _mask_of_slots(self, slots: arrays.SlotArray | None) -> arrays.BoolArray:
        """The slots as a mask; None: all. Shape: (slot,)."""
        if slots is None:
            return np.ones(self._size, dtype=np.bool_)
        out = np.zeros(self._size, dtype=np.bool_)
        out[slots] = True
        return out


def _slots_in_affinity(
    affinity: core_pb2.VolumeNodeAffinity | None, snap: snapshot_view.SnapshotView, index: volumes_index.VolumeIndex
) -> arrays.SlotArray | None:
    """The slots that match; None: all."""
    terms = volumes_nodes.volume_terms(affinity)
    if terms is None or affinity is None:
        return None
    return index.reach.of_terms(affinity.SerializeToString(deterministic=True), terms, snap.generation)


def _slots_that_reach(
    volume: volumes_index.IndexedVolume, snap: snapshot_view.SnapshotView, index: volumes_index.VolumeIndex
) -> arrays.SlotArray | None:
    """The slots from which the volume can be reached; None: all."""
    if volume.terms is None:
        return None
    return index.reach.of_terms(volume.reach_key, volume.terms, snap.generation)


def _requested_size(claim: core_pb2.PersistentVolumeClaim) -> int:
    """How much storage the claim requests, in billionths of a byte; 0 if that cannot be read."""
    size = volumes_objects.storage_size(claim.spec.resources.requests)
    return 0 if size is None else size.nanos


def _has_what_claim_requests(volume: volumes_index.IndexedVolume, claim: core_pb2.PersistentVolumeClaim) -> bool:
    """Whether the volume has the size, the volume mode and the attributes class that the claim requests.

    Even a volume that names the claim must have them.
    """
    return (
        volume.size >= _requested_size(claim)
        and volume.mode == (claim.spec.volume_mode or _FILESYSTEM)
        and volume.attributes_class == claim.spec.volume_attributes_class_name
    )
