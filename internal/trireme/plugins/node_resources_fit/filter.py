"""NodeResourcesFit's Filter: what the pod asks for must be free. It works on (resource, slot) columns.

Also change: internal/trireme/snapshot/resources.py (resources with fixed numbers).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import amounts, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import device_resources, plugin_context
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view

# So many flags fit a byte; so many, and the number of an entry, an int64.
_FLAGS_OF_BYTE = 8
_FLAGS_AT_ONCE = 30
_EXACT = 2**53

# In which order a refusal names what is short, as kube-scheduler does; all others follow by name. The order of a map is
# another one in each process, and so would be the text.
_FIRST = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class _RequestedResources:
    """What the class asks for, resource by resource.

    `device_backed` may be given by devices where the node has none.
    """

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    device_backed: tuple[bool, ...]


class NodeResourcesFitFilter:
    """The filter of NodeResourcesFit: refuses nodes with too little left of a resource, or too many pods."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE_PODS
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ("device_class",)

    def __init__(self, args: fit_args.Args) -> None:
        self._args = args

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Return what the class asks for as state, without ignored resources; an error if its amounts are invalid."""
        if pod_class.invalid is not None:
            return interfaces.PreFilterResult(status=status.error(self.name, pod_class.invalid))
        backed = _device_backed_resources(snap) if self._args.device_backed else frozenset[str]()
        requested = sorted(
            (
                (name, amount)
                for name, amount in pod_class.amounts.filtering.items()
                if amount > 0 and not self._is_ignored(name)
            ),
            key=lambda each: _place_in_refusals(each[0]),
        )
        demand = _RequestedResources(
            tuple(name for name, _ in requested),
            tuple(amount for _, amount in requested),
            tuple(name in backed for name, _ in requested),
        )
        return interfaces.PreFilterResult(state=demand)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots where something is short, each with all that is short; else count the copies that fit.

        Evicting pods does not help where the node would be too small if it were empty. Resources that devices may stand
        for are not short where the node itself has none.
        """
        demand: _RequestedResources = state
        nodes = snap.nodes
        nodes.ensure_resource_rows()
        where = arrays.slot_index(slots)
        room = nodes.allowed_pods[where] - snap.pod_count(slots)
        copies = room.astype(np.float64)
        own = (
            _find_node_of_resized_pod(pod_class, snap, slots)
            if self._args.resizing and pod_class.pod.spec.node_name
            else None
        )
        amounts_of_nodes = []
        for name, amount, backed in zip(demand.names, demand.amounts, demand.device_backed, strict=True):
            number = nodes.resource_names.find(name)
            if number is None:
                # No node has it. Names that pods make up take no memory.
                allocatable, free = np.zeros((2, slots.shape[0]), dtype=np.int64)
            else:
                allocatable = nodes.allocatable[number, where]
                free = allocatable - snap.requested(number, slots)
            if own is not None:
                own.give_back(name, amount, free)
            fits = _quotients(free, amount)
            if backed:
                fits = np.where(allocatable == 0, interfaces.UNLIMITED, fits)
            amounts_of_nodes.append((allocatable, fits))
            np.minimum(copies, fits, out=copies)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        refused = np.flatnonzero(copies < 1)
        if refused.size:
            lacking = []
            unresolvable = np.zeros(refused.shape[0], dtype=np.bool_)
            for name, amount, (allocatable, fits) in zip(demand.names, demand.amounts, amounts_of_nodes, strict=True):
                short = fits[refused] < 1
                too_much = short & (amount > allocatable[refused])
                if own is not None and own.only_growth_fits(name, amount, allocatable):
                    too_much &= refused != own.at
                unresolvable |= too_much
                lacking.append(short)
            kinds, kind_of = _distinct_combinations([unresolvable, room[refused] < 1, *lacking])
            number_of = np.zeros(max(kinds) + 1, dtype=np.int16)
            for kind_number, kind in kinds.items():
                number_of[kind_number] = table.intern(self._refusal_for_lacking(kind[0], kind[1], kind[2:], demand))
            index[refused] = number_of.take(kind_of)
            np.maximum(copies, 0, out=copies)
        return interfaces.Verdicts(index, np.minimum(copies, interfaces.UNLIMITED, out=copies).astype(np.int32))

    def demand(self, pod_class: classes.PodClass, state: Any) -> Mapping[str, int] | None:
        """What the class asks for; None where devices may stand for it, or it is that of a pod on a node already."""
        demand: _RequestedResources = state
        if any(demand.device_backed) or pod_class.pod.spec.node_name:
            return None
        return dict(zip(demand.names, demand.amounts, strict=True))

    def _is_ignored(self, name: str) -> bool:
        """Whether the arguments have the resource ignored, by its name or its group; only extended resources can be."""
        if not amounts.is_extended(name):
            return False
        return name in self._args.ignored_resources or name.split("/", 1)[0] in self._args.ignored_groups

    def _refusal_for_lacking(
        self, unresolvable: bool, crowded: bool, lacking: Sequence[bool], demand: _RequestedResources
    ) -> status.Status:
        """Make the refusal that names all that is short; `crowded`: the node has no room for another pod.

        `lacking` marks the resources of the demand that are short; `unresolvable`: preemption cannot help.
        """
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
class _NodeOfResizedPod:
    """Where a pod that is resized is, among the given slots, and what it counts as there."""

    at: int
    counted: Mapping[str, int]

    def give_back(self, name: str, amount: int, free: arrays.Int64Array) -> None:
        """Add to what is free on the pod's own node what the pod itself has there: only its growth must be free.

        Of a scalar resource that does not grow, nothing must be free.
        """
        counted = self.counted.get(name, 0)
        free[self.at] += min(amount, counted)
        if amounts.is_scalar(name) and counted >= amount:
            free[self.at] = max(free[self.at], amount)

    def only_growth_fits(self, name: str, amount: int, allocatable: arrays.Int64Array) -> bool:
        """Whether a scalar resource is too much for the node as a whole, but its growth is not. Shape: (slot,)."""
        growth = amount - min(amount, self.counted.get(name, 0))
        return amounts.is_scalar(name) and growth <= int(allocatable[self.at])


