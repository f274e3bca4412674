"""The search for the devices of a class's claims on nodes, as Filter, Score and Reserve need it.

The outcome of a search depends on the snapshot alone: the same search on the same snapshot has the same result, so that
nothing has to be carried from one to the other. Outcomes are kept with the version of what their nodes see in the
inventory, and searched anew where that has changed. Nodes of one kind, from which the same devices can be reached, are
searched once.

Tests: tests/unit/plugins/dynamic_resources/test_preparing.py, tests/conformance/test_decisions.py.
"""

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from trireme.framework import pausing, status
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import (
    allocation_errors,
    allocator,
    device_demand,
    extended_resources,
    inventory,
    node_allocatable,
)
from trireme.plugins.dynamic_resources import args as device_args
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2

#: What the search reads beside nodes and pods.
READS = (inventory.CLAIM, inventory.SLICE, inventory.CLASS, inventory.RULE)

CANNOT_ALLOCATE = "cannot allocate all claims"
STALE_CLAIM = "cannot schedule extended resource claim"
CANNOT_FIT = "cannot fit resource"

# How often it is looked at what changed during a search; what changes after that is searched for by the next call.
_ROUNDS = 3


@dataclass(slots=True, eq=False)
class SearchOutcome:
    """What the search came to for all nodes of one kind."""

    solutions: list[allocator.ClaimSolution] | None = None
    refusal: status.Status | None = None
    late: bool = False


# What the nodes of one kind have in common: their view, and which resources devices must give there.
NodeKind = tuple[inventory.NodeView, tuple[str, ...]]


_instances = itertools.count()


