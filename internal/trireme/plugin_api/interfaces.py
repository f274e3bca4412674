"""What an in-tree plugin is: the scheduling framework's extension points over columns instead of nodes.

A filter plugin answers for many slots at once: a small number per slot, an index into the evaluation's distinct
statuses, and how many copies of the pod fit there. `depends_on` is a promise that the engine relies on: a NODE plugin
is called again for a slot only after its node object changed, a NODE_PODS plugin also after its pods changed, a
CLUSTER plugin always.

Score is in `scorers`.

Tests: tests/unit/plugin_api/test_status_table.py, tests/unit/remote/test_response.py.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from trireme.framework import domain_rules, status
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

# More copies than a batch can ever hold: what a plugin that does not count copies answers.
UNLIMITED = np.iinfo(np.int32).max

PASSES = 0


class Dependency(enum.IntEnum):
    """How long an answer about a node stays true; numbers as in trireme.v1.Dependency."""

    NODE = 1
    NODE_PODS = 2
    CLUSTER = 3


# Statuses of one class that keep the reasons that tell them apart; beyond it only their messages do.
DETAILED_STATUSES = 1024

# Statuses of one class beyond which only the first one of a plugin and code is added: an index is an int16, and there
# are far fewer plugins and codes than numbers left.
MAX_STATUSES = 30_000


class StatusTable:
    """The distinct statuses of one class's evaluation. Index 0 passes; numbers are never given to another status.

    A status may name what only one node has (its taint, say), so there could be as many as nodes. Reasons are for
    people who ask why, of a few nodes: where there are too many statuses, further ones go without. Beyond
    `MAX_STATUSES` a status counts as another one of the same plugin and code: messages may then be another node's, but
    not what follows from them (an error stays one, and preemption helps or does not).
    """

    __slots__ = ("_first_of_kind", "_indexes", "statuses")

    def __init__(self) -> None:
        self.statuses: list[status.Status] = []
        self._indexes: dict[status.Status, int] = {}
        self._first_of_kind: dict[tuple[status.Code, str], int] = {}

    def intern(self, entry: status.Status) -> int:
        """The status's number, from 1."""
        index = self._indexes.get(entry)
        if index is None:
            if len(self.statuses) >= DETAILED_STATUSES and entry.has_own_reasons:
                return self.intern(status.Status(entry.code, entry.plugin, entry.messages))
            kind = entry.code, entry.plugin
            if len(self.statuses) >= MAX_STATUSES and kind in self._first_of_kind:
                return self._first_of_kind[kind]
            self.statuses.append(entry)
            index = self._indexes[entry] = len(self.statuses)
            self._first_of_kind.setdefault(kind, index)
        return index

    def find(self, entry: status.Status) -> int:
        """The status's number, from 1; 0: it has none."""
        return self._indexes.get(entry, 0)

    def translate(self, statuses: Sequence[status.Status], index: arrays.Int16Array) -> arrays.Int16Array:
        """Numbers of these statuses, from 1, as numbers of the table. Shapes: any, as `index`."""
        numbers = np.zeros(len(statuses) + 1, dtype=np.int16)
        for number in np.unique(index).tolist():
            if number:
                numbers[number] = self.intern(statuses[number - 1])
        translated: arrays.Int16Array = numbers[index]
        return translated


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """PreFilter's answer about the pod as such.

    `status` refuses the pod (None: it goes on); `skip` leaves out this plugin's Filter; `nodes` narrows the nodes to
    these names (None: not narrowed); `state` is handed to this plugin's Filter. `unanswered`: the plugin could not be
    called and is left out for now; it is called again next time. `max_batch` is how many pods of the class may be
    placed by one answer (0: the plugin sets no limit). `reserves`: Reserve and PreBind have work to do for pods of the
    class. `takes`: the objects (kind, namespace, name) that Reserve takes for a pod, if that changes answers and scores
    of pods that use none of them on the pod's node alone (None: it may change more).
    """

    status: "status.Status | None" = None
    skip: bool = False
    nodes: frozenset[str] | None = None
    state: Any = None
    unanswered: bool = False
    max_batch: int = 0
    reserves: bool = False
    takes: frozenset[tuple[str, str, str]] | None = None


