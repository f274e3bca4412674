"""NodeResourcesFit: what the pod asks for must be free, and how full the node gets is scored.

Filter and the three scoring strategies work on (resource, slot) columns. Scores are made for several copies at once:
the k-th copy sees the ones before it on the node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trireme.framework import amounts, resizes, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import device_resources, plugin_context, resource_usage
from trireme.snapshot import arrays, classes, snapshot

LEAST_ALLOCATED = "LeastAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

# So many flags and the number of an entry fit an int64.
_FLAGS_AT_ONCE = 30

_ONE = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Args:
    """NodeResourcesFitArgs, and whether the gates InPlacePodVerticalScalingSchedulerPreemption (`resizing`) and
    DRAExtendedResource (`device_backed`) are on.
    `shape` is the points (utilization, score 0 to 10) of RequestedToCapacityRatio.
    """

    strategy: str = LEAST_ALLOCATED
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    shape: tuple[tuple[int, int], ...] = ()
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    resizing: bool = False
    device_backed: bool = True


@dataclass(frozen=True, slots=True)
class _Demand:
    """What the class asks for, resource by resource. `device_backed` may be given by devices where the node has
    none.
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    amounts: tuple[int, ...]
    device_backed: tuple[bool, ...]


def interpolated(shape: Sequence[tuple[int, int]]) -> arrays.Int64Array:
    """Scores by utilization 0 to 100, linear between the points and flat outside, as Go's integers divide."""
    out = np.empty(101, dtype=np.int64)
    points = [(utilization, score * 10) for utilization, score in shape]
    for p in range(101):
        right = next((i for i, (utilization, _) in enumerate(points) if p <= utilization), None)
        if right is None:
            out[p] = points[-1][1]
        elif right == 0:
            out[p] = points[0][1]
        else:
            (u0, s0), (u1, s1) = points[right - 1], points[right]
            out[p] = s0 + int((s1 - s0) * (p - u0) / (u1 - u0))
    return out