class _PreparedOutcomes:
    """Outcomes that `prepare` found ahead of a question: by class and kind, each with the version that it is of."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.found: dict[tuple[int, NodeKind], tuple[int, SearchOutcome]] = {}

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
        prepared = self._prepared_outcomes(snap)
        for key in [key for key in prepared if key[0] == pod_class.id]:
            del prepared[key]
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
        left = collections.deque(slots.tolist())
        while left:
            demand = self.demand_or_none(pod_class, snap)
            if demand is None or not demand.needs_allocation or demand.stale_claim is not None:
                return False
            kind = self._first_kind_to_search(pod_class, demand, snap, left, remembering)
            if kind is None:
                break
            version = demand.inventory.version(kind[0])
            slot = left[0]
            outcome = await pausing.run(functools.partial(self._search_for_kind, pod_class, demand, snap, kind, slot))
            known = inventory.inventory_of(snap, self.on)
            if known is demand.inventory and known.version(kind[0]) == version:
                self._prepared_outcomes(snap)[pod_class.id, kind] = version, outcome
                if outcome.late:
                    return False
        return True

    def _prepared_outcomes(
        self, snap: snapshot_view.SnapshotView
    ) -> "dict[tuple[int, NodeKind], tuple[int, SearchOutcome]]":
        """Return the snapshot's prepared outcomes, to be read and changed in place."""
        return snap.derived(self._key, _PreparedOutcomes).found

    def _first_kind_to_search(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        left: collections.deque[int],
        remembering: bool,
    ) -> "NodeKind | None":
        """Return the kind of the first slot where it has to be searched, or None; slots before it are taken off `left`.

        Passed over are slots without a node, with known outcomes, or where there is nothing to search for.
        """
        known = demand.inventory
        memory = self._remembered_outcomes(demand) if remembering else {}
        prepared = self._prepared_outcomes(snap)
        while left:
            slot = left[0]
            if snap.nodes.alive[slot] and not (
                demand.extended_resources and self._lacks_extended_resource(demand, snap, slot)
            ):
                lacking = self.resources_lacking_on(demand, snap, slot) if demand.extended_resources else ()
                kind = (known.view(slot), lacking)
                version = known.version(kind[0])
                there = prepared.get((pod_class.id, kind)) or memory.get(kind[0])
                if (demand.claims or lacking) and (there is None or there[0] != version):
                    return kind
            left.popleft()
        return None

    def demand_or_none(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView
    ) -> device_demand.DeviceDemand | None:
        """What the class demands; None: nothing, or its claims are not fit to be searched for."""
        try:
            return device_demand.demand_of(pod_class, snap, self.on)
        except device_demand.RefusedError:
            return None

    def outcomes_by_node_kind(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        remembering: bool = True,
    ) -> Iterator[tuple[list[int], "SearchOutcome | None"]]:
        """Yield positions in `slots` of nodes of one kind, each with the outcome there; None: nothing to search for.

        A search that takes too long ends it: the nodes that are left get the same outcome. `remembering`: solutions may
        be those of other claims that ask for the same.
        """
        if demand.stale_claim is not None:
            yield list(range(slots.shape[0])), SearchOutcome(refusal=device_demand.unresolvable(STALE_CLAIM))
            return
        kinds, without_search, unfit = self._slots_by_kind(demand, snap, slots)
        if unfit:
            yield unfit, SearchOutcome(refusal=device_demand.unresolvable(CANNOT_FIT))
        if without_search:
            yield without_search, None
        memory = self._remembered_outcomes(demand) if remembering and kinds else {}
        late: SearchOutcome | None = None
        for kind, positions in kinds.items():
            if late is not None:
                yield positions, late
                continue
            outcome = self._outcome_for_kind(pod_class, demand, snap, kind, int(slots[positions[0]]), memory)
            if outcome.late:
                # One node on which it takes too long ends the attempt; the others need not be tried.
                late = outcome
            yield positions, outcome

    def _outcome_for_kind(
        self,
        pod_class: classes.PodClass,
        demand: device_demand.DeviceDemand,
        snap: snapshot_view.SnapshotView,
        kind: NodeKind,
        slot: int,
        memory: dict[inventory.NodeView, tuple[int, SearchOutcome]],
    ) -> SearchOutcome:
        """The outcome for nodes like that of the slot: from memory, as prepared, or of a search now.

        A prepared outcome is used once. Errors and timeouts are not remembered.
        """
        version = demand.inventory.version(kind[0])
        known = memory.get(kind[0])
        if known is not None and known[0] == version:
            return known[1]
        prepared = self._prepared_outcomes(snap).pop((pod_class.id, kind), None)
        if prepared is not None and prepared[0] == version:
            outcome = prepared[1]
        else:
            outcome = self._search_for_kind(pod_class, demand, snap, kind, slot)
        # An error of a claim names it, so it is not reused for another.
        if not outcome.late and (outcome.refusal is None or outcome.refusal.code is not status.Code.ERROR):
            memory[kind[0]] = (version, outcome)
        return outcome

    def _remembered_outcomes(
        self, demand: device_demand.DeviceDemand
    ) -> dict[inventory.NodeView, tuple[int, SearchOutcome]]:
        """Outcomes for claims that ask for the same, by what nodes see; those for extended resources are not kept."""
        return {} if demand.extended_resources else demand.inventory.remembered_outcomes(demand.claim_specs)

    def _slots_by_kind(
        self, demand: device_demand.DeviceDemand, snap: snapshot_view.SnapshotView, slots: arrays.SlotArray
    ) -> tuple[dict[NodeKind, list[int]], list[int], list[int]]:
        """Sort positions in `slots`: by kind of node, where nothing has to be searched for, where nothing can fit."""
        kinds: dict[NodeKind, list[int]] = {}
        without_search: list[int] = []
        unfit: list[int] = []
        if not demand.needs_allocation:
            return kinds, list(range(slots.shape[0])), unfit
        view = demand.inventory.view
        for at, slot in enumerate(slots.tolist()):
            if not demand.extended_resources:
                kinds.setdefault((view(slot), ()), []).append(at)
            elif self._lacks_extended_resource(demand, snap, slot):
                unfit.append(at)
            else:
                lacking = self.resources_lacking_on(demand, snap, slot)
                searched = bool(demand.claims) or bool(lacking)
                (kinds.setdefault((view(slot), lacking), []) if searched else without_search).append(at)
        return kinds, without_search, unfit

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
    ) -> SearchOutcome:
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
        except allocation_errors.TimedOutError:
            text = f"node {snap.nodes.names[slot]}: timed out trying to allocate devices"
            return SearchOutcome(refusal=self.error_outcome(text).refusal, late=True)
        except allocation_errors.UnusablePoolsError as error:
            return SearchOutcome(refusal=device_demand.unresolvable(str(error)))
        except allocation_errors.AllocationError as error:
            return self.error_outcome(str(error))
        if solutions is None:
            return SearchOutcome(refusal=device_demand.unresolvable(CANNOT_ALLOCATE))
        return SearchOutcome(solutions=solutions)

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

    def error_outcome(self, text: str) -> SearchOutcome:
        """Return the outcome of a failed search: an error of Filter, which ends the attempt."""
        return SearchOutcome(refusal=status.error(SPEC.name, f'running "{SPEC.name}" filter plugin: {text}'))


def _allocatable_amount(snap: snapshot_view.SnapshotView, name: str, slot: int) -> int:
    """Return how much of the resource the node has by its own status; 0 if no node has any."""
    number = snap.nodes.resource_names.find(name)
    if number is None:
        return 0
    snap.nodes.ensure_resource_rows()
    return int(snap.nodes.allocatable[number, slot])
