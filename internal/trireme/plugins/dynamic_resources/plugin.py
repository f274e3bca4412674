"""DynamicResources: the extension points.

Everything is found out anew for each question from the snapshot: Filter searches devices for the nodes, Score looks at
which alternatives were taken, Reserve writes down what was found for the one node that was picked. The same search on
the same snapshot has the same result, so that nothing has to be carried from one to the other.

A pod with claims is a class of its own, because its claims are. Pods that ask for extended resources are one class,
but go one at a time where devices are to be found for them: the next must see what the one before has taken.
"""

import collections
import functools
import itertools
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trireme.framework import amounts, pausing, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.dynamic_resources import (
    allocator,
    alternatives,
    availability,
    demand,
    extended,
    inventory,
    node_allocatable,
    pod_claims,
    readiness,
    reserve_state,
    results,
    to_reserve,
)
from trireme.plugins.dynamic_resources import args as device_args
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2, cycle_pb2, resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import encode
from trireme_kube.componentbase import clocks

NAME = demand.NAME

NOT_AVAILABLE = "resourceclaim not available on the node"
_CANNOT_ALLOCATE = "cannot allocate all claims"
_STALE_CLAIM = "cannot schedule extended resource claim"
_CANNOT_FIT = "cannot fit resource"

_OF_EXTENDED = (demand.unresolvable(_STALE_CLAIM), demand.unresolvable(_CANNOT_FIT))

# How often it is looked at what changed during a search; what changes after that is searched for when it is asked for.
_ROUNDS = 3

_READS = (inventory.CLAIM, inventory.SLICE, inventory.CLASS, inventory.RULE)


@dataclass(slots=True, eq=False)
class _Outcome:
    """What the search came to for all nodes of one kind."""

    solutions: list[allocator.Solution] | None = None
    refusal: status.Status | None = None
    late: bool = False


# What the nodes of one kind have in common: their view, and which resources devices must give there.
_Kind = tuple[inventory.View, tuple[str, ...]]


_instances = itertools.count()


class _Searches:
    """What was searched for ahead of a question: by class and kind, with the version that it is of."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.found: dict[tuple[int, _Kind], tuple[int, _Outcome]] = {}

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Nothing to update: whoever reads an outcome compares its version."""


