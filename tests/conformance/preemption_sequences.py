"""Preemptors in a cluster that changes all the time, of one filter that keeps what it found, and of ones that are new.

Nodes, pods, budgets and nominations come, change and go at random, as `situation_preemption` draws them. In between
pods are asked about: several of a class in one call, one by one, or where they are nominated. Each is asked about once
more, alone, of a filter that is made for this one question; all must answer the same. A filter is a service
or an engine. What is said comes true, so that the next one meets victims that go and pods that wait.
"""

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import grpc

from tests.conformance import decision_profiles, decisions, in_process_phases, situation_preemption
from tests.conformance.decision_cluster import DecisionCluster, Json
from tests.conformance.decision_phases import hash_of
from tests.conformance.golden_rows import Row
from trireme.filter import service as filter_service
from trireme.framework import status
from trireme.registry import remote_makers
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, snapshot_pb2
from trireme.wire import identities, node_columns
from trireme.wire import status as wire_status

# Few candidates are looked for, so that it matters where the search begins.
_FEW = [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 2}}]
_SETUP = decision_profiles.make([decision_profiles.arguments_of({"pluginConfig": _FEW})])
_HASH = hash_of(_SETUP.configuration)
_FENCE = cycle_pb2.Fence(epoch=1, lease_valid_ms=15_000)

# What nodes say: a status of each that refuses.
Said = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """One pod was decided: what the filter said that keeps what it found, and what a new one said.

    `row` is the situation, as a golden row, with the result of PostFilter.
    """

    kept: tuple[Said, bytes]
    anew: tuple[Said, bytes]
    row: Row | None


class _Context:
    """What the service uses of a call's context."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing: Any = ()) -> NoReturn:
        raise AssertionError(f"{code}: {details}")

    async def write(self, message: Any) -> None:
        """An acknowledgement, which nobody waits for."""

    def time_remaining(self) -> float:
        return 60.0


@dataclass(frozen=True, slots=True)
class _Filtered:
    """What a filter says: why it refuses the pod on all nodes, or the columns; results of PostFilter for pods."""

    refusal: status.Status | None
    columns: node_columns.NodeColumns | None
    post_filter: Iterable[filter_phase_pb2.PostFilterResult] = ()

    @property
    def refused(self) -> node_columns.NodeColumns:
        """Why each node refuses."""
        return self.columns or node_columns.from_message(filter_pb2.NodeColumns())


class Filter(Protocol):
    """One filter, in this process."""

    snap: snapshot.Snapshot

    async def begin(self, cluster: DecisionCluster) -> None:
        """Take the cluster as it is."""
        ...

    async def filter(
        self, cycle: cycle_pb2.Cycle, base_generation: int = 0, preemptors: Iterable[core_pb2.Pod] = ()
    ) -> _Filtered:
        """Filter's answer, for so many preemptors at once."""
        ...

    async def nominated(self, cycle: cycle_pb2.Cycle, nominees: Iterable[filter_phase_pb2.Nominee]) -> int:
        """How many of the pods, the first ones, may run where they are nominated to."""
        ...

    async def post_filter(
        self, cycle: cycle_pb2.Cycle, said: _Filtered, columns: node_columns.NodeColumns, pods: Iterable[core_pb2.Pod]
    ) -> list[filter_phase_pb2.PostFilterResult]:
        """PostFilter's results for the first pods, after what Filter said."""
        ...


class ServiceFilter:
    """The filter's service, called without a channel."""

    def __init__(self) -> None:
        self.snap = snapshot.Snapshot()
        self.service = filter_service.FilterPhase(self.snap, remote_makers.no_remote_plugin)

    async def begin(self, cluster: DecisionCluster) -> None:
        """As Filter says."""
        hello = snapshot_pb2.Hello(fence=_FENCE, config_hash=_HASH, configuration=_SETUP.configuration)
        requests = [snapshot_pb2.SyncRequest(hello=hello)]
        requests += [snapshot_pb2.SyncRequest(delta=delta) for delta in cluster.cache.full_sync()]
        await self.service.follow.Sync(_stream(requests), _context())

    async def filter(
        self, cycle: cycle_pb2.Cycle, base_generation: int = 0, preemptors: Iterable[core_pb2.Pod] = ()
    ) -> _Filtered:
        """As Filter says."""
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=cycle,
            base_generation=base_generation,
            preemptors=identities.preemptors([*preemptors], cycle.generation),
        )
        request.count = max(len(request.preemptors), 1)
        response = await self.service.Filter(request, _context())
        said = wire_status.from_message(response.pre_filter.status)
        columns = node_columns.from_message(response.columns) if response.HasField("columns") else None
        return _Filtered(said if response.pre_filter.status.messages else None, columns, response.post_filter_results)

    async def nominated(self, cycle: cycle_pb2.Cycle, nominees: Iterable[filter_phase_pb2.Nominee]) -> int:
        """As Filter says."""
        request = filter_phase_pb2.FilterNominatedRequest(cycle=cycle, nominees=nominees)
        return (await self.service.FilterNominated(request, _context())).admitted

    async def post_filter(
        self, cycle: cycle_pb2.Cycle, said: _Filtered, columns: node_columns.NodeColumns, pods: Iterable[core_pb2.Pod]
    ) -> list[filter_phase_pb2.PostFilterResult]:
        """As Filter says."""
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=cycle,
            columns=node_columns.to_message(columns),
            preemptors=identities.preemptors([*pods], cycle.generation),
        )
        if said.refusal is not None:
            request.pre_filter.CopyFrom(wire_status.to_message(said.refusal))
        return [*(await self.service.RunPostFilter(request, _context())).results]