SKIPPED = PreFilterResult(skip=True)


@dataclass(frozen=True, slots=True)
class DryRun:
    """A node as if the pods of these rows were gone, and pods of these classes there."""

    slot: int
    removed_rows: Sequence[int]
    added_classes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A filter plugin's answer. Shapes: all (slot,).

    `index` is PASSES or a number of the StatusTable; `capacity` how many more copies fit (None: no limit by this
    plugin). `domain_refused` marks refusals by a domain constraint alone: a placement elsewhere may lift them (None:
    there are none).
    """

    index: arrays.Int16Array
    capacity: arrays.Int32Array | None = None
    domain_refused: arrays.BoolArray | None = None


class FilterPlugin(Protocol):
    """Says on which nodes a class may run.

    The view may be an overlay, for nominated pods and for preemption's dry runs. So pods are read through its methods
    (`requested`, `count_pods` …) and not from a snapshot's columns, and nothing is stored on the plugin: what follows
    from the cluster belongs in `snap.derived`.

    Implementers: trireme.plugins.*.filter.
    """

    name: str
    depends_on: Dependency
    # What PreFilter or Filter reads beside nodes and pods (see Snapshot.last_change): a change of it makes all answers
    # old.
    reads: tuple[str, ...]

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: StatusTable
    ) -> PreFilterResult:
        """Prepare, narrow, skip or refuse. Called again when what the plugin depends on has changed."""
        ...

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: StatusTable,
    ) -> Verdicts:
        """Verdicts about the slots, ascending or rolled, which all hold nodes."""
        ...


@runtime_checkable
class SlowFilter(FilterPlugin, Protocol):
    """A filter plugin whose answers may take seconds to find: they are prepared in advance, in time slices.

    Implementers: trireme.plugins.dynamic_resources.filter.DynamicResourcesFilter,
    trireme.plugins.dynamic_resources.device_search.DeviceSearch.
    """

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray, remembering: bool = True
    ) -> None:
        """Find what a question about these slots will be about, so that it is answered at once.

        `remembering`: whether the question may be answered by what was found for another pod.
        """
        ...


@runtime_checkable
class IgnoresRequests(Protocol):
    """A filter or score plugin that does not read what containers request: classes of one family share its answers.

    Implementers: trireme.plugins.*.filter, trireme.plugins.*.score.
    """

    ignores_requests: Literal[True]


@runtime_checkable
class IgnoresNodeAffinity(Protocol):
    """A filter plugin that does not read the required node affinity: a DaemonSet's pods share its answers.

    Implementers: trireme.plugins.*.filter.
    """

    ignores_node_affinity: Literal[True]


class PreparedVerdicts(Protocol):
    """What an AsyncFilter found out about one class: PreFilter returns it as its state, and `prepare` fills it.

    It is the only copy of the plugin's verdicts about the class. Classes may share one.

    Implementers: trireme.remote.filter_state.RemoteFilterState, trireme.remote.filter_state.SharedFilterState,
    trireme.remote.recorded_filter._RecordedVerdicts.
    """

    @property
    def unanswered(self) -> bool:
        """Whether the last call failed and the plugin's policy ignores that: it is called again next time."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory of the verdicts, in bytes."""
        ...

    def read(self, slots: arrays.SlotArray, table: StatusTable) -> Verdicts:
        """The verdicts about these slots, in new arrays; slots without an answer pass. `table` is the class's."""
        ...


