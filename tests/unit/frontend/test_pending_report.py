"""`trireme status` names every pending pod with what it waits for: each by a frontend that is at that point."""

import copy
import datetime
import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.helpers.frontend_world import GUARD, T0, World
from tests.helpers.frontend_world_api import PROFILE
from tests.helpers.pod_group_builders import of_groups, pod_group
from trireme.cli import display, status_command
from trireme.frontend.serving import scheduler_explanation, scheduler_status
from trireme.queueing import states
from trireme.scheduling import pre_binding
from trireme.v1.scheduler_explanation_pb2 import PodWait
from trireme.wire import json_documents
from trireme_kube.client.informers.watch import EventKind


def _waits(world: World, name: str) -> tuple[PodWait, str]:
    report = scheduler_status.status(world.frontend_state())
    (found,) = (pod for pod in report.pending if pod.pod.name == name)
    assert any(alike.summary == found.summary for alike in report.pending_alike)
    assert f"ns/{name}" in display.as_text(status_command.render(json_documents.document(report), one_by_one=True))
    explained = scheduler_explanation.explain(world.frontend_state(), f"ns/{name}")
    assert explained is not None
    assert explained.scheduler.summary == found.summary
    return found.waits_for, found.summary


def _ms(moment: float) -> int:
    return round(moment * 1000)


def _bind(world: World) -> None:
    world.answer_all()
    for waiting in world.frontend.scheduling.waiting.pods():
        world.frontend.scheduling.waiting.allow(waiting.uid, GUARD)
        world.loop.settle()
    world.answer_all()
    world.deliver("pods", 1000)


def test_a_gate(world: World) -> None:
    """Its names are what a user has to look for."""
    world.create("p", 1, gated=True)
    waits, text = _waits(world, "p")
    assert waits == PodWait(kind="gate", plugins=["SchedulingGates"], names=["later"], events=waits.events)
    assert text == "is held back by SchedulingGates: later"


def test_a_time(world: World) -> None:
    """A pod that failed by error is tried again by the clock alone."""
    world.create("p", 1)
    world.answer(world.pending_calls[0], "down")
    waits, text = _waits(world, "p")
    why = waits.because
    assert waits == PodWait(kind="time", until_ms=_ms(int(T0) + 1), because=why, refusals=waits.refusals)
    assert why
    assert [reason.code for each in waits.refusals for reason in each.status.reasons] == ["phaseFailed"]
    assert text == f"backs off after a failed attempt, until 13:46:41 UTC: {why}"


def test_events(world: World) -> None:
    """Which plugins refused, and what they wait for."""
    world.create("p", 4)
    world.answer_all()
    waits, text = _waits(world, "p")
    assert (waits.kind, list(waits.plugins)) == ("event", ["NodeResourcesFit"])
    assert {"NodeAdd", "AssignedPodDelete"} <= set(waits.events)
    assert text.startswith(
        "was refused by NodeResourcesFit; is tried again when a pod on a node is deleted, a node is "
    )


def test_pods_that_fail_alike_are_one_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("p", "q"):
        world.create(name, 1)
    while world.pending_calls:
        world.answer(world.pending_calls[0], "down")
    texts = {
        "p": 'running Bind plugin "B": pods "p" is forbidden after 7 failures (10.0.0.1:70, node-1)',
        "q": 'running Bind plugin "B": pods "q" is forbidden after 8 failures (10.0.0.1:70, node-1)',
    }
    reporter = world.frontend.scheduling.reporter
    monkeypatch.setattr(reporter, "last_failure", lambda uid: texts[uid[0]])
    (alike,) = scheduler_status.status(world.frontend_state()).pending_alike
    assert (alike.count, alike.example.name) == (2, "p")
    assert alike.summary.endswith(texts["p"])
    texts["q"] = texts["q"].replace("node-1", "node-2")
    assert [one.count for one in scheduler_status.status(world.frontend_state()).pending_alike] == [1, 1]