class EngineFilter:
    """An engine, asked as InProcessEvaluators asks it."""

    def __init__(self) -> None:
        self.snap = snapshot.Snapshot()
        self._engine = in_process_phases.evaluators_of(self.snap, _SETUP.configuration).engine.filter

    async def begin(self, cluster: DecisionCluster) -> None:
        """As Filter says."""
        for delta in cluster.cache.full_sync():
            self.snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    async def filter(
        self, cycle: cycle_pb2.Cycle, base_generation: int = 0, preemptors: Iterable[core_pb2.Pod] = ()
    ) -> _Filtered:
        """As Filter says."""
        pods = identities.preemptors([*preemptors], cycle.generation)
        answer = await self._engine.filter(cycle, max(len(pods), 1), base_generation, pods)
        columns = answer.columns if answer.refusal is None else None
        return _Filtered(answer.refusal, columns, answer.post_filter_results)

    async def nominated(self, cycle: cycle_pb2.Cycle, nominees: Iterable[filter_phase_pb2.Nominee]) -> int:
        """As Filter says."""
        return (await self._engine.filter_nominated(cycle, list(nominees))).admitted

    async def post_filter(
        self, cycle: cycle_pb2.Cycle, said: _Filtered, columns: node_columns.NodeColumns, pods: Iterable[core_pb2.Pod]
    ) -> list[filter_phase_pb2.PostFilterResult]:
        """As Filter says."""
        preemptors = identities.preemptors([*pods], cycle.generation)
        return [*(await self._engine.run_post_filter(cycle, columns, said.refusal, preemptors)).results]