class NodeResourcesFit:
    """Source: pkg/scheduler/framework/plugins/noderesources (fit, least_allocated, most_allocated, requested_to_…)."""

    name = "NodeResourcesFit"
    normalization = interfaces.Normalization.NONE
    reads: tuple[str, ...] = ("device_class",)

    def __init__(self, args: Args, devices: device_resources.DeviceCounts | None = None) -> None:
        """`devices`: scores count devices where a node has none of an extended resource."""
        self._args = args
        self._devices = devices
        cluster = devices is not None
        self.depends_on = interfaces.Dependency.CLUSTER if cluster else interfaces.Dependency.NODE_PODS
        self._shape = interpolated(args.shape) if args.strategy == REQUESTED_TO_CAPACITY_RATIO else None

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """State: what the class asks for."""
        if pod_class.invalid is not None:
            return interfaces.PreFilterResult(status=status.error(self.name, pod_class.invalid))
        backed = _device_backed(snap) if self._args.device_backed else frozenset[str]()
        asked = [
            (name, amount)
            for name, amount in pod_class.amounts.filtering.items()
            if amount > 0 and not self._ignored(name)
        ]
        names = snap.nodes.resource_names
        demand = _Demand(
            tuple(name for name, _ in asked),
            tuple(names.intern(name) for name, _ in asked),
            tuple(amount for _, amount in asked),
            tuple(name in backed for name, _ in asked),
        )
        return interfaces.PreFilterResult(state=demand)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots where something is short, each with all that is short; else count the copies that fit."""
        demand: _Demand = state
        nodes = snap.nodes
        nodes.reserve_resources()
        copies = nodes.allowed_pods[slots] - nodes.pod_count[slots]
        crowded = copies < 1
        lacking = []
        unresolvable = np.zeros(slots.shape[0], dtype=np.bool_)
        own = _own_place(pod_class, snap, slots) if self._args.resizing and pod_class.pod.spec.node_name else None
        for name, number, amount, backed in zip(
            demand.names, demand.numbers, demand.amounts, demand.device_backed, strict=True
        ):
            allocatable = nodes.allocatable[number, slots]
            free = allocatable - nodes.requested[number, slots]
            if own is not None:
                own.give_back(name, amount, free)
            fits = free // amount
            short = fits < 1
            if backed:
                by_device = allocatable == 0
                short &= ~by_device
                fits = np.where(by_device, interfaces.UNLIMITED, fits)
            lacking.append(short)
            too_much = short & (amount > allocatable)
            if own is not None:
                own.judge_growth(name, amount, allocatable, too_much)
            unresolvable |= too_much
            copies = np.minimum(copies, fits)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        refused = np.flatnonzero(copies < 1)
        if refused.size:
            flags = [each[refused] for each in (unresolvable, crowded, *lacking)]
            first, inverse = _distinct(flags)
            kinds = np.array(flags)[:, first].T
            numbers = [table.intern(self._refusal(kind[0], kind[1], kind[2:], demand)) for kind in kinds.tolist()]
            index[refused] = np.array(numbers, dtype=np.int16)[inverse]
        return interfaces.Verdicts(index, np.minimum(np.maximum(copies, 0), interfaces.UNLIMITED).astype(np.int32))

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """The resources that are scored."""
        return resource_usage.scored(pod_class, snap, self._args.resources, as_placed=False)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """How empty, how full, or how fitting by the shape, the node is with the pod on it; 0 to 100."""
        return self.score_copies(pod_class, snap, state, slots, 1)[:, 0]

    def score_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array:
        """As score, for one copy, two, … on the node. Shape: (slot, copy)."""
        scored: tuple[resource_usage.Scored, ...] = state
        total = np.zeros((slots.shape[0], copies), dtype=np.int64)
        weights = np.zeros((slots.shape[0], copies), dtype=np.int64)
        for entry in scored:
            capacity, requested = resource_usage.on_nodes(
                snap, entry, slots, copies, nonzero=True, devices=self._devices
            )
            score = self._score(requested, np.maximum(capacity, 1))
            counts = np.broadcast_to(capacity > 0, score.shape)
            if self._shape is not None:
                counts = counts & (score > 0)
            total += np.where(counts, score, 0) * entry.weight
            weights += np.where(counts, entry.weight, 0)
        divisor = np.maximum(weights, 1)
        if self._shape is not None:
            return np.floor(total / divisor + 0.5).astype(np.int64)
        return total // divisor

    def _score(self, requested: arrays.Int64Array, capacity: arrays.Int64Array) -> arrays.Int64Array:
        over = requested > capacity
        if self._args.strategy == LEAST_ALLOCATED:
            return np.where(over, 0, _percent(capacity - requested, capacity))
        utilization = np.where(over, 100, _percent(requested, capacity))
        return utilization if self._shape is None else self._shape[utilization]

    def _ignored(self, name: str) -> bool:
        if not amounts.is_extended(name):
            return False
        return name in self._args.ignored_resources or name.split("/", 1)[0] in self._args.ignored_groups

    def _refusal(self, unresolvable: bool, crowded: bool, lacking: Sequence[bool], demand: _Demand) -> status.Status:
        messages = []
        reasons = []
        if crowded:
            messages.append("Too many pods")
            reasons.append(status.Reason("tooManyPods"))
        for name, amount, short in zip(demand.names, demand.amounts, lacking, strict=True):
            if short:
                messages.append(f"Insufficient {name}")
                parameters = {"resource": name, "asked": amounts.quantity_text(name, amount)}
                reasons.append(status.Reason.of("insufficientResource", parameters))
        code = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else status.Code.UNSCHEDULABLE
        return status.Status(code, self.name, tuple(messages), tuple(reasons))


@dataclass(frozen=True, slots=True)
class _OwnPlace:
    """Where a pod that is resized is, among the slots asked about, and what it counts as there."""

    at: int
    counted: Mapping[str, int]

    def give_back(self, name: str, amount: int, free: arrays.Int64Array) -> None:
        """On its own node only what the pod grows by must be free; of a scalar resource that it has, nothing."""
        counted = self.counted.get(name, 0)
        free[self.at] += min(amount, counted)
        if amounts.is_scalar(name) and counted >= amount:
            free[self.at] = max(free[self.at], amount)

    def judge_growth(self, name: str, amount: int, allocatable: arrays.Int64Array, too_much: arrays.BoolArray) -> None:
        """Of a scalar resource it is the growth that the node may be too small for, not all that the pod asks for."""
        if too_much[self.at] and amounts.is_scalar(name):
            too_much[self.at] = amount - min(amount, self.counted.get(name, 0)) > allocatable[self.at]


def _own_place(pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> _OwnPlace | None:
    """Where the class's one pod is; None where its node is not asked about, or the pod is not there."""
    slot = snap.nodes.slots.get(pod_class.pod.spec.node_name, -1)
    at = np.flatnonzero(slots == slot)
    if not at.size:
        return None
    uid, pods = pod_class.pod.metadata.uid, snap.pods
    for row in np.flatnonzero(pods.slot[: pods.size] == slot).tolist():
        if pods.uids[row] == uid:
            return _OwnPlace(int(at[0]), snap.classes[int(pods.pod_class[row])].amounts.placed)
    return None


