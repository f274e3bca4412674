"""All devices of a snapshot: slices, classes, taint rules, what claims hold; and which of them each node sees.

There is one `DeviceInventory` a snapshot, in its store of derived values. It is brought up to date by what changed: a
slice is read again when it changes, a claim counted again, a node looked at again when its labels may be others.

Tests: tests/unit/plugins/dynamic_resources/test_inventory.py,
tests/unit/plugins/dynamic_resources/test_node_allocatable.py.
"""

import functools
import logging
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from trireme.plugin_kit import device_resources
from trireme.plugins.dynamic_resources import (
    allocated_devices,
    allocation_errors,
    devices,
    expressions,
    features,
    node_operations,
    node_views,
    pools,
    reserve_state,
    search_outcomes,
)
from trireme.snapshot import arrays, node_selection, objects, snapshot, snapshot_view
from trireme.v1 import resource_pb2

log = logging.getLogger(__name__)

SLICE = "resource_slice"
CLAIM = "resource_claim"
CLASS = "device_class"
RULE = "device_taint_rule"


# Outcomes are remembered for so many different specs of claims.
_REMEMBERED = 64


class DeviceInventory:
    """The devices, device classes and what claims hold of them, as of the snapshot; each snapshot has one."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot, on: features.Features) -> None:
        self._snap = weakref.proxy(snap)
        self._on = on
        self.selectors = expressions.CompiledExpressions()
        self._generation = -1
        self._rules_at = self._classes_at = -1
        self._slices: dict[str, devices.DeviceSlice] = {}
        self._held: dict[objects.Key, tuple[allocated_devices.ClaimedDevice, ...]] = {}
        # Allocated claims that consume less than nothing, and what is wrong with each.
        self._negative: dict[objects.Key, str] = {}
        self.views = node_views.NodeViews()
        # When a device of a pool was last taken, or given back; of pools that are there.
        self._touched: dict[devices.PoolId, int] = {}
        self.by_pool: dict[devices.PoolId, list[devices.DeviceSlice]] = {}
        # Outcomes for views, by the specs of claims; valid for `version` alone.
        self._remembered: OrderedDict[bytes, search_outcomes.OutcomeColumns] = OrderedDict()
        self._standing_for_resources = 0
        # Pools whose devices more than one node may reach.
        self._spread_pools: set[devices.PoolId] = set()
        self.allocated = allocated_devices.AllocatedDevices()
        self.classes: dict[str, resource_pb2.DeviceClass] = {}
        self.class_of_resource: dict[str, resource_pb2.DeviceClass] = {}
        # Claims made for extended resources, by the UID of their pod: several while one of them is being deleted.
        self._made_for: dict[str, dict[objects.Key, resource_pb2.ResourceClaim]] = {}
        self._owner: dict[objects.Key, str] = {}

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state."""
        if self._generation == snap.generation:
            return
        seen = self._generation
        self._apply_class_changes()
        self._apply_claim_changes(seen)
        if self._apply_slice_changes(seen):
            self._assign_views_to_slots(snap.nodes.live_slots())
        else:
            changed = snap.nodes.changed_since(seen, pods=False)
            self._assign_views_to_slots(changed[snap.nodes.alive[changed]])
        self._generation = snap.generation

    @property
    def stands_for_resources(self) -> bool:
        """Whether any device stands for a resource of its node, or costs some of one in addition."""
        return self._standing_for_resources > 0

    @property
    def is_node_local(self) -> bool:
        """Whether all slices of each pool name one node, so that no other node reaches its devices."""
        return not self._spread_pools

    def claim_made_for(self, uid: str) -> resource_pb2.ResourceClaim | None:
        """The claim that was made for the extended resources of the pod, the first one by name; None: there is none."""
        made = self._made_for.get(uid)
        return made[min(made)] if made else None

    def remembered_outcomes(self, claim_specs: bytes) -> search_outcomes.OutcomeColumns:
        """Outcomes of searches for claims of these specs."""
        found = self._remembered.get(claim_specs)
        if found is None:
            found = self._remembered[claim_specs] = search_outcomes.OutcomeColumns()
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        self._remembered.move_to_end(claim_specs)
        return found

    def pools(self, view: node_views.NodeView) -> tuple[pools.Pool, ...]:
        """Return the pools of a view; made at the first call."""
        if view.pools is None:
            view.pools = pools.gather_pools(view.slices, self.by_pool, self._on)
        return view.pools

    # Classes

    def _apply_class_changes(self) -> None:
        """Update the device classes; if one changed, remembered outcomes are dropped."""
        generation = self._snap.objects.last_change(CLASS)
        if generation == self._classes_at:
            return
        self._classes_at = generation
        self.views.touch_all(generation)
        self._remembered.clear()
        known: list[resource_pb2.DeviceClass] = list(self._snap.objects.all(CLASS))
        self.classes = {entry.metadata.name: entry for entry in known}
        self.class_of_resource = {
            device_resources.CLASS_RESOURCE_PREFIX + name: entry for name, entry in self.classes.items()
        }
        # The newest class for a resource counts, and among equals the first by name.
        for entry in sorted(known, key=lambda entry: entry.metadata.name, reverse=True):
            name = entry.spec.extended_resource_name
            if name and (
                name not in self.class_of_resource
                or _older_class_first(entry) >= _older_class_first(self.class_of_resource[name])
            ):
                self.class_of_resource[name] = entry

    # Claims

    def _apply_claim_changes(self, seen: int) -> None:
        """Count the devices of claims that changed after the generation `seen`; of all, if that is too long ago."""
        keys = self._snap.objects.changed_since(CLAIM, seen)
        if keys is None:
            self._held.clear()
            self._negative.clear()
            self._made_for.clear()
            self._owner.clear()
            self.allocated = allocated_devices.AllocatedDevices()
            self._remembered.clear()
            claims = self._snap.objects.all(CLAIM)
            keys = [(claim.metadata.namespace, claim.metadata.name) for claim in claims]
        for key in keys:
            self._count_claim_devices(key, self._snap.objects.get(CLAIM, *key))

    def _count_claim_devices(self, key: objects.Key, claim: resource_pb2.ResourceClaim | None) -> None:
        """Count the devices that the claim holds now in place of those that it held; None: the claim is gone."""
        before = self._held.pop(key, ())
        self._negative.pop(key, None)
        for claimed in before:
            self.allocated.remove(claimed)
            self._touch_pool(claimed.device[:2])
        owner_uid = self._owner.pop(key, None)
        if owner_uid is not None:
            del self._made_for[owner_uid][key]
            if not self._made_for[owner_uid]:
                del self._made_for[owner_uid]
        if claim is None:
            return
        if claim.status.HasField("allocation"):
            allocation, on = claim.status.allocation, self._on
            now = tuple(allocated_devices.claimed_devices(allocation, on.consumable, on.corrected))
            self._held[key] = now
            negative = allocated_devices.negative_consumption(allocation)
            if negative and on.consumable and not on.corrected:
                self._negative[key] = f"claim {allocation_errors.claim_name(claim)}, {negative}"
            for claimed in now:
                self.allocated.add(claimed)
                self._touch_pool(claimed.device[:2])
        if claim.metadata.annotations.get(reserve_state.EXTENDED_CLAIM) == "true":
            owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
            if owner is not None:
                self._made_for.setdefault(owner.uid, {})[key] = claim
                self._owner[key] = owner.uid

    @property
    def allocation_problem(self) -> str:
        """Why it is not known what is in use: allocated claims consume less than nothing. Empty: it is known."""
        if not self._negative:
            return ""
        more = len(self._negative) - 1
        rest = f" (and {more} more claims with invalid consumed capacity)" if more else ""
        return min(self._negative.values()) + rest

    def _touch_pool(self, pool: devices.PoolId) -> None:
        """Note that a device of the pool is taken or given back; a pool that is not there yet is seen with that."""
        if pool in self.by_pool:
            self._touched[pool] = self._snap.generation
            self.views.touch(pool, self._snap.generation)

    # Slices

    def _apply_slice_changes(self, seen: int) -> bool:
        """Read slices that changed after the generation `seen`; return whether nodes' views have to be found anew.

        Where taint rules changed, all slices are read. The views' pools of changed slices are dropped.
        """
        table = self._snap.objects
        rules_at = table.last_change(RULE) if self._on.taint_rules else 0
        keys = table.changed_since(SLICE, seen)
        if rules_at != self._rules_at:
            self._rules_at, keys = rules_at, None
        everything = keys is None
        if keys is None:
            self._slices.clear()
            self._standing_for_resources = 0
            self._touched.clear()
            self._spread_pools.clear()
            self.by_pool.clear()
            self.views = node_views.NodeViews()
            self._remembered.clear()
            keys = [("", entry.metadata.name) for entry in table.all(SLICE)]
        rules = list(table.all(RULE)) if self._on.taint_rules else []
        changed: set[devices.PoolId] = set()
        for _, name in keys:
            changed |= self._replace_slice(name, table.get(SLICE, "", name), rules)
        for pool in changed:
            if pool not in self.by_pool:
                self._touched.pop(pool, None)
            nodes = {entry.placement.node_name for entry in self.by_pool.get(pool, ())}
            if len(nodes) > 1 or "" in nodes:
                self._spread_pools.add(pool)
            else:
                self._spread_pools.discard(pool)
        # A node that sees none of these pools keeps what it knows.
        for gone in self.views.drop_views_of(changed):
            for found in self._remembered.values():
                found.forget(gone)
        return bool(keys) or everything or seen < 0

    def _replace_slice(
        self, name: str, message: resource_pb2.ResourceSlice | None, rules: list[resource_pb2.DeviceTaintRule]
    ) -> set[devices.PoolId]:
        """Read the slice, or drop it (None); returns the pools that it belongs, or belonged, to.

        One that cannot be read is left out, with a warning: its pool is incomplete then.
        """
        concerned = set()
        old = self._slices.pop(name, None)
        if old is not None:
            concerned.add(old.pool)
            self._standing_for_resources -= old.stands_for_resources
            self.by_pool[old.pool].remove(old)
            if not self.by_pool[old.pool]:
                del self.by_pool[old.pool]
        if message is None:
            return concerned
        try:
            entry = devices.read_slice(message, rules, corrected=self._on.corrected)
        except ValueError as error:
            # Its pool is incomplete without it; nothing else suffers.
            log.warning("resourceslice %s: %s; it is left out until its driver corrects it", name, error)
            return concerned
        self._slices[name] = entry
        self._standing_for_resources += entry.stands_for_resources
        self.by_pool.setdefault(entry.pool, []).append(entry)
        return {*concerned, entry.pool}

    # Views

    def _assign_views_to_slots(self, slots: arrays.SlotArray) -> None:
        """Find out what these slots' nodes see, and store it as their views.

        A slice is seen by every node, by those that it names or selects, or by each device for itself.
        """
        self.views.ensure_slots(self._snap.nodes.size)
        if not slots.size:
            return
        names: dict[int, list[str]] = {slot: [] for slot in slots.tolist()}
        reached: dict[int, list[devices.DeviceId]] = {}
        # The problem of the first slice by name counts.
        problems: dict[int, tuple[str, str]] = {}
        everywhere = []
        for name, entry in self._slices.items():
            if not pools.is_usable(entry, self._on):
                continue
            on_all = entry.placement.all_nodes and not entry.placement.node_name
            if on_all:
                everywhere.append(name)
            elif entry.placement.problem:
                text = f"failed to perform node selection for slice {name}: {entry.placement.problem}"
                _keep_first_problem(problems, names, name, text)
            elif entry.placement.is_set:
                for slot in self._slots_of_placement(entry.placement, slots, names):
                    names[slot].append(name)
            else:
                self._find_reachable_devices(entry, slots, names, reached, problems)
        supporting = self._slots_declaring_skips(slots) if self._on.optional_node_operations else frozenset[int]()
        for slot in slots.tolist():
            seen = tuple(sorted([*names[slot], *everywhere]))
            reaches = frozenset(reached.get(slot, ()))
            key = seen, reaches, slot in supporting, problems.get(slot, ("", ""))[1]
            self.views.assign(slot, key, functools.partial(self._make_view, key), self._version_of_new_view)

    def _slots_declaring_skips(self, slots: arrays.SlotArray) -> frozenset[int]:
        declared = node_operations.declares_skipping(self._snap.nodes, slots)
        return frozenset(slots[declared].tolist())

    def _find_reachable_devices(
        self,
        entry: devices.DeviceSlice,
        slots: arrays.SlotArray,
        names: Mapping[int, list[str]],
        reached: dict[int, list[devices.DeviceId]],
        problems: dict[int, tuple[str, str]],
    ) -> None:
        """List a slice whose devices state for themselves where they are on the slots that reach any of them.

        Adds to `names`, `reached` and `problems`. A device whose place is unknown is a problem on slots that reach none
        before it.
        """
        seen: set[int] = set()
        for device in entry.devices:
            if device.placement.problem:
                where = f"failed to perform node selection for device {device.id[2]} in slice {entry.name}"
                _keep_first_problem(problems, names.keys() - seen, entry.name, f"{where}: {device.placement.problem}")
            for slot in self._slots_of_placement(device.placement, slots, names):
                reached.setdefault(slot, []).append(device.id)
                seen.add(slot)
        for slot in seen:
            names[slot].append(entry.name)

    def _slots_of_placement(
        self, placement: devices.DevicePlacement, slots: arrays.SlotArray, looking: Mapping[int, list[str]]
    ) -> list[int]:
        """Those of the slots that it is about; `looking` has them all."""
        nodes = self._snap.nodes
        if placement.node_name:
            slot = nodes.slot_of_name.get(placement.node_name)
            return [slot] if slot is not None and slot in looking else []
        if placement.all_nodes:
            return list(slots.tolist())
        if not placement.terms:
            return []
        return list(slots[node_selection.matches_any(nodes, placement.terms, slots)].tolist())

    def _make_view(self, key: node_views.ViewKey, number: int) -> node_views.NodeView:
        """Make the view of nodes that see the same."""
        slices = tuple(self._slices[name] for name in key[0])
        pool_ids = frozenset(entry.pool for entry in slices)
        return node_views.NodeView(number, slices, key[1], pool_ids, key[2], key[3])

    def _version_of_new_view(self, view: node_views.NodeView) -> int:
        """When a device of the view was last allocated or freed, or device classes changed."""
        return max(self._classes_at, *(self._touched.get(pool, 0) for pool in view.pool_ids), 0)


def _keep_first_problem(problems: dict[int, tuple[str, str]], slots: Iterable[int], name: str, text: str) -> None:
    """Note a problem on the slots, unless one of a slice earlier by name is noted there."""
    for slot in slots:
        if slot not in problems or name < problems[slot][0]:
            problems[slot] = name, text


def _older_class_first(entry: resource_pb2.DeviceClass) -> tuple[int, int]:
    """Return the sort key by which the older device class comes first."""
    created = entry.metadata.creation_timestamp
    return created.seconds, created.nanos


def inventory_of(snap: snapshot_view.SnapshotView, on: features.Features) -> DeviceInventory:
    """The snapshot's inventory, at the snapshot's generation."""
    return snap.derived(("device_inventory", on), lambda base: DeviceInventory(base, on))