@runtime_checkable
class AsyncFilter(Protocol):
    """A filter plugin whose answers come from elsewhere, such as a service.

    They are prepared while the cluster goes on changing. What to do about a failed call is the plugin's own policy.

    Implementers: trireme.registry.canary_shares._LimitedFilter, trireme.remote.remote_filter.RemoteFilterPlugin,
    trireme.remote.recorded_filter.RecordedFilterPlugin.
    """

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def depends_on(self) -> Dependency:
        """How long an answer about a node stays true."""
        ...

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> PreFilterResult:
        """As FilterPlugin.pre_filter; the state is a PreparedVerdicts, but for a skip.

        An error as status fails the pod, and PreFilter is called again next time.
        """
        ...

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: StatusTable,
    ) -> "status.Status | None":
        """Find the verdicts on these slots as they are now, and put them into PreFilter's `state`.

        The slots are all that have changed since the last time. Returns a status if that failed, and the pod fails with
        it.
        """
        ...

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: StatusTable,
    ) -> Verdicts:
        """The verdicts that were prepared, for a dry run. What an overlay changes does not count: see `dry_runs`."""
        ...

    async def dry_runs(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        runs: Sequence[DryRun],
        table: StatusTable,
    ) -> Verdicts:
        """Verdicts on nodes as if pods were gone and others there. Shape: (run,)."""
        ...


AnyFilterPlugin = FilterPlugin | AsyncFilter


@runtime_checkable
class DomainFilter(Protocol):
    """A filter plugin whose verdict on other nodes changes with a placement of the class.

    Implementers: trireme.plugins.inter_pod_affinity.filter.InterPodAffinityFilter,
    trireme.plugins.pod_topology_spread.filter.PodTopologySpreadFilter.
    """

    def constraints(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any
    ) -> Sequence[domain_rules.DomainConstraint]:
        """The rules by which a placement changes verdicts, over all slots; empty if it changes none elsewhere."""
        ...

    def affected_slots(
        self, snap: snapshot.Snapshot, before: Any, now: Any, generation: int
    ) -> arrays.SlotArray | None:
        """The slots, ascending, for which the verdict by the state `now` may differ from that by `before`. None: all.

        At this generation, and without those whose nodes have changed since.
        """
        ...


@runtime_checkable
class IsolatedFilter(Protocol):
    """A CLUSTER filter plugin that can judge many changed slots at once, each as if it alone were changed.

    Implementers: trireme.plugins.inter_pod_affinity.filter.InterPodAffinityFilter,
    trireme.plugins.pod_topology_spread.filter.PodTopologySpreadFilter,
    trireme.plugins.volume_restrictions.filter.VolumeRestrictions.
    """

    def filter_isolated(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, slots: arrays.SlotArray, table: StatusTable
    ) -> Verdicts:
        """Verdicts about the slots, each with its own changes, and the rest of the cluster as it is."""
        ...


@runtime_checkable
class DemandFilter(Protocol):
    """A filter plugin that a placed pod affects only by its node's free resources and pod count.

    Implementers: trireme.plugins.node_resources_fit.filter.NodeResourcesFitFilter.
    """

    def demand(self, pod_class: classes.PodClass, state: Any) -> Mapping[str, int] | None:
        """What must be free on a node for one pod of the class; None: there is more to it. `state` is PreFilter's.

        Amounts above 0 by resource, as pods are counted.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReserveResult:
    """What is assumed for one pod on its node. `status` None: success; anything else takes the placement back.

    `assumed` are objects as they will be once PreBind has written them; `state` is given to the plugin's PreBind. Where
    both are empty, PreBind has nothing to do for the pod. `claim_statuses`: resources of the node that the pod takes
    for its claims beside what it requests.
    """

    status: "status.Status | None" = None
    assumed: tuple[snapshot_pb2.ClusterObject, ...] = ()
    state: bytes = b""
    claim_statuses: tuple[core_pb2.NodeAllocatableResourceClaimStatus, ...] = ()


@runtime_checkable
class ReservePlugin(Protocol):
    """A filter plugin that assumes objects beside the pod.

    Implementers: trireme.plugins.dynamic_resources.reserve.DeviceReserve,
    trireme.plugins.dynamic_resources.filter.DynamicResourcesFilter,
    trireme.plugins.volume_binding.filter.VolumeBindingFilter.
    """

    name: str

    def reserve(
        self, pod_class: classes.PodClass, pod: cycle_pb2.PodIdentity, snap: snapshot.Snapshot, slot: int
    ) -> ReserveResult:
        """What to assume for the pod on the node at the slot.

        Nothing is stored: the same question, repeated or put to another replica of the same generation, has the same
        answer.
        """
        ...