class DynamicResources:
    """Source: pkg/scheduler/framework/plugins/dynamicresources."""

    name = NAME
    normalization = interfaces.Normalization.MAX
    reads: tuple[str, ...] = _READS

    def __init__(
        self,
        args: device_args.Args,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = clocks.wall,
    ) -> None:
        self._args = args
        self._on = args.on
        # Devices that stand for cpu or memory are given only where the pods leave enough of it.
        pods_count = args.on.node_allocatable
        self.depends_on = interfaces.Dependency.NODE_PODS if pods_count else interfaces.Dependency.NODE
        self._rules = amounts.Rules(pod_level=args.on.pod_level_resources, claims=True)
        self._clock = clock
        self._wall = wall
        self._key = ("device_searches", next(_instances))

    @property
    def group_claims(self) -> bool:
        """Whether a PodGroup may have claims."""
        return self._on.group_claims

    async def ahead(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool = True
    ) -> None:
        """Search for what a question about these slots will be about, and let others work meanwhile.

        The question itself then finds the answers. Where the devices of a node have changed during its search, they are
        searched anew. `remembering`: as for the question.
        """
        searches = self._searches(snap)
        for key in [key for key in searches if key[0] == pod_class.id]:
            del searches[key]
        for _ in range(_ROUNDS):
            generation = snap.generation
            if not await self._ahead_of(pod_class, snap, slots, remembering) or snap.generation == generation:
                return

    async def _ahead_of(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool
    ) -> bool:
        """Search for each kind of node once; whether there may be more to search for."""
        left = collections.deque(slots.tolist())
        while left:
            state = self._known_state(pod_class, snap)
            if state is None or not state.allocates or state.stale is not None:
                return False
            kind = self._unsearched(pod_class, state, snap, left, remembering)
            if kind is None:
                break
            version = state.known.version(kind[0])
            slot = left[0]
            outcome = await pausing.run(functools.partial(self._search, pod_class, state, snap, kind, slot))
            known = inventory.of(snap, self._on)
            if known is state.known and known.classes is state.known.classes and known.version(kind[0]) == version:
                self._searches(snap)[pod_class.id, kind] = version, outcome
                if outcome.late:
                    return False
        return True

    def _searches(self, snap: snapshot_view.SnapshotView) -> "dict[tuple[int, _Kind], tuple[int, _Outcome]]":
        return snap.derived(self._key, _Searches).found

    async def ahead_of_score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray
    ) -> None:
        """The same for scores, which are about alternatives alone."""
        if isinstance(self.pre_score(pod_class, snap), demand.Demand):
            await self.ahead(pod_class, snap, slots)

    def _unsearched(
        self,
        pod_class: classes.PodClass,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        left: collections.deque[int],
        remembering: bool,
    ) -> "_Kind | None":
        """The kind of the first of the slots where it has to be searched; those before it are taken off the list."""
        known = state.known
        memory = known.remember(state.wish) if remembering and not state.resources else {}
        searches = self._searches(snap)
        while left:
            slot = left[0]
            if snap.nodes.alive[slot] and not (state.resources and self._unfit(state, snap, slot)):
                lacking = self._lacking(state, snap, slot) if state.resources else ()
                kind = (known.view(slot), lacking)
                version = known.version(kind[0])
                there = searches.get((pod_class.id, kind)) or memory.get(kind[0])
                if (state.claims or lacking) and (there is None or there[0] != version):
                    return kind
            left.popleft()
        return None

    # PreFilter, Filter

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip pods without claims; refuse those whose claims are missing, in the making, or of no class."""
        try:
            state = demand.of(pod_class, snap, self._on)
        except demand.RefusedError as refused:
            return interfaces.PreFilterResult(status=refused.said)
        if state is None:
            return interfaces.SKIPPED
        return interfaces.PreFilterResult(state=state, max_batch=1, reserves=True)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots from which a claim's devices cannot be used, and where none can be found."""
        index = np.full(slots.shape[0], interfaces.PASSES, dtype=np.int16)
        refused: dict[status.Status, list[int]] = {}
        for positions, outcome in self._outcomes(pod_class, state, snap, slots):
            if outcome is not None and outcome.refusal is not None:
                refused.setdefault(outcome.refusal, []).extend(positions)
            elif self._on.node_allocatable:
                solutions = [] if outcome is None else outcome.solutions or []
                for at in positions:
                    refusal = self._no_room(pod_class, state, snap, int(slots[at]), solutions)
                    if refusal is not None:
                        refused.setdefault(refusal, []).append(at)
        for refusal, positions in refused.items():
            index[positions] = table.intern(refusal)
        unavailable: arrays.BoolArray = np.logical_or.reduce(self._unavailable(state, snap, slots, {}), axis=0)
        unavailable &= index == interfaces.PASSES
        if unavailable.any():
            index[unavailable] = table.intern(demand.unresolvable(NOT_AVAILABLE))
        # A claim that is unfit for the pod comes before devices for the others, but after extended resources.
        unfit = [number for said in _OF_EXTENDED for number in [table.find(said)] if number]
        searched = ~np.isin(index, unfit)
        for lacking, text in availability.unfit_claims(pod_class, state, snap, slots, self._on):
            index[lacking & searched] = table.intern(demand.unresolvable(text))
        return interfaces.Verdicts(index)

    def _no_room(
        self,
        pod_class: classes.PodClass,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.Solution],
    ) -> status.Status | None:
        """Why the node has too little left for what the claims' devices stand for; None: it has enough."""
        try:
            stated = self._claim_statuses(pod_class, state, snap, slot, solutions)
        except node_allocatable.NodeAllocatableError as error:
            return self._failed(str(error)).refusal
        if stated is None:
            return None
        return node_allocatable.refusal(pod_class.pod, stated, snap, slot, self._rules)

    def _claim_statuses(
        self,
        pod_class: classes.PodClass,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.Solution],
    ) -> tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...] | None:
        """What the claims come to in resources of the node; None: nothing. Raises: NodeAllocatableError."""
        if not state.known.stands_for_resources:
            return None
        claims = [node_allocatable.allocated(claim) for claim in state.claims if claim.status.HasField("allocation")]
        # What was found is for these claims, or for others that ask for the same; after them come extended resources.
        own = [*state.to_allocate, *(solution.claim for solution in solutions[len(state.to_allocate) :])]
        claims += [node_allocatable.found(claim, one) for claim, one in zip(own, solutions, strict=False)]
        uids = {each.name: each.claim.metadata.uid for each in state.stated}
        there = node_allocatable.NodeDevices(state.known, snap.nodes, slot)
        # Of a claim that the pod names twice, what is found last counts.
        once = {each.claim.metadata.uid: each for each in claims}
        return node_allocatable.statuses(pod_class.pod, once.values(), uids, there)

    def unavailable_claims(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        promised: Mapping[str, resource_pb2.AllocationResult] | None = None,
    ) -> list[resource_pb2.ResourceClaim]:
        """The allocated claims of the class that cannot be used on one of these slots at least; `promised` (by UID) are
        allocations that pods before it in its group were to get.
        """
        state = self._known_state(pod_class, snap)
        if state is None:
            return []
        lacking: arrays.BoolArray = np.logical_or.reduce(self._unavailable(state, snap, slots, promised or {}), axis=1)
        return [claim for claim, lacks in zip(state.claims, lacking.tolist(), strict=True) if lacks]

    def stale_claim(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, uid: str
    ) -> resource_pb2.ResourceClaim | None:
        """The claim that was made for the pod's extended resources in an attempt before this one. Of no interest where
        devices stand for none of them any more: the claim goes when its pod does.
        """
        state = self._known_state(pod_class, snap)
        return state.known.made_for.get(uid) if state is not None and state.resources else None

    # Score

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """The claims; a pod without alternatives gets 0 on every node."""
        if not self._on.prioritized_list or not pod_class.pod.spec.resource_claims:
            return _Unscored()
        try:
            claims = pod_claims.of(pod_class.pod, snap, of_groups=self._on.group_claims)
        except pod_claims.ClaimError:
            return _Unscored()
        if not any(request.first_available for each in claims for request in each.claim.spec.devices.requests):
            return _Unscored()
        return self._known_state(pod_class, snap) or _Unscored()

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """How early in their lists the alternatives are that claims get."""
        scores = np.zeros(slots.shape[0], dtype=np.int64)
        if not isinstance(state, demand.Demand):
            return scores
        fixed = sum(alternatives.value_of(claim, alternatives.allocated_names(claim)) for claim in state.claims)
        if not (state.allocates or state.shared):
            # Claims that have their devices count only where something was found out about them.
            if self._on.node_allocatable:
                counted = [bool(self._known_statuses(pod_class, state, snap, slot)) for slot in slots.tolist()]
                scores[np.array(counted, dtype=np.bool_)] = fixed
            return scores
        for positions, outcome in self._outcomes(pod_class, state, snap, slots):
            if outcome is None and not state.allocates:
                # All was found for the pods before it.
                scores[positions] = fixed
            elif outcome is not None and outcome.solutions is not None:
                scores[positions] = fixed + sum(
                    alternatives.value_of(each.claim, alternatives.chosen_names(each)) for each in outcome.solutions
                )
        return scores

    def _known_statuses(
        self, pod_class: classes.PodClass, state: demand.Demand, snap: snapshot_view.SnapshotView, slot: int
    ) -> tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...] | None:
        try:
            return self._claim_statuses(pod_class, state, snap, slot, ())
        except node_allocatable.NodeAllocatableError:
            return None

    # Reserve

    def reserve(
        self, pod_class: classes.PodClass, pod: cycle_pb2.PodIdentity, snap: snapshot.Snapshot, slot: int
    ) -> interfaces.Reserved:
        """The claims with the devices found for them on the node."""
        try:
            state = demand.of(pod_class, snap, self._on)
        except demand.RefusedError as refused:
            return interfaces.Reserved(refused.said)
        if state is None:
            return interfaces.Reserved()
        [(_, outcome)] = self._outcomes(pod_class, state, snap, np.array([slot]), remembering=False)
        if outcome is not None and outcome.refusal is not None:
            return interfaces.Reserved(self._not_reserved("claim allocation not found for node"))
        solutions = [] if outcome is None else outcome.solutions or []
        try:
            return self._reserved(pod_class, pod, state, snap, slot, solutions)
        except (results.UnsupportedSelectorError, node_allocatable.NodeAllocatableError) as error:
            return interfaces.Reserved(self._not_reserved(str(error)))

    def _reserved(
        self,
        pod_class: classes.PodClass,
        pod: cycle_pb2.PodIdentity,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slot: int,
        solutions: Sequence[allocator.Solution],
    ) -> interfaces.Reserved:
        assumed = []
        entries = []
        # A pod may name a claim twice: the first of what was found for it counts.
        found = {_identity(solution.claim): solution for solution in reversed(solutions)}
        groups = self._on.group_claims
        for stated in {_identity(each.claim): each for each in state.stated}.values():
            claim = stated.claim
            solution = found.pop(_identity(claim), None)
            if solution is None and claim.metadata.uid not in state.shared:
                entries.append(to_reserve.known(pod_class.pod, pod, stated, None, of_groups=groups))
                continue
            allocated = claim if solution is None else self._allocated(solution, claim.metadata.uid, snap, slot)
            assumed.append(snapshot_pb2.ClusterObject(resource_claim=allocated, assumed=True))
            given = allocated.status.allocation
            entries.append(to_reserve.known(pod_class.pod, pod, stated, given, of_groups=groups))
        for solution in found.values():
            if not solution.claim.spec.devices.requests:
                # Device plugins give all of it on this node.
                continue
            allocated = self._allocated(solution, pod.uid, snap, slot)
            allocated.metadata.name = extended.IN_MEMORY + pod.uid
            assumed.append(snapshot_pb2.ClusterObject(resource_claim=allocated, assumed=True))
            lacking = self._lacking(state, snap, slot)
            _, mappings = extended.requests(pod_class.pod, lacking, state.known.class_of_resource)
            entries.append(to_reserve.to_make(allocated, mappings, state.known.made_for.get(pod.uid)))
        if not entries:
            return interfaces.Reserved()
        counted = self._claim_statuses(pod_class, state, snap, slot, solutions) if self._on.node_allocatable else None
        left = reserve_state.DeviceClaims(tuple(entries), node_allocatable=tuple(map(encode.encode, counted or ())))
        return interfaces.Reserved(None, tuple(assumed), left.to_bytes(), counted or ())

    def _allocated(
        self, solution: allocator.Solution, owner: str, snap: snapshot_view.SnapshotView, slot: int
    ) -> resource_pb2.ResourceClaim:
        """The claim as it will be."""
        # The same question has the same answer, so shares are named after it.
        names = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{owner} {snap.generation} {number}")) for number in range(1000))
        out = resource_pb2.ResourceClaim()
        out.CopyFrom(solution.claim)
        out.status.allocation.CopyFrom(
            results.allocation(solution, snap.nodes.names[slot], self._on, lambda: next(names))
        )
        return out

    def _known_state(self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView) -> demand.Demand | None:
        try:
            return demand.of(pod_class, snap, self._on)
        except demand.RefusedError:
            return None

    # What is so on nodes

    def _unavailable(
        self,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        promised: Mapping[str, resource_pb2.AllocationResult],
    ) -> arrays.BoolArray:
        """Which allocated claims cannot be used where. Shape: (claim, slot asked)."""
        out = np.zeros((len(state.claims), slots.shape[0]), dtype=np.bool_)
        for at, claim in enumerate(state.claims):
            allocated = claim.status.HasField("allocation")
            allocation = claim.status.allocation if allocated else promised.get(claim.metadata.uid)
            if allocation is None:
                continue
            if allocated and self._on.binding_conditions and self._is_lost(claim):
                out[at] = True
                continue
            skips = allocated and claim.metadata.uid not in state.shared
            out[at] = availability.elsewhere(allocation, snap, slots, skips=skips)
        return out

    def _is_lost(self, claim: resource_pb2.ResourceClaim) -> bool:
        """Whether the claim's devices are waited for in vain."""
        try:
            ready = readiness.ready(claim)
        except readiness.BindingFailedError:
            return True
        return not ready and readiness.timed_out(claim, self._args.binding_timeout, self._wall())

    def _lacking(self, state: demand.Demand, snap: snapshot_view.SnapshotView, slot: int) -> tuple[str, ...]:
        """The extended resources that devices must give on the node, by name."""
        lacking = [name for name in state.resources if not _allocatable(snap, name, slot)]
        return tuple(sorted(name for name in lacking if name in state.known.class_of_resource))

    def _outcomes(
        self,
        pod_class: classes.PodClass,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        remembering: bool = True,
    ) -> Iterator[tuple[list[int], "_Outcome | None"]]:
        """Positions in `slots` of nodes of one kind, and what the search comes to there; None: there is nothing to
        search for. `remembering`: solutions may be those of other claims that ask for the same.
        """
        if state.stale is not None:
            yield list(range(slots.shape[0])), _Outcome(refusal=demand.unresolvable(_STALE_CLAIM))
            return
        kinds: dict[_Kind | None, list[int]] = {}
        unfit: list[int] = []
        if not state.allocates:
            kinds[None] = list(range(slots.shape[0]))
        elif not state.resources:
            view = state.known.view
            for at, slot in enumerate(slots.tolist()):
                kinds.setdefault((view(slot), ()), []).append(at)
        else:
            unfit = self._add_kinds(state, snap, slots, kinds)
        if unfit:
            yield unfit, _Outcome(refusal=demand.unresolvable(_CANNOT_FIT))
        if None in kinds:
            yield kinds.pop(None), None
        memory = state.known.remember(state.wish) if remembering and kinds and not state.resources else {}
        late: _Outcome | None = None
        for kind, positions in kinds.items():
            if kind is None or late is not None:
                yield positions, late
                continue
            version = state.known.version(kind[0])
            known = memory.get(kind[0])
            if known is not None and known[0] == version:
                yield positions, known[1]
                continue
            there = self._searches(snap).pop((pod_class.id, kind), None)
            if there is not None and there[0] == version:
                outcome = there[1]
            else:
                outcome = self._search(pod_class, state, snap, kind, int(slots[positions[0]]))
            if outcome.late:
                # One node on which it takes too long ends the attempt; the others need not be tried.
                late = outcome
            elif outcome.refusal is None or outcome.refusal.code is not status.Code.ERROR:
                # What is wrong with a claim names it, and so is said of no other.
                memory[kind[0]] = (version, outcome)
            yield positions, outcome

    def _add_kinds(
        self,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        kinds: "dict[_Kind | None, list[int]]",
    ) -> list[int]:
        """Sort positions by what devices must give there; answers those where nobody can."""
        unfit = []
        for at, slot in enumerate(slots.tolist()):
            if self._unfit(state, snap, slot):
                unfit.append(at)
                continue
            lacking = self._lacking(state, snap, slot)
            searched = bool(state.claims) or bool(lacking)
            kinds.setdefault((state.known.view(slot), lacking) if searched else None, []).append(at)
        return unfit

    def _unfit(self, state: demand.Demand, snap: snapshot_view.SnapshotView, slot: int) -> bool:
        """Whether neither the node nor devices can give one of the extended resources."""
        classes_of = state.known.class_of_resource
        return any(name not in classes_of and not _allocatable(snap, name, slot) for name in state.resources)

    def _search(
        self,
        pod_class: classes.PodClass,
        state: demand.Demand,
        snap: snapshot_view.SnapshotView,
        kind: _Kind,
        slot: int,
    ) -> _Outcome:
        view, lacking = kind
        if view.problem:
            return self._failed(f"gather pool information: {view.problem}")
        claims = state.to_allocate
        if state.resources:
            requests, _ = extended.requests(pod_class.pod, lacking, state.known.class_of_resource)
            claims.append(extended.claim(pod_class.namespace, requests))
        known = state.known
        given = allocator.Given(known.classes, known.taken, known.selectors, self._on)
        search = allocator.Search(
            given, known.pools(view), claims, view.reaches, self._deadline(), view.skips_operations
        )
        try:
            solutions = search.run()
        except allocator.TimedOutError:
            text = f"node {snap.nodes.names[slot]}: timed out trying to allocate devices"
            return _Outcome(refusal=self._failed(text).refusal, late=True)
        except allocator.InvalidPoolsError as error:
            return _Outcome(refusal=demand.unresolvable(str(error)))
        except allocator.AllocationError as error:
            return self._failed(str(error))
        if solutions is None:
            return _Outcome(refusal=demand.unresolvable(_CANNOT_ALLOCATE))
        return _Outcome(solutions=solutions)

    def _deadline(self) -> Callable[[], bool]:
        limited = self._on.filter_timeout and self._args.filter_timeout > 0
        ends = self._clock() + self._args.filter_timeout if limited else math.inf

        def expired() -> bool:
            pausing.pause()
            return limited and self._clock() > ends

        return expired

    def _failed(self, text: str) -> _Outcome:
        return _Outcome(refusal=status.error(NAME, f'running "{NAME}" filter plugin: {text}'))

    def _not_reserved(self, text: str) -> status.Status:
        return status.error(NAME, f'running Reserve plugin "{NAME}": {text}')


class _Unscored:
    """The class has no claims with alternatives."""


def _allocatable(snap: snapshot_view.SnapshotView, name: str, slot: int) -> int:
    """How much of the resource the node itself has."""
    number = snap.nodes.resource_names.intern(name)
    snap.nodes.reserve_resources()
    return int(snap.nodes.allocatable[number, slot])


def _identity(claim: resource_pb2.ResourceClaim) -> tuple[str, str]:
    return claim.metadata.namespace, claim.metadata.name


def make(context: plugin_context.PluginContext) -> DynamicResources:
    """The plugin, by its arguments and the feature gates."""
    return DynamicResources(device_args.read(context.args, context.features))