def _find_node_of_resized_pod(
    pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, slots: arrays.SlotArray
) -> _NodeOfResizedPod | None:
    """Return where the resized pod is and what it counts as; None if its node is not among `slots`, or it is gone."""
    slot = snap.nodes.slot_of_name.get(pod_class.pod.spec.node_name, -1)
    at = np.flatnonzero(slots == slot)
    if not at.size:
        return None
    own = snap.class_of_pod(pod_class.pod.metadata.uid, slot)
    return None if own is None else _NodeOfResizedPod(int(at[0]), snap.classes[own].amounts.placed)


def _quotients(free: arrays.Int64Array, amount: int) -> arrays.Int64Array | arrays.Float64Array:
    """How often the amount is in what is free, perhaps with a fraction; below 1 where not once. Shape: as `free`."""
    # Floating point divides in a third of the time, and rounds no quotient of such numbers up to a whole one.
    return free / amount if int(free.max(initial=0)) < _EXACT else free // amount


def _distinct_combinations(
    flags: Sequence[arrays.BoolArray],
) -> tuple[dict[int, list[bool]], arrays.UInt8Array | arrays.Int64Array]:
    """The distinct combinations of flags by number, ascending, and the number of each entry's. Shapes: (n,)."""
    if len(flags) <= _FLAGS_OF_BYTE:
        code = flags[0].view(np.uint8).copy()
        for flag in flags[1:]:
            code <<= 1
            code |= flag.view(np.uint8)
        shifts = range(len(flags) - 1, -1, -1)
        found = np.flatnonzero(np.bincount(code)).tolist()
        return {number: [bool(number >> shift & 1) for shift in shifts] for number in found}, code
    many = np.zeros(flags[0].shape[0], dtype=np.int64)
    for count, flag in enumerate(flags, start=1):
        many = many * 2 + flag
        if count % _FLAGS_AT_ONCE == 0:
            many = np.unique(many, return_inverse=True)[1]
    _, first, inverse = np.unique(many, return_index=True, return_inverse=True)
    return dict(enumerate(np.array(flags)[:, first].T.tolist())), inverse


def _place_in_refusals(name: str) -> tuple[int, str]:
    """Where a refusal names the resource, if it is short, as a key to sort by."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name


def _device_backed_resources(snap: snapshot_view.SnapshotView) -> frozenset[str]:
    """Return the extended resources that some device class stands for, by the name it states or by its own."""
    out = set()
    for entry in snap.objects.all("device_class"):
        out |= {entry.spec.extended_resource_name, device_resources.CLASS_RESOURCE_PREFIX + entry.metadata.name}
    return frozenset(out)


def make(context: plugin_context.PluginContext) -> NodeResourcesFitFilter:
    """Make the filter, by its arguments and the feature gates."""
    return NodeResourcesFitFilter(fit_args.read(context.args, context.features))