def test_a_permit(world: World) -> None:
    """The plugin that has to decide, and the node that is kept meanwhile."""
    world.create("p", 3)
    world.answer_all()
    assert _waits(world, "p") == (
        PodWait(kind="permit", plugins=[GUARD], node_name="n0", until_ms=_ms(world.now() + 20.0)),
        "waits for Guard to permit node n0, until 13:47:00 UTC at the latest",
    )


@pytest.mark.parametrize(
    ("messages", "because"),
    [
        ({}, ""),
        ({GUARD: "no budget"}, "no budget"),
        ({GUARD: "no budget", "Harbour": "low tide"}, f"{GUARD}: no budget; Harbour: low tide"),
    ],
    ids=["no message", "one", "two"],
)
def test_why_and_how_long_a_pod_waits_on_permit(world: World, messages: dict[str, str], because: str) -> None:
    world.permit_messages = messages
    world.create("p", 3)
    world.answer_all()
    world.loop.advance(5.0)
    waits, text = _waits(world, "p")
    assert (waits.until_ms, waits.because) == (_ms(world.now() + 15.0), because)
    assert list(waits.plugins) == (["Guard", "Harbour"] if "Harbour" in messages else ["Guard"])
    assert text.partition(" at the latest")[2] == (f": {because}" if because else "")


@pytest.mark.parametrize("phase", ["filter", "score", "bind"])
def test_a_service_that_is_down(world: World, phase: str) -> None:
    """Nothing about the pod is wrong: the service is to be looked at."""
    world.set_available({"filter": "filters", "score": "scores", "bind": "binders"}[phase], False)
    world.create("p", 1)
    assert _waits(world, "p") == (PodWait(kind="service", names=[phase]), f"waits for {phase}, which is not available")


def test_services_that_are_down(world: World) -> None:
    """All of them are named."""
    for phase in ("filters", "scores"):
        world.set_available(phase, False)
    world.create("p", 1)
    assert _waits(world, "p")[1] == "waits for filter and score, which are not available"


def test_bind_that_goes_down_while_it_binds(world: World) -> None:
    """The pod is neither lost nor simply slow."""
    world.create("p", 1)
    for _ in range(3):
        world.answer(world.pending_calls[0], "good")
    assert [call.rpc for call in world.pending_calls] == ["Bind"]
    assert _waits(world, "p") == (PodWait(kind="binding", node_name="n0"), "is being bound to node n0")
    world.set_available("binders", False)
    assert _waits(world, "p")[0] == PodWait(kind="service", names=["bind"])


