"""No pod is ever lost: the frontend's own queue, cache and cycles, against anything that may happen, in any order.

Users and kubelets change pods and nodes; watches lag behind each other, break off and are listed anew, and repeat what
they delivered; filter, score and bind answer late, refuse, fail or are down; time goes by. After every step each
pending pod is in exactly one place, what is assumed adds up, and pods that may be tried are being tried. When all has
come to rest, everybody who fits somewhere is there.
"""

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.helpers.frontend_world import GUARD, World
from tests.helpers.frontend_world_victims import cpus
from trireme.cache.pod_projection import TERMINATING
from trireme.frontend.serving import scheduler_status
from trireme.queueing.states import Gated, Unschedulable
from trireme_kube.client.informers.watch import EventKind

PODS = [f"p{index}" for index in range(6)]
NODES = ["n0", "n1", "n2"]
RESOURCES = ["pods", "nodes"]
# What a pod's scheduling cycle waits for; while one of these is open no other batch is taken.
IN_CYCLE = {
    "Filter",
    "FilterClasses",
    "PlaceClasses",
    "FilterNominated",
    "Place",
    "RunPostFilter",
    "Reserve",
    "ListPodGroupVictims",
    "ExtenderFilter",
}


class FrontendMachine(RuleBasedStateMachine):
    """The stimuli, and what must hold."""

    ARGUMENTS: tuple[str, ...] = ()
    EXTENDED = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(*self.ARGUMENTS, extended=self.EXTENDED)
        self.api = self.world.api
        self.frontend = self.world.frontend

    @initialize(sizes=st.lists(st.integers(2, 4), min_size=1, max_size=3))
    def begin(self, sizes: list[int]) -> None:
        """There are nodes, each with a pod of no importance."""
        for index, cpu in enumerate(sizes):
            self.api.put_node(f"n{index}", cpu)
            self.api.add_pod(f"p{index}", cpu - 1, 0)
        self.go_on(pods=True, nodes=True)

    # --- users and kubelets ---

    @precondition(lambda self: len(self.api.pods) < len(PODS))
    @rule(
        cpu=st.integers(1, 3),
        priority=st.sampled_from([0, 0, 100]),
        gated=st.sampled_from([False, False, False, True]),
        delivered=st.booleans(),
    )
    def create_pod(self, cpu: int, priority: int, gated: bool, delivered: bool) -> None:
        """A user creates a pod, one in a few with a gate, perhaps in place of one that is gone."""
        name = next(name for name in PODS if name not in self.api.pods)
        self.api.add_pod(name, cpu, priority, gated=gated)
        if delivered:
            self.world.deliver("pods", 1000)

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data(), at_once=st.booleans())
    def delete_pod(self, data: st.DataObject, at_once: bool) -> None:
        """A pod is deleted; a bound one is given time, unless it has had it."""
        name = data.draw(st.sampled_from(sorted(self.api.pods)))
        raw = self.api.pods[name]
        if at_once or not raw["spec"].get("nodeName") or "deletionTimestamp" in raw["metadata"]:
            self.api.remove("pods", name)
        else:
            self.api.terminate(raw)

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data())
    def change_pod(self, data: st.DataObject) -> None:
        """A gate is lifted, or a label changes."""
        name = data.draw(st.sampled_from(sorted(self.api.pods)))
        raw = self.api.pods[name]
        if raw["spec"].pop("schedulingGates", None) is None:
            labels = raw["metadata"].setdefault("labels", {})
            labels["changed"] = str(int(labels.get("changed", "0")) + 1)
        self.api.record("pods", EventKind.MODIFIED, raw)

    @rule(name=st.sampled_from(NODES), cpu=st.integers(1, 4))
    def put_node(self, name: str, cpu: int) -> None:
        """A node comes, or has other resources."""
        self.api.put_node(name, cpu)

    @precondition(lambda self: len(self.api.nodes) > 1)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        """A node goes; its pods stay for a while."""
        self.api.remove("nodes", data.draw(st.sampled_from(sorted(self.api.nodes))))

    # --- the watches ---

    @precondition(lambda self: not self.world.all_delivered)
    @rule(resource=st.sampled_from([*RESOURCES, "pods"]), count=st.integers(1, 5))
    def deliver(self, resource: str, count: int) -> None:
        """A watch reports what happened."""
        self.world.deliver(resource, count)

    @rule(resource=st.sampled_from(RESOURCES), back=st.integers(0, 4))
    def repeat(self, resource: str, back: int) -> None:
        """A watch reports something again."""
        self.world.repeat(resource, back)

    @rule(resource=st.sampled_from(RESOURCES), twice=st.booleans())
    def relist(self, resource: str, twice: bool) -> None:
        """A watch is lost, and everything is listed."""
        self.world.relist(resource, twice)

    # --- the phases, and time ---

    @precondition(lambda self: self.world.pending_calls)
    @rule(data=st.data(), how=st.sampled_from(["good", "good", "bad", "down", "uncertain"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        """A phase answers one of the open calls."""
        self._answer(data, how)

    @precondition(lambda self: self.world.pending_calls)
    @rule(data=st.data(), hows=st.lists(st.sampled_from(["good", "good", "bad"]), min_size=2, max_size=6))
    def answers(self, data: st.DataObject, hows: list[str]) -> None:
        """Phases answer several."""
        for how in hows:
            if self.world.pending_calls:
                self._answer(data, how)

    def _answer(self, data: st.DataObject, how: str) -> None:
        call = self.world.pending_calls[data.draw(st.integers(0, len(self.world.pending_calls) - 1))]
        self.world.answer(call, how)

    @precondition(lambda self: any(call.rpc == "ExtenderBind" for call in self.world.pending_calls))
    @rule()
    def extender_lies(self) -> None:
        """An extender says that it has bound a pod, and has not."""
        self.world.answer(next(each for each in self.world.pending_calls if each.rpc == "ExtenderBind"), "lie")

    @rule(pods=st.booleans(), nodes=st.booleans())
    def go_on(self, pods: bool, nodes: bool) -> None:
        """The watches deliver everything, and every call has a good answer."""
        for resource, wanted in (("pods", pods), ("nodes", nodes)):
            if wanted:
                self.world.deliver(resource, 1000)
        self.world.answer_all()

    @precondition(lambda self: self.frontend.scheduling.waiting.pods())
    @rule(data=st.data(), allow=st.booleans())
    def decide(self, data: st.DataObject, allow: bool) -> None:
        """A Permit plugin makes up its mind."""
        waiting = data.draw(st.sampled_from(self.frontend.scheduling.waiting.pods()))
        if allow:
            self.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
        else:
            self.frontend.scheduling.waiting.reject(waiting.uid, GUARD, "no")
        self.world.loop.settle()

    @rule(phase=st.sampled_from(["filters", "scores", "binders"]), available=st.booleans())
    def phase_changes(self, phase: str, available: bool) -> None:
        """The replicas of a phase are gone, or there again."""
        self.world.set_available(phase, available)
        self.frontend.context.wakeup.set()
        self.world.loop.settle()

    @rule(seconds=st.sampled_from([0.0, 0.4, 1.0, 1.0, 3.3, 12.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        """Time goes by."""
        self.world.loop.advance(seconds)

    # --- what must hold ---

    @invariant()
    def nothing_is_lost(self) -> None:
        """All of what follows."""
        self.every_pending_pod_is_in_one_place()
        self.whoever_left_the_queue_is_being_looked_after()
        self.what_is_placed_adds_up()
        self.whoever_may_be_tried_is_tried()
        self.the_status_names_every_pending_pod()

    def every_pending_pod_is_in_one_place(self) -> None:
        """The queue has each pending pod once, and beside them only what is gone and still in flight."""
        places = self.frontend.scheduling.queue._transitions
        pending = self.frontend.scheduling.pending.uids()
        assert pending == {uid for uid, raw in self.world.seen.items() if not raw["spec"].get("nodeName")}
        found = Counter(pod.uid for pod in places.queued.values())
        found.update(uid for uid, pod in places.in_flight.items() if pod.in_attempt)
        found.update(list(places.done))
        assert found == Counter(pending)
        for key, pod in places.queued.items():
            assert pod.key == key
            assert self.frontend.cluster.cache.pod(pod.uid) is None, "waits, and is on a node"

    def whoever_left_the_queue_is_being_looked_after(self) -> None:
        """A pod that is done is terminating, or assumed; one that is assumed is being bound, or is bound."""
        cache, api = self.frontend.cluster.cache, self.api
        called = {uid for call in self.world.pending_calls for uid in _pods_of(call)}
        for uid, pod in self.frontend.scheduling.queue._transitions.done.items():
            assert cache.is_assumed(uid) or pod.record.pod.parsed.flags & TERMINATING, "nobody looks after it"
        for uid in cache._assumed:
            raw = next((raw for raw in api.pods.values() if raw["metadata"]["uid"] == uid), None)
            busy = uid in called or any(pod.uid == uid for pod in self.frontend.scheduling.waiting.pods())
            bound = raw is not None and raw["spec"].get("nodeName") and uid in self.world.seen
            assert busy or bound or uid in self.world.seen, "assumed forever"

    def what_is_placed_adds_up(self) -> None:
        """The cache holds what was delivered and what is assumed; its replicas count the same for each node."""
        cache, mirror = self.frontend.cluster.cache, self.world.mirror
        placed = {uid: raw["spec"]["nodeName"] for uid, raw in self.world.seen.items() if raw["spec"].get("nodeName")}
        assert {pod.uid: pod.node_name for pod in cache.pods() if not pod.assumed} == placed
        self.frontend.phases.publisher.publish()
        expected: Counter[str] = Counter()
        for pod in cache.pods():
            expected[pod.node_name] += cpus(self.frontend.cluster.registry[pod.class_id].pod)
        cpu = mirror.nodes.resource_names.names.index("cpu")
        for name, slot in mirror.nodes.slot_of_name.items():
            assert int(mirror.nodes.requested[cpu, slot]) == 1000 * expected[name]
        assert set(mirror.nodes.slot_of_name) == set(cache.node_names())

    def whoever_may_be_tried_is_tried(self) -> None:
        """While no cycle is under way and every phase can be called, nobody waits in the active queue."""
        if self._nobody_may_be_tried():
            return
        # A batch that was let grow, when there was more to do than there is now, goes in a moment.
        self.world.loop.advance(0.01)
        assert self._nobody_may_be_tried(), "asleep"

    def _nobody_may_be_tried(self) -> bool:
        scheduling = self.frontend.scheduling
        available = self.frontend.phases.links.available()
        if not scheduling.queue.ready() or not available or scheduling.scheduler._batch_delay() > 0:
            return True
        # What PostFilter decided beside evictions is carried out within the cycle.
        return any(call.rpc in (*IN_CYCLE, "Apply") for call in self.world.pending_calls)

    def the_status_names_every_pending_pod(self) -> None:
        """The report has a line for each, which says what it waits for."""
        report = scheduler_status.status(self.world.frontend_state())
        named = Counter(pod.pod.uid for pod in report.pending)
        # One that is gone may be in flight still.
        assert set(named) >= self.frontend.scheduling.pending.uids()
        assert max(named.values(), default=1) == 1
        assert all(pod.summary and pod.waits_for.kind for pod in report.pending)
        alike: Counter[int] = Counter()
        for entry in report.pending_alike:
            alike[entry.pod_class] += entry.count
        assert alike == Counter(pod.pod_class for pod in report.pending)
        summaries = {(pod.pod_class, pod.summary) for pod in report.pending}
        assert {(entry.pod_class, entry.summary) for entry in report.pending_alike} <= summaries

    # --- the end ---

    def teardown(self) -> None:
        """All comes to rest: everybody who fits somewhere is there, and the others say why not."""
        try:
            self._rest()
        finally:
            self.world.close()

    def _rest(self) -> None:
        for phase in ("filters", "scores", "binders"):
            self.world.set_available(phase, True)
        self.frontend.context.wakeup.set()
        self._calm_down()
        for pod in self._singles():
            if not pod.gated_by and pod.rejectors <= {"NodeResourcesFit"}:
                assert not self._fits(pod), (
                    f"sleeps, and fits: {self.frontend.scheduling.queue.contents.transitions_of(pod.key)}"
                )
        # What was refused without a reason that an event could take away is tried again in time.
        self.world.loop.advance(331.0)
        self._calm_down()
        for pod in self._singles():
            if not self.api.nodes:
                # Without nodes there is nothing that an event could be about: it is tried after each back-off.
                continue
            assert type(pod.state) in (Unschedulable, Gated)
            if pod.gated_by:
                assert pod.record.pod.parsed.gates
            else:
                assert not self._fits(pod)
        assert self.frontend.cluster.cache._assumed == set()
        assert self.frontend.scheduling.binding.binding_count == 0
        assert self.frontend.scheduling.queue.contents.in_flight_pods() == []

    def _fits(self, pod: Any) -> bool:
        requested = cpus(self.frontend.cluster.registry[pod.record.class_id].pod)
        return any(cpu >= requested for cpu in self.world.free(pod.record.priority, pod.uid).values())

    def _calm_down(self) -> None:
        """Everything is delivered, every call has a good answer, and pods that are to leave leave."""
        for _ in range(200):
            self._hear_and_answer()
            if self.world.idle and (self.frontend.scheduling.queue.next_backoff() is None or not self.api.nodes):
                return
            self.world.loop.advance(0.5)
        raise AssertionError("it does not come to rest")

    def _hear_and_answer(self) -> None:
        for name, raw in list(self.api.pods.items()):
            if "deletionTimestamp" in raw["metadata"]:
                self.api.remove("pods", name)
        for resource in RESOURCES:
            self.world.deliver(resource, 1000)
        for waiting in self.frontend.scheduling.waiting.pods():
            self.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
        self.world.loop.settle()
        self.world.answer_all()

    def _singles(self) -> list[Any]:
        """The waiting pods that are scheduled one by one."""
        return self.frontend.scheduling.queue.contents.waiting_pods()


def _pods_of(call: Any) -> list[str]:
    request = call.request
    if call.rpc == "ExtenderBind":
        return [request["PodUID"]]
    if call.rpc == "Reserve":
        return [placement.pod.uid for placement in request.placements]
    if call.rpc in ("Permit", "PreBindPreFlight", "PreBind"):
        return [item.pod.uid for item in request.items]
    return [request.pod.uid] if call.rpc == "Bind" else []