def _distinct(flags: Sequence[arrays.BoolArray]) -> tuple[arrays.SlotArray, arrays.SlotArray]:
    """The distinct combinations of flags: where each occurs first, and which one each entry has. Shape: flags (n,)."""
    if flags[0].shape[0] == 1:
        return _ONE, _ONE
    code = np.zeros(flags[0].shape[0], dtype=np.int64)
    for count, flag in enumerate(flags, start=1):
        code = code * 2 + flag
        if count % _FLAGS_AT_ONCE == 0:
            code = np.unique(code, return_inverse=True)[1]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first, inverse


def _percent(part: arrays.Int64Array, whole: arrays.Int64Array) -> arrays.Int64Array:
    """Part × 100 / whole, for 0 ≤ part ≤ whole; where it is out of range the caller does not look. Shape: as `part`."""
    return np.clip(part, 0, None) * 100 // whole


def _device_backed(snap: snapshot.Snapshot) -> frozenset[str]:
    """Extended resources that a device class stands for: the one that it names, and one by its own name."""
    out = set()
    for entry in snap.objects.all("device_class"):
        out |= {entry.spec.extended_resource_name, device_resources.CLASS_RESOURCE_PREFIX + entry.metadata.name}
    return frozenset(out)


def make(context: plugin_context.PluginContext) -> NodeResourcesFit:
    """The filter, by its arguments and the feature gates."""
    return NodeResourcesFit(args_of(context))


def make_score(context: plugin_context.PluginContext) -> NodeResourcesFit:
    """The scorer, by its arguments and the feature gates."""
    args = args_of(context)
    return NodeResourcesFit(args, resource_usage.device_counts(args.resources, context))


def args_of(context: plugin_context.PluginContext) -> Args:
    """The arguments from their JSON."""
    strategy = context.args.get("scoringStrategy") or {}
    ratio = strategy.get("requestedToCapacityRatio") or {}
    return Args(
        strategy=strategy.get("type", LEAST_ALLOCATED),
        resources=resource_usage.configured(strategy),
        shape=tuple((point.get("utilization", 0), point.get("score", 0)) for point in ratio.get("shape") or ()),
        ignored_resources=frozenset(context.args.get("ignoredResources") or ()),
        ignored_groups=frozenset(context.args.get("ignoredResourceGroups") or ()),
        resizing=context.features.get(resizes.GATE, False),
        device_backed=context.features.get("DRAExtendedResource", True),
    )
