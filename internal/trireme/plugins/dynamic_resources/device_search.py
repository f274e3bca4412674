"""The search for the devices of a class's claims on nodes, as Filter, Score and Reserve need it.

The outcome of a search depends on the snapshot alone: the same search on the same snapshot has the same result, so that
nothing has to be carried from one to the other. Outcomes are kept with the version of what their nodes see in the
inventory, and searched anew where that has changed. Nodes of one kind, from which the same devices can be reached, are
searched once.

Tests: tests/unit/plugins/dynamic_resources/test_preparing.py, tests/conformance/test_decisions.py.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from trireme.framework import pausing, status
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import (
    allocation_errors,
    allocation_results,
    allocator,
    device_demand,
    extended_resources,
    inventory,
    node_allocatable,
    node_views,
    search_outcomes,
)
from trireme.plugins.dynamic_resources import args as device_args
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2

#: What the search reads beside nodes and pods.
READS = (inventory.CLAIM, inventory.SLICE, inventory.CLASS, inventory.RULE)

_NO_DEVICES = device_demand.unresolvable("cannot allocate all claims", status.Reason("devices"))
#: Refusals because of extended resources that devices stand for.
STALE_CLAIM = device_demand.unresolvable("cannot schedule extended resource claim", status.Reason("staleClaim"))
CANNOT_FIT = device_demand.unresolvable("cannot fit resource", status.Reason("extendedResource"))

# How often it is looked at what changed during a search; what changes after that is searched for by the next call.
_ROUNDS = 3


# What the nodes of one kind have in common: their view, and which resources devices must give there.
NodeKind = tuple[node_views.NodeView, tuple[str, ...]]


_instances = itertools.count()


class _PreparedOutcomes:
    """Outcomes that `prepare` found for one class alone: by class and kind, each with the version that it is of."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.found: dict[int, dict[NodeKind, tuple[int, search_outcomes.SearchOutcome]]] = {}

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Nothing to update: readers of an outcome compare its version."""


class DeviceSearch:
    """Searches devices for the claims of a class, once for each kind of node, and remembers the outcomes.

    The plugin's Filter and Reserve hold it; the arguments are those of one profile.
    """

    def __init__(self, args: device_args.Args, clock: Callable[[], float]) -> None:
        """`clock`: seconds, for the time that the search for one node may take."""
        self.args = args
        self.on = args.on
        self._clock = clock
        # Devices that stand for cpu or memory are given only where the pods leave enough of it.
        pods_count = args.on.node_allocatable
        self.depends_on = interfaces.Dependency.NODE_PODS if pods_count else interfaces.Dependency.NODE
        self._key = ("prepared_device_outcomes", next(_instances))

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool = True
    ) -> None:
        """Search for what a question about these slots will be about, and let others work meanwhile.

        The question itself then finds the answers. Where the devices of a node have changed during its search, they are
        searched anew. `remembering`: as for the question.
        """
        self._prepared_outcomes(snap).pop(pod_class.id, None)
        for _ in range(_ROUNDS):
            generation = snap.generation
            if not await self._prepare_round(pod_class, snap, slots, remembering) or snap.generation == generation:
                return

    async def _prepare_round(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool
    ) -> bool:
        """Search for each kind of node once, in time slices; return whether another round may find more to search.

        False: the class needs no search, or one took too long, which ends the attempt anyway.
        """
        demand = self.demand_or_none(pod_class, snap)
        if demand is None:
            return False
        for slot in self._slots_to_search(demand, slots, remembering):
            demand = self.demand_or_none(pod_class, snap)
            if demand is None or not demand.needs_allocation or demand.stale_claim is not None:
                return False
            kind = self._kind_to_search(pod_class, demand, snap, slot, remembering)
            if kind is None:
                continue
            version = demand.inventory.views.version(kind[0])
            outcome = await pausing.run(functools.partial(self._search_for_kind, pod_class, demand, snap, kind, slot))
            known = inventory.inventory_of(snap, self.on)
            if known is demand.inventory and known.views.version(kind[0]) == version:
                if remembering and outcome.holds_for_others and not demand.extended_resources:
                    self._remembered_outcomes(demand).store(kind[0].number, version, outcome)
                else:
                    self._prepared_outcomes(snap).setdefault(pod_class.id, {})[kind] = version, outcome
                if outcome.late:
                    return False
        return True

    def _prepared_outcomes(
        self, snap: snapshot_view.SnapshotView
    ) -> dict[int, dict[NodeKind, tuple[int, search_outcomes.SearchOutcome]]]:
        """Return the snapshot's prepared outcomes, to be read and changed in place."""
        return snap.derived(self._key, _PreparedOutcomes).found

    def _slots_to_search(
        self, demand: device_demand.DeviceDemand, slots: arrays.SlotArray, remembering: bool
    ) -> list[int]:
        """Return slots of all kinds where it may have to be searched."""
        if demand.extended_resources or not remembering:
            return slots.tolist()
        return slots[_first_of_each(*self._unknown_views(demand, slots, self._remembered_outcomes(demand)))].tolist()

    def _kind_to_search(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot.Snapshot,
        slot: int,
        remembering: bool,
    ) -> NodeKind | None:
        """Return the kind of the slot; None where it holds no node, its outcome is known or nothing is to be found."""
        if not snap.nodes.alive[slot]:
            return None
        lacking: tuple[str, ...] = ()
        if demand.extended_resources:
            if self._lacks_extended_resource(demand, snap, slot):
                return None
            lacking = self.resources_lacking_on(demand, snap, slot)
        view = demand.inventory.views.at(slot)
        version = demand.inventory.views.version(view)
        if not (demand.claims or lacking):
            return None
        there = self._prepared_outcomes(snap).get(pod_class.id, {}).get((view, lacking))
        if there is not None and there[0] == version:
            return None
        remembers = remembering and not demand.extended_resources
        is_known = remembers and self._remembered_outcomes(demand).versions[view.number] == version
        return None if is_known else (view, lacking)

    def demand_or_none(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView
    ) -> device_demand.DeviceDemand | None:
        """What the class demands; None: nothing, or its claims are not fit to be searched for."""
        try:
            return device_demand.demand_of(pod_class, snap, self.on)
        except device_demand.RefusedError:
            return None

    def outcomes(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        remembering: bool = True,
    ) -> search_outcomes.SlotOutcomes:
        """The outcomes of the search for these slots, which hold nodes.

        A search that takes too long ends it: the nodes that are left get the same outcome. `remembering`: solutions may
        be those of other claims that ask for the same.
        """
        if demand.stale_claim is not None:
            stale = search_outcomes.SearchOutcome(refusal=STALE_CLAIM)
            return search_outcomes.of_positions([stale] * slots.shape[0])
        if not demand.needs_allocation:
            return search_outcomes.nothing_to_search(slots.shape[0])
        if demand.extended_resources:
            return self._outcomes_of_kinds(pod_class, demand, snap, slots)
        known = self._remembered_outcomes(demand) if remembering else search_outcomes.OutcomeColumns()
        return self._outcomes_of_views(pod_class, demand, snap, slots, known)

    def _outcomes_of_views(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        known: search_outcomes.OutcomeColumns,
    ) -> search_outcomes.SlotOutcomes:
        """The outcomes for claims alone: nodes that see the same devices are alike."""
        views, unknown = self._unknown_views(demand, slots, known)
        kept_from_others: dict[int, search_outcomes.SearchOutcome] = {}
        late_from = slots.shape[0]
        for at in _first_of_each(views, unknown).tolist():
            slot = int(slots[at])
            view = demand.inventory.views.at(slot)
            outcome = self._prepared_or_found(pod_class, demand, snap, (view, ()), slot)
            if outcome.holds_for_others:
                known.store(view.number, demand.inventory.views.version(view), outcome)
            else:
                kept_from_others[view.number] = outcome
            if outcome.late:
                # One node on which it takes too long ends the attempt; the others need not be tried.
                late_from = at
                break
        if not kept_from_others:
            return search_outcomes.SlotOutcomes(
                known.refused[views], known.refusals, lambda at: known.at(int(views[at]))
            )
        _, first, number = np.unique(views, return_index=True, return_inverse=True)
        late = (first[number] >= late_from).tolist()
        of_late = next((each for each in kept_from_others.values() if each.late), None)
        return search_outcomes.of_positions(
            [
                of_late if late[at] else kept_from_others.get(view) or known.at(view)
                for at, view in enumerate(views.tolist())
            ]
        )

    def _unknown_views(
        self, demand: device_demand.DeviceDemand, slots: arrays.SlotArray, known: search_outcomes.OutcomeColumns
    ) -> tuple[arrays.Int32Array, arrays.SlotArray]:
        """The views of these slots, and the positions among them of those whose outcome is not known."""
        all_views = demand.inventory.views
        known.ensure_views(all_views.versions.shape[0])
        views = all_views.of_slot[slots]
        return views, np.flatnonzero(known.versions[views] != all_views.versions[views])

    def _outcomes_of_kinds(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
    ) -> search_outcomes.SlotOutcomes:
        """The outcomes for extended resources, too: nodes are alike that see the same devices and lack the same."""
        kinds, unfit = self._slots_by_kind(demand, snap, slots)
        outcomes: list[search_outcomes.SearchOutcome | None] = [None] * slots.shape[0]
        cannot_fit = search_outcomes.SearchOutcome(refusal=CANNOT_FIT)
        for at in unfit:
            outcomes[at] = cannot_fit
        outcome: search_outcomes.SearchOutcome | None = None
        for kind, positions in kinds.items():
            if outcome is None or not outcome.late:
                outcome = self._prepared_or_found(pod_class, demand, snap, kind, int(slots[positions[0]]))
            for at in positions:
                outcomes[at] = outcome
        return search_outcomes.of_positions(outcomes)

    def _prepared_or_found(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        kind: NodeKind,
        slot: int,
    ) -> search_outcomes.SearchOutcome:
        """The outcome for nodes like that of the slot: as prepared, which counts once, or of a search now."""
        prepared = self._prepared_outcomes(snap).get(pod_class.id, {}).pop(kind, None)
        if prepared is not None and prepared[0] == demand.inventory.views.version(kind[0]):
            return prepared[1]
        return self._search_for_kind(pod_class, demand, snap, kind, slot)

    def _remembered_outcomes(self, demand: device_demand.DeviceDemand) -> search_outcomes.OutcomeColumns:
        """Outcomes for claims that ask for the same, without extended resources: those are not kept."""
        known = demand.inventory.remembered_outcomes(demand.claim_specs)
        known.ensure_views(demand.inventory.views.versions.shape[0])
        return known

    def _slots_by_kind(
        self, demand: device_demand.DeviceDemand, snap: snapshot_view.SnapshotView, slots: arrays.SlotArray
    ) -> tuple[dict[NodeKind, list[int]], list[int]]:
        """Sort positions in `slots`: by kind of node where something has to be found, and where nothing can fit."""
        kinds: dict[NodeKind, list[int]] = {}
        unfit: list[int] = []
        for at, slot in enumerate(slots.tolist()):
            if self._lacks_extended_resource(demand, snap, slot):
                unfit.append(at)
                continue
            lacking = self.resources_lacking_on(demand, snap, slot)
            if demand.claims or lacking:
                kinds.setdefault((demand.inventory.views.at(slot), lacking), []).append(at)
        return kinds, unfit

    def _lacks_extended_resource(
        self, demand: device_demand.DeviceDemand, snap: snapshot_view.SnapshotView, slot: int
    ) -> bool:
        """Whether an extended resource is missing: the node has none, and no device class stands for it."""
        classes_of = demand.inventory.class_of_resource
        return any(
            name not in classes_of and not _allocatable_amount(snap, name, slot) for name in demand.extended_resources
        )

    def resources_lacking_on(
        self, demand: device_demand.DeviceDemand, snap: snapshot_view.SnapshotView, slot: int
    ) -> tuple[str, ...]:
        """Return the names of the extended resources that the node itself lacks, so that devices must provide them."""
        lacking = [name for name in demand.extended_resources if not _allocatable_amount(snap, name, slot)]
        return tuple(sorted(name for name in lacking if name in demand.inventory.class_of_resource))

    def claim_statuses(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.ClaimSolution],
    ) -> tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...] | None:
        """What the pod's claims take of the node's own resources, as its status will say; None: nothing.

        `solutions` are those found for the claims that have no devices yet. Raises: NodeAllocatableError.
        """
        if not demand.inventory.stands_for_resources:
            return None
        claims = [
            node_allocatable.devices_of_allocation(claim)
            for claim in demand.claims
            if claim.status.HasField("allocation")
        ]
        # What was found is for these claims, or for others that ask for the same; after them come extended resources.
        own = [
            *demand.claims_to_allocate,
            *(solution.claim for solution in solutions[len(demand.claims_to_allocate) :]),
        ]
        claims += [node_allocatable.devices_of_solution(claim, one) for claim, one in zip(own, solutions, strict=False)]
        uids = {each.name: each.claim.metadata.uid for each in demand.pod_claims}
        there = node_allocatable.NodeDevices(demand.inventory, snap.nodes, slot)
        # The last result counts for a claim that the pod names twice.
        once = {each.claim.metadata.uid: each for each in claims}
        return node_allocatable.claim_statuses(pod_class.pod, once.values(), uids, there)

    def _search_for_kind(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        kind: NodeKind,
        slot: int,
    ) -> search_outcomes.SearchOutcome:
        """Search for devices on nodes that see the same devices and lack the same resources; `slot` is one of them.

        Never raises for what a claim or a driver states: errors of the search are refusals.
        """
        view, lacking = kind
        if view.problem:
            return self.error_outcome(f"gather pool information: {view.problem}")
        claims = demand.claims_to_allocate
        if demand.extended_resources:
            requests, _ = extended_resources.device_requests(pod_class.pod, lacking, demand.inventory.class_of_resource)
            claims.append(extended_resources.extended_claim(pod_class.namespace, requests))
        known = demand.inventory
        given = allocator.AllocatorInputs(known.classes, known.allocated, known.selectors, self.on)
        search = allocator.Allocator(
            given, known.pools(view), claims, view.reaches, self._make_deadline_check(), view.skips_operations
        )
        try:
            solutions = search.allocate()
            for solution in solutions or ():
                # What an allocation cannot state is an error on every node where the devices were found.
                allocation_results.node_selector_of_devices(solution, snap.nodes.names[slot])
        except allocation_errors.TimedOutError:
            text = f"node {snap.nodes.names[slot]}: timed out trying to allocate devices"
            return search_outcomes.SearchOutcome(refusal=self.error_outcome(text).refusal, late=True)
        except allocation_errors.UnusablePoolsError as error:
            return search_outcomes.SearchOutcome(
                refusal=device_demand.unresolvable(str(error), status.Reason("devices"))
            )
        except allocation_errors.AllocationError as error:
            return self.error_outcome(str(error))
        if solutions is None:
            return search_outcomes.SearchOutcome(refusal=_NO_DEVICES)
        return search_outcomes.SearchOutcome(solutions=solutions)

    def _make_deadline_check(self) -> Callable[[], bool]:
        """Return a function that the search calls often: it lets other work run, and says whether the time is up.

        The time starts now; it is never up without a filter timeout.
        """
        limited = self.on.filter_timeout and self.args.filter_timeout > 0
        ends = self._clock() + self.args.filter_timeout if limited else math.inf

        def is_time_up() -> bool:
            pausing.pause()
            return limited and self._clock() > ends

        return is_time_up

    def error_outcome(self, text: str) -> search_outcomes.SearchOutcome:
        """Return the outcome of a failed search: an error of Filter, which ends the attempt."""
        return search_outcomes.SearchOutcome(
            refusal=status.error(SPEC.name, f'running "{SPEC.name}" filter plugin: {text}')
        )


def _first_of_each(views: arrays.Int32Array, positions: arrays.SlotArray) -> arrays.SlotArray:
    """Those of the positions at which a view comes first, ascending. Shape: views (position,)."""
    _, first = np.unique(views[positions], return_index=True)
    return positions[np.sort(first)]


def _allocatable_amount(snap: snapshot_view.SnapshotView, name: str, slot: int) -> int:
    """Return how much of the resource the node has by its own status; 0 if no node has any."""
    number = snap.nodes.resource_names.find(name)
    if number is None:
        return 0
    snap.nodes.ensure_resource_rows()
    return int(snap.nodes.allocatable[number, slot])
