"""A whole frontend without a network: its own parts, on a loop whose clock stands still, and a world that it schedules.

The API server is two lists of what ever happened to pods and nodes; how much of either the frontend has seen is up to
the test, and so is what a watch repeats. Filter, score and bind are fakes that answer when the test lets them, from a
snapshot that follows the frontend's own deltas, so that an answer can be out of date by the time it comes.
"""

import asyncio
import contextlib
import copy
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.helpers import frontend_world_services, frontend_world_victims
from tests.helpers.frontend_world_api import Api
from tests.helpers.frontend_world_victims import cpus
from tests.helpers.virtual_time import StillLoop
from trireme.cache import class_registry, cluster_cache, extender_objects, object_kinds, pod_projection
from trireme.config import commandline, scheduler_configuration
from trireme.evaluation.preemption import post_filter_context
from trireme.extenders import extender_assembly, extenders
from trireme.framework import status
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import app, scheduler_metrics
from trireme.frontend.phase_clients import local_phases, phase_links
from trireme.frontend.serving import frontend_state
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.frontend.term import Term
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    scheduling_pb2,
    score_phase_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import node_columns, packing
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.componentbase import supervision

Json = dict[str, Any]

T0 = 1_000_000.25
# The Permit plugin; pods of this many CPUs wait for it, and those of the other number reserve and pre-bind.
GUARD = "Guard"
GUARDED_CPUS = 3
PREPARED_CPUS = 2

SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
INSUFFICIENT = status.unschedulable("NodeResourcesFit", "Insufficient cpu")

# One has a say in where pods go, the other binds them, and where it fails the Bind plugins do.
EXTENDERS = (
    scheduler_configuration.Extender(url_prefix="http://one", filter_verb="filter", node_cache_capable=True),
    scheduler_configuration.Extender(
        url_prefix="http://two", bind_verb="bind", node_cache_capable=True, ignorable=True
    ),
)


@dataclasses.dataclass(eq=False)
class PendingCall:
    """A call of the frontend that waits for the test to answer. `written`: what it asks for is done already."""

    rpc: str
    request: Any
    answer: Any
    future: "asyncio.Future[str]"
    written: bool = False


def _build(world: "World", completed: commandline.CompletedConfig) -> app.App:
    """A frontend whose phases and extenders are the world's, that leads, and knows all there is."""
    unused: Any = None  # the clients of the API server: the world shows the frontend what they would

    def connect(*_: Any, **__: Any) -> phase_links.PhaseLinks:
        phases: tuple[Any, ...] = (
            frontend_world_services.FakePhase(world.respond, world.follow),
            frontend_world_services.FakePhase(world.respond, lambda request: None),
            frontend_world_services.FakeBinders(world.respond),
        )
        return phase_links.PhaseLinks(*phases)

    def seen(uid: str) -> Json | None:
        return world.seen.get(uid)

    def make_extenders(
        configured: Sequence[scheduler_configuration.Extender],
        registry: class_registry.ClassRegistry,
        cache: cluster_cache.ClusterCache,
    ) -> extender_assembly.OpenExtenders | None:
        if not configured:
            return None
        made = [(config, frontend_world_services.FakeExtender(world.respond)) for config in configured]
        asking = extenders.Extenders(made, registry, cache, frontend_world_services.ObjectsOfPods(seen))
        return extender_assembly.OpenExtenders(asking, extender_objects.ExtenderObjects(False, False), unused)

    built = app.build(
        completed,
        app.Clients(unused, unused, {}),
        {},
        scheduler_metrics.of_configuration(completed, world.measuring_clock),
        rejected=lambda: world.rejected,
        clocks=ports.Clocks(world.now, world.loop.time, world.wall),
        connect=connect,
        make_extenders=make_extenders,
    )
    built.context.leader.begin(Term(1, "", lambda: 10.0))
    return dataclasses.replace(built, informers=())