def test_what_pre_bind_waits_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a pod is said to be bound for minutes, and nobody knows that a claim is missing."""
    world.create("p", 1)
    for _ in range(3):
        world.answer(world.pending_calls[0], "good")
    wait = pre_binding.PreBindWait("Harbour", ["persistent_volume_claim ns/data"], "low tide", 30.0)
    monkeypatch.setattr(world.frontend.scheduling.binding._pre_binding, "wait_of", lambda uid: wait)
    waits, text = _waits(world, "p")
    until_ms = _ms(world.now() + 30.0)
    assert waits == PodWait(
        kind="preBind",
        plugins=["Harbour"],
        names=wait.objects,
        node_name="n0",
        until_ms=until_ms,
        because="low tide",
    )
    awaited = "waits for persistent_volume_claim ns/data before it is bound to node n0"
    assert text == f"{awaited}, until 13:47:10 UTC at the latest: Harbour: low tide"


def test_the_victims_of_a_preemption(world: World) -> None:
    """While they are deleted, and until they are gone."""
    world.create("weak", 3)
    _bind(world)
    world.create("strong", 3, 100)
    while not any(call.rpc == "Apply" for call in world.pending_calls):
        world.answer(world.pending_calls[0], "good")
    expected = PodWait(kind="preemption", names=["ns/weak"], node_name="n0")
    text = "waits until ns/weak on node n0 made room"
    assert _waits(world, "strong") == (expected, text)
    world.answer_all()
    world.deliver("pods", 1000)
    assert _waits(world, "strong") == (expected, text)


def test_victims_that_cannot_be_deleted(world: World) -> None:
    """Who is to let them go, and when that is asked again."""
    world.create("weak", 3)
    _bind(world)
    world.create("strong", 3, 100)
    for _ in range(2):
        while not any(call.request.HasField("evict") for call in world.pending_calls if call.rpc == "Apply"):
            world.answer(world.pending_calls[0], "good")
        (eviction,) = (each for each in world.pending_calls if each.rpc == "Apply" and each.request.HasField("evict"))
        world.answer(eviction, "bad")
    for call in [each for each in world.pending_calls if each.request.HasField("set_condition")]:
        world.answer(call, "good")  # the condition and the nomination of the attempt
    waits, text = _waits(world, "strong")
    why = "pod ns/weak could not be preempted: the API server says no"
    assert waits == PodWait(kind="time", until_ms=_ms(world.now() + 1.0), because=why)
    assert text.startswith(f"{why}; is tried again at ")
    world.loop.advance(0.9)
    assert not world.pending_calls
    world.loop.advance(0.1)
    world.answer_all()
    assert "deletionTimestamp" in world.api.pods["weak"]["metadata"]


def test_an_attempt_and_a_turn(world: World) -> None:
    """One is with filter, the other comes next."""
    world.create("p", 1)
    world.create("q", 2)
    assert _waits(world, "p") == (PodWait(kind="attempt"), "is being tried")
    assert _waits(world, "q") == (PodWait(kind="turn"), "waits for its turn")


def test_a_frontend_that_does_not_lead(world: World) -> None:
    world.set_available("filters", False)
    world.create("p", 1)
    world.frontend.context.leader.term = None
    assert _waits(world, "p")[0] == PodWait(kind="leadership")


def test_a_pod_that_is_being_deleted(world: World) -> None:
    """It has no node and gets none."""
    world.api.add_pod("p", 1, 0)
    world.api.terminate(world.api.pods["p"])
    world.deliver("pods", 2)
    assert _waits(world, "p")[0] == PodWait(kind="deletion")


@pytest.mark.parametrize(
    ("names", "agree"),
    [(["Far"], "Far agrees"), (["Far", "Away"], "Far and Away agree"), (["A", "B", "C"], "A, B and C agree")],
)
def test_a_pod_waits_for_pre_enqueue_of_all_remote_plugins(
    world: World, monkeypatch: pytest.MonkeyPatch, names: list[str], agree: str
) -> None:
    """A pod that no queue shows is with the plugins, each of which may hold it back."""
    plugins = [SimpleNamespace(name=name) for name in names]
    monkeypatch.setattr(world.frontend.scheduling.queue_executor.remote, "_gates", {PROFILE: plugins})
    monkeypatch.setattr(world.frontend.scheduling.queue_executor.remote, "execute", lambda instructions: None)
    world.create("p", 1)
    found = world.frontend.scheduling.queue.contents.get("ns/p")
    assert found is not None
    assert type(found.state) is states.PreEnqueuePending
    assert _waits(world, "p") == (
        PodWait(kind="preEnqueue", plugins=names),
        f"may enter the queue if {agree}",
    )


def test_pods_that_wait_for_the_same_have_one_line(world: World) -> None:
    """Ten thousand replicas of one workload must not hide the one pod that waits for something else."""
    for name in ("p", "q", "r"):
        world.create(name, 4)
    world.create("s", 5)
    world.answer_all()
    report = scheduler_status.status(world.frontend_state(), 2)
    assert [entry.pod.name for entry in report.pending] == ["p", "q"]
    assert [(entry.count, entry.example.name) for entry in report.pending_alike] == [(3, "p"), (1, "s")]
    *_, header, first, second = display.as_text(
        status_command.render(json_documents.document(report)), 200
    ).splitlines()
    assert header.split() == ["PENDING", "EXAMPLE", "AGE", "ATTEMPTS", "STATUS"]
    assert re.match(r" +3  ns/p +\d\S* +1  was refused by NodeResourcesFit; ", first)
    assert re.match(r" +1  ns/s +\d\S* +1  was refused by NodeResourcesFit; ", second)
    *_, third, more = display.as_text(
        status_command.render(json_documents.document(report), one_by_one=True), 200
    ).splitlines()
    assert re.match(r"ns/q +\d\S* +1  was refused by NodeResourcesFit; ", third)
    assert more == "… and 2 more pending pods"


@pytest.fixture(name="grouping")
def _grouping() -> Iterator[World]:
    """A frontend that schedules groups of groups."""
    gates = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
    world = World("--feature-gates=" + ",".join(f"{gate}=true" for gate in gates))
    yield world
    world.close()


def test_a_tree_of_groups(grouping: World) -> None:
    """What is missing has a name: first the group, then the groups above it, then those beside it."""
    grouping.api.add_pod("p", 1, 0, group="a")
    grouping.deliver("pods", 1000)
    assert _waits(grouping, "p") == (PodWait(kind="group", group="ns/a"), "waits for PodGroup ns/a to appear")
    grouping.deliver_group(EventKind.ADDED, pod_group("a", 1, parent="x"))
    assert _waits(grouping, "p")[1] == "waits for CompositePodGroup ns/x to appear"
    grouping.deliver_group(EventKind.ADDED, of_groups("x", parent="x"))
    assert _waits(grouping, "p")[1] == "waits in vain: CompositePodGroup ns/x is part of itself"
    grouping.deliver_group(EventKind.MODIFIED, of_groups("x", 2))
    waits, text = _waits(grouping, "p")
    assert (waits.kind, list(waits.plugins), waits.group) == ("gate", ["GangScheduling"], "ns/a")
    assert text == "is held back by GangScheduling, with its CompositePodGroup ns/x"
    assert "scheduling.k8s.io/CompositePodGroupAdd" in waits.events


def test_a_pod_is_as_old_as_its_object(world: World) -> None:
    """If this fails, a new leader shows pods that have been pending for days as seconds old."""
    world.create("p", 9)
    old = copy.deepcopy(world.api.stored("pods")["p"])
    old["metadata"] |= {"name": "old", "uid": "uid-old", "creationTimestamp": "2026-01-05T06:07:08Z"}
    world.api.record("pods", EventKind.ADDED, old)
    world.deliver("pods", 1000)
    report = scheduler_status.status(world.frontend_state())
    since = {pod.pod.name: int(pod.waiting_since_ms) for pod in report.pending}
    assert since["old"] == _ms(datetime.datetime(2026, 1, 5, 6, 7, 8, tzinfo=datetime.UTC).timestamp())
    assert min(int(alike.waiting_since_ms) for alike in report.pending_alike) == min(since.values())


def test_a_pod_that_is_being_deleted_waits_for_no_event(world: World) -> None:
    """If this fails, somebody waits for a node for a pod that is never tried again."""
    world.create("p", 9)
    world.create("stays", 9)
    world.answer_all()
    gone = copy.deepcopy(world.api.stored("pods")["p"])
    gone["metadata"] |= {"deletionTimestamp": "2026-01-05T06:07:08Z", "resourceVersion": "999"}
    world.api.record("pods", EventKind.MODIFIED, gone)
    world.deliver("pods", 1000)
    report = scheduler_status.status(world.frontend_state())
    waits = {pod.pod.name: pod.waits_for.kind for pod in report.pending}
    assert waits == {"p": "deletion", "stays": "event"}
    assert [alike.count for alike in report.pending_alike] == [1, 1]


def test_an_age_only_grows(world: World) -> None:
    """If this fails, a pod that a gate held back for an hour seems new once the gate opens."""
    world.create("p", 4, gated=True)
    contents = world.frontend.scheduling.queue.contents

    def ages() -> tuple[str, str]:
        report = scheduler_status.status(world.frontend_state())
        return report.pending[0].waiting_since_ms, report.pending_alike[0].waiting_since_ms

    first = ages()
    world.loop.advance(60)
    ungated = dict(world.api.stored("pods")["p"])
    ungated["spec"] = {name: value for name, value in ungated["spec"].items() if name != "schedulingGates"}
    world.api.record("pods", EventKind.MODIFIED, ungated)
    world.deliver("pods", 1)
    assert ages() == first
    world.answer_all()
    world.loop.advance(400)
    world.answer_all()
    pod = contents.get("ns/p")
    assert pod is not None
    assert pod.attempts == 2
    assert ages() == first