class Sequence:
    """One cluster and what happens in it; by the seed alone."""

    def __init__(self, seed: int, make: Callable[[], Filter], *, few: bool) -> None:
        """`make` makes the filters that are asked; `few`: few candidates are enough for preemption."""
        self._draw = random.Random(seed)
        reasons = frozenset(self._draw.sample(_REASONS, self._draw.choice((0, 0, 0, 1, 1, 2))))
        self._drawn = situation_preemption.Preempting(self._draw, reasons)
        case = self._drawn.row("sequence", str(seed))["case"]
        self._seed = seed
        self._case = {**case, "nodes": [], "pods": [], "nominated": [], "podDisruptionBudgets": []}
        self._case.pop("pluginConfig", None)
        if few:
            self._case["pluginConfig"] = _FEW
        self._profile = decision_profiles.default_profile(decision_profiles.arguments_of(self._case))
        self._cluster = DecisionCluster(self._case)
        self._cluster.fill()
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._waiting: dict[str, Json] = {}
        self._budgets: dict[str, Json] = {}
        for node in case["nodes"]:
            self._set_node(node)
        for pod in case["pods"]:
            self._place(pod)
        for number in range(4 * len(self._nodes)):
            self._place(self._drawn.placed(f"old{number}", self._draw.choice(sorted(self._nodes))))
        for budget in case.get("podDisruptionBudgets", ())[: self._draw.choice((0, 0, 2))]:
            self._set_budget(budget)
        self._classes = [self._drawn.incoming() for _ in range(3)]
        for pod in self._classes[:2]:
            pod["spec"].pop("preemptionPolicy", None)
        self._count = 0
        self._make = make
        self._filter = make()
        self._answers: dict[int, node_columns.NodeColumns] = {}

    async def run(self, questions: int) -> AsyncIterator[Decision]:
        """What is decided, one pod after the other."""
        self._cluster.cache.take_delta()
        await self._filter.begin(self._cluster)
        for _ in range(questions):
            for _ in range(self._draw.choice((0, 1, 2, 4, 8))):
                self._happen()
            pods = self._preemptors()
            nominated = [pod for pod in self._waiting.values() if pod["metadata"]["name"].startswith("me-")]
            if nominated and self._draw.random() < 0.4:
                if self._draw.random() < 0.8:
                    self._let_go(1.0)
                async for decision in self._where_nominated(nominated):
                    yield decision
            elif self._draw.random() < 0.3:
                yield await self._alone(pods[0])
            else:
                async for decision in self._together(pods):
                    yield decision

    # --- what happens

    def _happen(self) -> None:
        draw = self._draw
        pods, nodes, waiting = sorted(self._pods), sorted(self._nodes), sorted(self._waiting)
        match draw.randrange(12):
            case 0 if pods:
                # Who preempted others is done sooner: else nobody is left whom others may preempt.
                important = [uid for uid in pods if uid.startswith("me-")]
                self._remove_pod(draw.choice(important or pods))
            case 1:
                self._let_go(draw.random())
            case 2 | 3 | 4:
                self._count += 1
                self._place(self._drawn.placed(f"more{self._count}", draw.choice(nodes)))
            case 5 if pods:
                # It is going; or the kubelet tells when it started.
                pod = copy.deepcopy(self._pods[draw.choice(pods)])
                pod["metadata"] |= draw.choice(
                    ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]})
                )
                pod["status"]["startTime"] = f"2026-01-01T00:00:{draw.randrange(60):02}Z"
                self._place(pod)
            case 6 if waiting:
                for uid in draw.sample(waiting, draw.randint(1, len(waiting))):
                    self._nominate(self._waiting[uid], draw.choice(("", "", *nodes)))
            case 7:
                self._count += 1
                self._nominate(self._drawn.nominated(f"w{self._count}"), draw.choice(nodes))
            case 8 if len(nodes) > 1:
                name = draw.choice(nodes)
                for uid in [uid for uid, pod in self._pods.items() if pod["spec"]["nodeName"] == name]:
                    self._remove_pod(uid)
                for pod in [pod for pod in self._waiting.values() if pod["status"]["nominatedNodeName"] == name]:
                    self._nominate(pod, "")
                self._cluster.cache.remove_node(name)
                del self._nodes[name]
            case 9:
                self._set_node(self._drawn.node(draw.choice((*nodes, f"n{draw.randrange(12):02}"))))
            case 10 if self._budgets and draw.random() < 0.7:
                name = draw.choice(sorted(self._budgets))
                gone = self._budgets.pop(name)
                self._cluster.cache.remove_object("pod_disruption_budget", gone["metadata"]["namespace"], name)
            case 11 if draw.random() < 0.3:
                self._set_budget(self._drawn.budget(f"b{draw.randrange(3)}", list(self._pods.values())))

    def _set_node(self, node: Json) -> None:
        if self._draw.random() < 0.7:
            # Room for several preemptors, once others are gone.
            node["status"]["allocatable"]["cpu"] = self._draw.choice(("3", "4", "6"))
        self._nodes[node["metadata"]["name"]] = node
        self._cluster.set_node(node)

    def _set_budget(self, budget: Json) -> None:
        name = budget["metadata"]["name"]
        gone = self._budgets.pop(name, None)
        if gone is not None:
            self._cluster.cache.remove_object("pod_disruption_budget", gone["metadata"]["namespace"], name)
        self._budgets[name] = budget
        self._cluster.set_object(budget)

    def _place(self, pod: Json) -> None:
        self._pods[pod["metadata"]["uid"]] = pod
        self._cluster.place(pod)

    def _remove_pod(self, uid: str) -> None:
        del self._pods[uid]
        self._cluster.cache.remove_pod(uid)

    def _nominate(self, pod: Json, node: str) -> None:
        """The pod waits for the node; "": for none."""
        uid = pod["metadata"]["uid"]
        changed = {**pod, "status": {**pod["status"], "nominatedNodeName": node}}
        self._cluster.nominate(changed)
        self._waiting.pop(uid, None)
        if node:
            self._waiting[uid] = changed

    def _let_go(self, share: float) -> None:
        """So many of those that are going are gone; of others their objects say by now that they are going."""
        for uid in [uid for uid in self._pods if "deletionTimestamp" in self._pods[uid]["metadata"]]:
            if self._draw.random() < share:
                self._remove_pod(uid)
            elif self._draw.random() < 0.5:
                self._place(self._pods[uid])

    # --- who is asked about

    def _preemptors(self) -> list[Json]:
        """Some pods of one class; perhaps one that is nominated already."""
        pod = self._draw.choice(self._classes)
        out = []
        for _ in range(self._draw.choice((1, 2, 3, 6))):
            self._count += 1
            name = f"me-{self._count}"
            out.append(
                {**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}, "status": {"phase": "Pending"}}
            )
        again = [each for each in self._waiting.values() if each["spec"] == pod["spec"]]
        if again and self._draw.random() < 0.2:
            out[0] = self._draw.choice(again)
        return out

    async def _alone(self, pod: Json) -> Decision:
        """One pod, by two calls."""
        class_id = self._follow(pod)
        cycle = self._cycle(class_id, pod)
        known = self._answers.setdefault(class_id, node_columns.NodeColumns())
        own = pod["metadata"]["uid"] in self._waiting
        if own:
            known = node_columns.NodeColumns()
        said = await self._filter.filter(cycle, known.generation)
        if said.columns is not None:
            known.update(said.columns)
        way = None
        if not known.has_feasible_node or said.refusal is not None:
            way = (await self._filter.post_filter(cycle, said, known, [cycle.pod]))[0].answer
        told = {} if said.refusal is not None else self._by_node(known.statuses, known.index.tolist())
        return await self._decided(pod, class_id, told, way)

    async def _together(self, pods: list[Json]) -> AsyncIterator[Decision]:
        """Several pods of a class, by one call of Filter, or of PostFilter after it."""
        class_id = self._follow(*pods)
        cycle = self._cycle(class_id, pods[0])
        preemptors = [_message(pod) for pod in pods]
        after = self._count % 2
        said = await self._filter.filter(cycle, preemptors=() if after else preemptors)
        columns, results = said.refused, [*said.post_filter]
        if after and not _fits(said):
            results = await self._filter.post_filter(cycle, said, columns, preemptors)
        told = {} if said.refusal is not None else self._by_node(columns.statuses, columns.index.tolist())
        for pod, result in zip(pods, results, strict=False):
            if result.HasField("changed_slot"):
                now = wire_status.from_message(result.changed_status)
                told = {**told, self._filter.snap.nodes.names[result.changed_slot]: now}
            yield await self._decided(pod, class_id, told, result.answer)
        if not results:
            yield await self._alone(pods[0])

    async def _where_nominated(self, waiting: list[Json]) -> AsyncIterator[Decision]:
        """Pods of a class, each on the node that it waits for, by one call."""
        draw = self._draw
        first = draw.choice(waiting)
        alike = [pod for pod in waiting if pod["spec"] == first["spec"] and pod is not first]
        others = draw.sample(alike, draw.choice((len(alike), draw.randint(0, len(alike)))))
        class_id = self._follow(first, *others)
        alike = [pod for pod in others if self._cluster.class_of(pod) == class_id]
        nominees = [
            filter_phase_pb2.Nominee(
                pod=_identity(pod), slot=self._cluster.cache.slot_of(pod["status"]["nominatedNodeName"])
            )
            for pod in (first, *alike)
        ]
        admitted = await self._filter.nominated(self._cycle(class_id, first), nominees)
        for pod in (first, *alike)[:admitted]:
            node = pod["status"]["nominatedNodeName"]
            anew, _, _ = await self._anew(pod, class_id)
            yield Decision(({node: None}, b""), ({node: anew.get(node)}, b""), None)
            self._bind(pod, node)
        left = [first, *alike][admitted:]
        if left and not admitted:
            yield await self._alone(left[0])

    async def _decided(
        self, pod: Json, class_id: int, told: Said, way: filter_pb2.PostFilterResponse | None
    ) -> Decision:
        self._tell()
        anew = await self._anew(pod, class_id)
        said = (told, b"" if way is None else way.SerializeToString(deterministic=True))
        row = None if way is None else self._row(pod, way)
        if way is not None:
            self._come_true(pod, way)
        elif self._draw.random() < 0.7:
            free = [name for name in sorted(self._nodes) if name not in told]
            self._bind(pod, self._draw.choice(free))
        return Decision(said, anew[:2], row)

    async def _anew(self, pod: Json, class_id: int) -> tuple[Said, bytes, bool]:
        """The answer about the pod of a filter that knows nothing but the cluster as it is."""
        self._tell()
        new = self._make()
        await new.begin(self._cluster)
        cycle = self._cycle(class_id, pod)
        said = await new.filter(cycle)
        columns, refused = said.refused, said.refusal is not None
        told = {} if refused else self._by_node(columns.statuses, columns.index.tolist())
        fits = _fits(said)
        way = None if fits else (await new.post_filter(cycle, said, columns, [cycle.pod]))[0].answer
        return told, b"" if way is None else way.SerializeToString(deterministic=True), fits

    # --- what comes of it

    def _come_true(self, pod: Json, way: filter_pb2.PostFilterResponse) -> None:
        for action in way.actions:
            if action.HasField("evict"):
                self._evict(action.pod.uid)
        if way.nominated_node or way.clear_nomination:
            self._nominate(pod, way.nominated_node)

    def _evict(self, uid: str) -> None:
        """The victim is going: the frontend says so at once, before its object does."""
        victim = copy.deepcopy(self._pods[uid])
        victim["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        victim["status"]["conditions"] = [condition]
        self._pods[uid] = victim
        self._cluster.cache.set_evicting(uid, True)

    def _bind(self, pod: Json, node: str) -> None:
        self._nominate(pod, "")
        spec = {**pod["spec"], "nodeName": node}
        self._place({**pod, "spec": spec, "status": {"phase": "Running", "startTime": "2026-01-02T00:00:00Z"}})

    # --- asking

    def _follow(self, *pods: Json) -> int:
        """The class of the pods, with which the filter has all that happened."""
        class_id = max(self._cluster.class_of(pod) for pod in pods)
        self._tell()
        return class_id

    def _tell(self) -> None:
        delta = self._cluster.cache.take_delta()
        if delta is not None:
            self._filter.snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    def _cycle(self, class_id: int, pod: Json) -> cycle_pb2.Cycle:
        return cycle_pb2.Cycle(
            fence=_FENCE,
            generation=self._cluster.cache.generation,
            config_hash=_HASH,
            profile=self._profile,
            pod=_message(pod),
            pod_class=class_id,
        )

    def _by_node(self, statuses: Any, index: list[int]) -> Said:
        slots = {name: self._cluster.cache.slot_of(name) for name in self._nodes}
        return {name: statuses[index[slot] - 1] for name, slot in slots.items() if index[slot]}

    def _row(self, pod: Json, way: filter_pb2.PostFilterResponse) -> Row:
        waiting = [each for uid, each in self._waiting.items() if uid != pod["metadata"]["uid"]]
        case = {**self._case, "nodes": list(self._nodes.values()), "pods": list(self._pods.values()), "pod": pod}
        case |= {"nominated": waiting, "podDisruptionBudgets": list(self._budgets.values())}
        name = f"{self._seed}-{pod['metadata']['name']}"
        answer = decisions.post_filter_answer(way)
        # Who was evicted before and has no object yet that says so is evicted again; the situation has the object.
        going = {each["metadata"]["name"] for each in case["pods"] if "deletionTimestamp" in each["metadata"]}
        victims = [victim for victim in answer.pop("victims", ()) if victim not in going]
        answer |= {"victims": victims} if victims else {}
        return {"name": name, "case": copy.deepcopy(case), "answer": answer}


# What a sequence may be about; what else has to be there stays as it is.
_REASONS = ("ports", "interpod", "spread", "scalars", "helpers", "whole", "taints", "exclusive", "selectors")


def _fits(said: _Filtered) -> bool:
    columns = said.refused
    return said.refusal is None and bool(((columns.index == 0) & (columns.capacity > 0)).any())


def _message(pod: Json) -> core_pb2.Pod:
    out = core_pb2.Pod()
    metadata = pod["metadata"]
    out.metadata.namespace, out.metadata.name, out.metadata.uid = (
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
    )
    out.status.nominated_node_name = pod["status"].get("nominatedNodeName", "")
    return out


def _identity(pod: Json) -> cycle_pb2.PodIdentity:
    metadata = pod["metadata"]
    return cycle_pb2.PodIdentity(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])


async def _stream(requests: list[snapshot_pb2.SyncRequest]) -> AsyncIterator[snapshot_pb2.SyncRequest]:
    for request in requests:
        yield request


def _context() -> Any:
    return _Context()


def decisions_of(
    seed: int, questions: int, make: Callable[[], Filter] = ServiceFilter, *, few: bool = False
) -> Iterator[Decision]:
    """All that a sequence decides. `few`: few candidates are enough for preemption, so that chance has a say in it."""

    async def collect() -> list[Decision]:
        return [decision async for decision in Sequence(seed, make, few=few).run(questions)]

    return iter(asyncio.run(collect()))