@functools.cache
def _completed(*more: str, extended: bool) -> commandline.CompletedConfig:
    """The default configuration, with a Permit plugin, with more arguments, and perhaps with extenders."""
    found: list[commandline.CompletedConfig] = []
    arguments = ["--master=http://127.0.0.1:1", "--secure-port=0", "--leader-elect=false", *more]

    def build(completed: commandline.CompletedConfig) -> int:
        found.append(completed)
        return 0

    assert commandline.run(arguments, environment={}, build=build, log=lambda line: None) == 0
    (profile,) = found[0].profiles
    guarded = dataclasses.replace(
        profile, plugins={**profile.plugins, ExtensionPoint.PERMIT: (scheduler_configuration.Plugin(GUARD, 0),)}
    )
    configuration = found[0].configuration
    if extended:
        configuration = dataclasses.replace(configuration, extenders=EXTENDERS)
    return dataclasses.replace(found[0], profiles=(guarded,), configuration=configuration)


class World:
    """The frontend, the API server, and the calls that wait for an answer."""

    def __init__(self, *arguments: str, extended: bool = False) -> None:
        """`arguments` are the frontend's, beside those that it needs here; `extended`: it has extenders."""
        self.loop = StillLoop()
        self.wall_ahead = 0.0
        #: The Permit plugins' messages about waiting pods, by plugin; empty: the guard alone waits, without one.
        self.permit_messages: dict[str, str] = {}
        #: Remote plugins that took part and are rejected.
        self.rejected: frozenset[str] = frozenset()
        self.api = Api()
        self.mirror = snapshot.Snapshot()
        self.pending_calls: list[PendingCall] = []
        self.delivered = {"pods": 0, "nodes": 0}
        # What the frontend should know, by what was delivered: pods by UID.
        self.seen: dict[str, Json] = {}
        with self._current_loop():
            self.frontend = _build(self, _completed(*arguments, extended=extended))
        self._tasks = [
            self.loop.create_task(self.frontend.scheduling.scheduler.run()),
            self.loop.create_task(self.frontend.scheduling.outbox.run()),
            # A task in the background that fails ends a frontend, and so the test.
            self.loop.create_task(supervision.failure_of(self.frontend.scheduling.supervisors())),
        ]
        self.loop.settle()

    @contextlib.contextmanager
    def _current_loop(self) -> Iterator[None]:
        asyncio.set_event_loop(self.loop)
        try:
            yield
        finally:
            asyncio.set_event_loop(None)

    def frontend_state(self) -> FrontendState:
        """What reports about the frontend read."""
        return frontend_state.state_of_app(self.frontend, local_phases.LocalPhases({}, {}))

    def measuring_clock(self) -> float:
        """The clock of metrics. It does not begin at zero, where a time of it could pass for a duration."""
        return 1000.0 + self.loop.time()

    def now(self) -> float:
        """The steady clock. Units: Unix seconds."""
        return T0 + self.loop.time()

    def wall(self) -> float:
        """The wall clock, which a test may set. Units: Unix seconds."""
        return self.now() + self.wall_ahead

    def pending_rpcs(self) -> list[str]:
        """What waits for an answer."""
        return [call.rpc for call in self.pending_calls]

    def pending_call(self, rpc: str) -> PendingCall:
        """The only call of this RPC that waits for an answer."""
        (call,) = (each for each in self.pending_calls if each.rpc == rpc)
        return call

    def close(self) -> None:
        """End all."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await self.frontend.scheduling.preemptions.close()
            await self.frontend.scheduling.binding.close()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for result in results:
                if not isinstance(result, asyncio.CancelledError):
                    raise AssertionError("the scheduler ended") from result

        try:
            self.loop.run_until_complete(end())
        finally:
            self.loop.close()

    # The watches

    def set_available(self, phase: str, available: bool) -> None:
        """Let the replicas of `filters`, `scores` or `binders` come or go."""
        getattr(self.frontend.phases.links, phase).available = available

    def create(self, name: str, cpu: int, priority: int = 0, *, gated: bool = False) -> None:
        """Somebody makes a pod, and the frontend hears of it."""
        self.api.add_pod(name, cpu, priority, gated=gated)
        self.deliver("pods", 1000)

    def deliver(self, resource: str, count: int) -> None:
        """The next events of a watch, in one chunk."""
        start = self.delivered[resource]
        events = self.api.log[resource][start : start + count]
        self.delivered[resource] = start + len(events)
        if resource == "pods":
            for kind, raw in events:
                self.seen[raw["metadata"]["uid"]] = raw
                if kind is EventKind.DELETED:
                    del self.seen[raw["metadata"]["uid"]]
        self._deliver(resource, events)

    def repeat(self, resource: str, back: int) -> None:
        """An event that was delivered already, of an object that is still known, comes again."""
        position = self.delivered[resource] - 1 - back
        if position < 0:
            return
        kind, raw = self.api.log[resource][position]
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        known = [entry for _, entry in self.api.log[resource][: self.delivered[resource]] if _named(entry, name)]
        gone = (EventKind.DELETED, known[-1]) in self.api.log[resource]
        if kind is not EventKind.DELETED and not gone and known[-1]["metadata"]["uid"] == uid:
            self._deliver(resource, [(kind, raw)])

    def relist(self, resource: str, twice: bool) -> None:
        """The watch is lost, and all is listed; perhaps the first list breaks off and is begun again."""
        listed = [(EventKind.LISTED, copy.deepcopy(raw)) for raw in self.api.stored(resource).values()]
        if resource == "pods":
            self.seen = {raw["metadata"]["uid"]: raw for _, raw in listed}
        if twice:
            self._deliver(resource, [(EventKind.LIST_START, None), *listed[: len(listed) // 2]])
        self._deliver(resource, [(EventKind.LIST_START, None), *listed, (EventKind.LIST_END, None)])
        self.delivered[resource] = len(self.api.log[resource])

    def deliver_group(self, kind: EventKind, group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup) -> None:
        """The watch of such groups tells."""
        (of_groups,) = (each for each in object_kinds.KINDS if isinstance(group, each.message))

        async def deliver() -> None:
            self.frontend.inbox.on_objects(of_groups, [Event(kind, group)])

        self.loop.run_until_complete(deliver())
        self.loop.settle()

    def _deliver(self, resource: str, events: Sequence[tuple[EventKind, Json | None]]) -> None:
        inbox = self.frontend.inbox
        take, parse = (inbox.on_pods, pod_projection.parse) if resource == "pods" else (inbox.on_nodes, _node)

        async def deliver() -> None:
            take([Event(kind, None if raw is None else parse(raw)) for kind, raw in events])

        self.loop.run_until_complete(deliver())
        self.loop.settle()

    # The phases

    def follow(self, request: bytes) -> None:
        """The replica applies a delta."""
        self.mirror.apply(snapshot_pb2.SyncRequest.FromString(request).delta)

    async def respond(self, rpc: str, request: Any) -> Any:
        """The answer, once the test lets it come."""
        compute = None if rpc.startswith("Extender") else getattr(self, f"_{rpc.lower()}", None)
        answer = _evaluated(compute(request), request) if compute is not None else None
        call = PendingCall(rpc, copy.deepcopy(request), answer, self.loop.create_future())
        self.pending_calls.append(call)
        try:
            how = await call.future
        finally:
            self.pending_calls.remove(call)
        return self._answer_to(call, how)

    def answer(self, call: PendingCall, how: str) -> None:
        """Let an answer come: `good`, `bad` (refused, failed) or `down` (nobody can be called).

        For Bind also `uncertain`: it is done, but nobody says so yet; for an extender's bind `lie`: it is said
        to be done, and is not.
        """
        if how == "uncertain":
            if call.rpc == "Bind" and not call.written:
                call.written = not self.api.bind(call.request)
            if call.rpc == "ExtenderBind":
                self._extenderbind(call.request)
            return
        call.future.set_result(how)
        self.loop.settle()

    def answer_all(self) -> None:
        """Let a good answer come to each open call, and to those that follow from it."""
        for _ in range(8):
            for call in list(self.pending_calls):
                if call in self.pending_calls:
                    self.answer(call, "good")

    def answer_until(self, rpc: str) -> None:
        """Let a good answer come to each open call in turn, until the first is of this RPC."""
        while (call := self.pending_calls[0]).rpc != rpc:
            self.answer(call, "good")

    @property
    def idle(self) -> bool:
        """No call is pending, nobody waits for a decision, and everything was delivered."""
        return (
            self.all_delivered
            and not self.pending_calls
            and not self.frontend.scheduling.waiting.pods()
            and not self.frontend.scheduling.queue.ready()
        )

    @property
    def all_delivered(self) -> bool:
        """The watches have delivered everything."""
        return all(self.delivered[resource] == len(log) for resource, log in self.api.log.items())

    def _answer_to(self, call: PendingCall, how: str) -> Any:
        rpc, request, good = call.rpc, call.request, how == "good"
        if rpc == "Bind":
            # An uncertain write is read back: what was bound is never said to have failed.
            why = self.api.bind(request) if good or call.written else "the API server says no"
            return _status(why)
        if rpc == "ExtenderBind" and how == "lie":
            return {}
        if rpc.startswith("Extender"):
            if not good:
                raise extenders.ExtenderError("EOF" if how == "down" else "no licence")
            # What is bound is bound when it says so, and what passes passes now.
            return getattr(self, f"_{rpc.lower()}")(request)
        if rpc == "Apply":
            return _status(self.api.apply(request) if good else "the API server says no")
        if how == "down":
            if rpc in ("Permit", "PreBindPreFlight", "PreBind"):
                raise ports.PhaseFault("UNAVAILABLE: down")
            raise ports.PhaseUnavailable("no replica is in step")
        return call.answer if good else _evaluated(self._refused(call), request)

    def _refused(self, call: PendingCall) -> Any:  # noqa: PLR0911 - a case for each RPC
        no = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="VolumeBinding", messages=["no"])
        error = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"])
        request = call.request
        match call.rpc:
            case "Filter":
                return filter_phase_pb2.FilterPhaseFilterResponse(pre_filter=filter_pb2.PreFilterResponse(status=no))
            case "FilterClasses":
                return filter_phase_pb2.FilterClassesResponse()
            case "Place":
                return score_phase_pb2.PlaceResponse(status=error)
            case "PlaceClasses":
                failed = score_phase_pb2.PlaceResponse(status=error, evaluated_generation=request.cycle.generation)
                return score_phase_pb2.PlaceClassesResponse(answers=[failed])
            case "FilterNominated":
                return filter_phase_pb2.FilterNominatedResponse()
            case "RunPostFilter":
                refused = filter_phase_pb2.PostFilterResult(answer=filter_pb2.PostFilterResponse(status=no))
                return filter_phase_pb2.RunPostFilterResponse(results=[refused])
            case "Reserve":
                count = len(request.placements)
                return filter_pb2.ReserveResponse(reservations=[filter_pb2.Reservation(status=no)] * count)
            case "Permit":
                return bind_pb2.PermitResponse(results=[bind_pb2.PermitResult(status=no)] * len(request.items))
            case "PreBindPreFlight" | "PreBind" as rpc:
                prepared = bind_pb2.PreBindResponse(results=[bind_pb2.PreBindResult(status=error)])
                return prepared if rpc == "PreBind" else bind_pb2.PreBindPreFlightResponse(statuses=[error])
            case _:
                return call.answer

    # What they answer

    def free(self, priority: int, uid: str = "") -> dict[int, int]:
        """What each node has left for such a pod, by slot, in whole CPUs."""
        nodes = self.mirror.nodes
        cpu = nodes.resource_names.names.index("cpu")
        left = {}
        for slot in nodes.slot_of_name.values():
            left[slot] = int(nodes.allocatable[cpu, slot] - nodes.requested[cpu, slot]) // 1000
        for nominee in self.mirror.nominations.values():
            promised = self.mirror.classes[nominee.pod_class].pod
            if promised.spec.priority >= priority and nominee.uid != uid and nominee.slot in left:
                left[nominee.slot] -= cpus(promised)
        return left

    def _filter(self, request: filter_phase_pb2.FilterPhaseFilterRequest) -> filter_phase_pb2.FilterPhaseFilterResponse:
        pod = self.mirror.classes[request.cycle.pod_class].pod
        free = self.free(pod.spec.priority, request.cycle.pod.metadata.uid)
        size = max(free, default=-1) + 1
        index, capacity = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int32)
        for slot, cpu in free.items():
            capacity[slot] = max(cpu // cpus(pod), 0)
            index[slot] = 0 if capacity[slot] else 1
        prepared = cpus(pod) == PREPARED_CPUS
        response = filter_phase_pb2.FilterPhaseFilterResponse(
            columns=node_columns.to_message(
                node_columns.NodeColumns(request.cycle.generation, 0, size, None, (INSUFFICIENT,), index, capacity)
            ),
            needs_reserve=prepared,
            needs_pre_bind=prepared,
        )
        if not capacity.any():
            response.post_filter_results.extend(self._post_filter_results(request.cycle, request.preemptors, free))
        return response

    def _post_filter_results(
        self, cycle: cycle_pb2.Cycle, preemptors: Iterable[filter_phase_pb2.Preemptor], free: dict[int, int]
    ) -> list[filter_phase_pb2.PostFilterResult]:
        """Each beside those before it; `free` is what each slot has left for the first one."""
        results: list[filter_phase_pb2.PostFilterResult] = []
        for preemptor in preemptors:
            result = filter_phase_pb2.PostFilterResult()
            if results:
                # It refuses the next one for the same reason, which is given again.
                result.changed_slot = self.mirror.nodes.slot_of_name[results[-1].answer.nominated_node]
                result.changed_status.CopyFrom(wire_status.to_message(INSUFFICIENT))
            result.answer.CopyFrom(
                frontend_world_victims.choose(self.mirror, post_filter_context.cycle_for(cycle, preemptor), free)
            )
            results.append(result)
            if not result.answer.nominated_node:
                break
            free[self.mirror.nodes.slot_of_name[result.answer.nominated_node]] -= cpus(
                self.mirror.classes[cycle.pod_class].pod
            )
        return results

    def _filternominated(
        self, request: filter_phase_pb2.FilterNominatedRequest
    ) -> filter_phase_pb2.FilterNominatedResponse:
        pod = self.mirror.classes[request.cycle.pod_class].pod
        prepared = cpus(pod) == PREPARED_CPUS
        response = filter_phase_pb2.FilterNominatedResponse(needs_reserve=prepared, needs_pre_bind=prepared)
        for nominee in request.nominees:
            own = self.mirror.nominations.get(nominee.pod.uid)
            if own is None or own.slot != nominee.slot:
                break
            if self.free(pod.spec.priority, nominee.pod.uid).get(own.slot, 0) < cpus(pod):
                break
            response.admitted += 1
        return response

    def _filterclasses(self, request: filter_phase_pb2.FilterClassesRequest) -> filter_phase_pb2.FilterClassesResponse:
        response = filter_phase_pb2.FilterClassesResponse()
        for each in () if len(self.mirror.nominations) else request.classes:
            about = filter_phase_pb2.FilterPhaseFilterRequest(cycle=request.cycle)
            about.cycle.pod_class = each.pod_class
            answer = self._filter(about)
            if answer.needs_reserve or not any(answer.columns.capacity):
                break
            answer.evaluated_generation = request.cycle.generation
            columns = node_columns.from_message(answer.columns)
            answer.admitted = packing.to_bits(columns.feasible)
            answer.columns.CopyFrom(filter_pb2.NodeColumns(generation=columns.generation, size=columns.size))
            answer.demand.amounts["cpu"] = cpus(self.mirror.classes[each.pod_class].pod) * 1000
            response.answers.append(answer)
        return response

    def _placeclasses(self, request: score_phase_pb2.PlaceClassesRequest) -> score_phase_pb2.PlaceClassesResponse:
        response = score_phase_pb2.PlaceClassesResponse()
        taken: dict[int, int] = {}
        for each in request.classes:
            wanted = each.demand.amounts["cpu"] // 1000
            placed = response.answers.add(evaluated_generation=request.cycle.generation)
            for slot in np.flatnonzero(packing.from_bits(each.admitted)).tolist():
                while len(placed.slots) < each.count:
                    if self.free(0).get(slot, 0) - taken.get(slot, 0) < wanted:
                        break
                    placed.slots.append(slot)
                    taken[slot] = taken.get(slot, 0) + wanted
            if len(placed.slots) < each.count:
                break
        return response

    def _place(self, request: score_phase_pb2.PlaceRequest) -> score_phase_pb2.PlaceResponse:
        columns = node_columns.from_message(request.capacities)
        slots = [slot for slot in np.flatnonzero(columns.index == 0).tolist() for _ in range(columns.capacity[slot])]
        return score_phase_pb2.PlaceResponse(slots=slots[: request.count])

    def _runpostfilter(self, request: filter_phase_pb2.RunPostFilterRequest) -> filter_phase_pb2.RunPostFilterResponse:
        preemptors = list(request.preemptors)
        uid = preemptors[0].pod.uid
        free = self.free(self.mirror.classes[request.cycle.pod_class].pod.spec.priority, uid)
        if uid in self.mirror.nominations:
            preemptors = preemptors[:1]
        return filter_phase_pb2.RunPostFilterResponse(
            results=self._post_filter_results(request.cycle, preemptors, free)
        )

    def _listpodgroupvictims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Nobody goes for a group."""
        no = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, messages=["nobody may go"])
        return filter_phase_pb2.ListPodGroupVictimsResponse(status=no)

    def _reserve(self, request: filter_pb2.ReserveRequest) -> filter_pb2.ReserveResponse:
        return filter_pb2.ReserveResponse(
            reservations=[filter_pb2.Reservation(status=SUCCESS)] * len(request.placements)
        )

    def _unreserve(self, request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        return filter_pb2.UnreserveResponse()

    def _permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        pod = self.frontend.cluster.registry[request.cycle.pod_class].pod
        result = bind_pb2.PermitResult(status=SUCCESS)
        if cpus(pod) == GUARDED_CPUS:
            result = bind_pb2.PermitResult(status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=GUARD))
            for plugin, message in (self.permit_messages or {GUARD: ""}).items():
                wait = result.waits.add(plugin=plugin, messages=[message] if message else [])
                wait.timeout.FromSeconds(20)
        return bind_pb2.PermitResponse(results=[result] * len(request.items))

    def _prebindpreflight(self, request: bind_pb2.PreBindPreFlightRequest) -> bind_pb2.PreBindPreFlightResponse:
        return bind_pb2.PreBindPreFlightResponse(statuses=[SUCCESS])

    def _prebind(self, request: bind_pb2.PreBindRequest) -> bind_pb2.PreBindResponse:
        return bind_pb2.PreBindResponse(results=[bind_pb2.PreBindResult(status=SUCCESS)])

    def _extenderfilter(self, body: Json) -> Json:
        return {"NodeNames": body["NodeNames"]}

    def _extenderbind(self, body: Json) -> Json:
        identity = cycle_pb2.PodIdentity(namespace="ns", name=body["PodName"], uid=body["PodUID"])
        return {"Error": self.api.bind(bind_pb2.BindItem(pod=identity, node_name=body["Node"]))}


def _named(raw: Json, name: str) -> bool:
    return bool(raw["metadata"]["name"] == name)


def _node(raw: Json) -> core_pb2.Node:
    return decode.decode(raw, core_pb2.Node)


def _evaluated(answer: Any, request: Any) -> Any:
    """The answer, from the generation that the call names."""
    if hasattr(answer, "evaluated_generation"):
        answer.evaluated_generation = request.cycle.generation
    return answer


def _status(why: str) -> status_pb2.Status:
    return wire_status.to_message(status.error("", why)) if why else SUCCESS


@contextlib.contextmanager
def one_node() -> Iterator[World]:
    """A world of one node with three CPUs."""
    world = World()
    world.api.put_node("n0", 3)
    world.deliver("nodes", 1)
    yield world
    world.close()
