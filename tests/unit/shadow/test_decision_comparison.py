"""The comparison of another scheduler's bindings with Trireme's decisions, from the events that a watch shows."""

import pytest

from tests.helpers.shadow_cluster import CONFIGURED, ManualClock, Pods, node_event
from trireme.cache.pod_projection import ParsedPod
from trireme.scheduling import in_memory, ports
from trireme.shadow import cluster_model, decision_comparison, order_search
from trireme.shadow.judgement import Outcome
from trireme_kube.client.informers.watch import Event, EventKind


class Watched:
    """A comparison, with the counts by outcome."""

    def __init__(self, *nodes: str, cpu: str = "4") -> None:
        self.clock, self.pods = ManualClock(), Pods()
        effects = ports.Effects(
            in_memory.Binder(),
            in_memory.Events(),
        )
        self.model = cluster_model.ClusterModel(CONFIGURED.completed, effects)
        self.comparison = decision_comparison.DecisionComparison(
            self.model, ["default-scheduler"], self.clock, lambda: 0.0
        )
        self.comparison.apply_nodes([node_event(name, cpu) for name in nodes])

    async def show(self, *events: Event[ParsedPod], judging: bool = True) -> None:
        self.clock.now += 0.01
        await self.comparison.apply_pods(events, judging=judging)

    async def bind(self, name: str, node: str, **more: object) -> None:
        """A pod arrives, and is bound."""
        await self.show(self.pods.added(name, **more))
        await self.show(self.pods.event(name, node, **more))

    async def settle(self) -> dict[str, int]:
        self.clock.now += 2 * order_search.GRACE_SECONDS
        await self.comparison.close_decisions(self.clock.now)
        return {outcome.value: count for outcome, count in self.comparison.counts.outcomes.items()}


async def test_a_binding_to_the_best_node_is_the_same_or_tied() -> None:
    """A scheduler that decides as Trireme would be reported as different."""
    watched = Watched("a", "b")
    for name, node in (("first", "a"), ("second", "b"), ("third", "b"), ("fourth", "a")):
        await watched.bind(name, node)
    counts = await watched.settle()
    assert set(counts) <= {"same", "tied"}
    assert sum(counts.values()) == 4
    assert watched.comparison.counts.agreement == 1.0


async def test_the_pods_before_count_and_the_pod_itself_does_not() -> None:
    """A pod judged on the state after its own binding would find its node fuller than it was."""
    watched = Watched("a", "b", cpu="4")
    await watched.bind("large", "a", cpu="3")
    await watched.bind("next", "a", cpu="1")
    assert (await watched.settle())["different"] == 1
    (found,) = watched.comparison.examples
    assert (found.key, found.found.chosen, found.found.preferred) == ("default/next", "a", "b")


async def test_a_difference_has_the_scores_of_both_nodes_by_plugin() -> None:
    """Without them nobody can tell why Trireme would have chosen another node."""
    watched = Watched("a", "b")
    await watched.bind("large", "a", cpu="3")
    await watched.bind("next", "a")
    await watched.settle()
    (pod,) = watched.comparison.examples
    found = pod.found
    assert found.outcome is Outcome.DIFFERENT
    assert found.preferred_total > found.chosen_total
    assert sum(each.preferred - each.chosen for each in found.plugins) == found.preferred_total - found.chosen_total
    assert "NodeResourcesFit" in {each.plugin for each in found.plugins}


async def test_a_node_that_trireme_refuses_is_different_with_the_refusal() -> None:
    """A binding that violates a filter would look like a lower score, or like nothing."""
    watched = Watched("a", "b", cpu="2")
    await watched.bind("too-large", "a", cpu="3")
    await watched.settle()
    (pod,) = watched.comparison.examples
    assert "Trireme refuses a: Insufficient cpu" in pod.found.detail


async def test_a_nominated_pod_takes_its_node_whatever_others_score() -> None:
    """After a preemption only the nominated node is looked at; another node that scores higher means nothing."""
    watched = Watched("a", "b")
    await watched.bind("large", "a", cpu="3")
    await watched.settle()
    await watched.show(watched.pods.added("preemptor"))
    await watched.show(watched.pods.event("preemptor", status={"nominatedNodeName": "a"}))
    await watched.show(watched.pods.event("preemptor", "a", status={"nominatedNodeName": "a"}))
    assert (await watched.settle()).get("different", 0) == 0


async def test_bindings_whose_events_come_in_another_order_are_explained_by_it() -> None:
    """A burst would be reported as different although each choice was the best when it was made.

    Decided were first `filler` to b, then `late` to a; the watch shows them the other way round.
    """
    watched = Watched("a", "b")
    await watched.bind("small", "a", cpu="1")
    await watched.show(watched.pods.added("filler", cpu="2"), watched.pods.added("late", cpu="1"))
    await watched.show(watched.pods.event("late", "a", cpu="1"))
    await watched.show(watched.pods.event("filler", "b", cpu="2"))
    counts = await watched.settle()
    assert counts.get("order") == 1, counts
    assert "different" not in counts
    (pod,) = watched.comparison.examples
    assert "seen otherwise" in pod.found.detail


async def test_what_no_order_explains_stays_different() -> None:
    """If any difference could be explained away, the figure would say nothing."""
    watched = Watched("a", "b")
    await watched.bind("large", "a", cpu="3")
    await watched.show(watched.pods.added("wrong"), watched.pods.added("other"))
    await watched.show(watched.pods.event("wrong", "a"))
    await watched.show(watched.pods.event("other", "a", cpu="1"))
    assert (await watched.settle()).get("different", 0) >= 1


async def test_a_binding_decided_before_a_node_changed_is_explained_by_it() -> None:
    """A new, empty node that the scheduler had not seen yet would make its choice look wrong."""
    watched = Watched("a")
    await watched.bind("first", "a")
    await watched.settle()
    await watched.show(watched.pods.added("late"))
    watched.comparison.apply_nodes([node_event("new")])
    await watched.show(watched.pods.event("late", "a"))
    counts = await watched.settle()
    assert counts.get("order") == 1, counts


async def test_a_binding_that_a_list_shows_is_unknown() -> None:
    """After an interruption of the watch, nobody knows the state on which the pod was bound."""
    watched = Watched("a", "b")
    await watched.show(watched.pods.added("pending"))
    listed = watched.pods.event("pending", "a", kind=EventKind.LISTED)
    await watched.show(Event(EventKind.LIST_START, None), listed, Event(EventKind.LIST_END, None))
    assert await watched.settle() == {"unknown": 1}


async def test_bindings_that_are_not_judged_count_as_unknown() -> None:
    """What a burst left out would be missing in the sum."""
    watched = Watched("a", "b")
    await watched.show(watched.pods.added("pending"))
    await watched.show(watched.pods.event("pending", "a"), judging=False)
    assert await watched.settle() == {"unknown": 1}
    assert watched.comparison.counts.compared == 0


async def test_pods_with_a_node_from_the_start_are_not_compared() -> None:
    """Static pods, and those that were there before shadow, were decided by nobody that can be compared."""
    watched = Watched("a", "b")
    listed = watched.pods.event("old", "a", kind=EventKind.LISTED)
    await watched.show(Event(EventKind.LIST_START, None), listed, Event(EventKind.LIST_END, None))
    await watched.show(watched.pods.added("static", "b"))
    assert await watched.settle() == {}
    assert watched.comparison.counts.born_bound == 1


async def test_pods_of_other_schedulers_are_judged_by_the_first_profile() -> None:
    """Beside any scheduler: its name is in no profile of ours."""
    watched = Watched("a", "b")
    await watched.bind("volcanic", "a", schedulerName="volcano")
    assert sum((await watched.settle()).values()) == 1


async def test_an_invalid_pod_is_an_error() -> None:
    """A pod that cannot be evaluated would be counted as different, or stop the run."""
    watched = Watched("a", "b")
    await watched.bind("invalid", "a", cpu="-1x")
    assert await watched.settle() == {"error": 1}


async def test_a_preempted_pod_is_counted() -> None:
    """The other scheduler's preemptions are known by the condition of its victims alone."""
    watched = Watched("a")
    await watched.bind("victim", "a")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    await watched.show(
        watched.pods.deleted(
            "victim",
            "a",
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
            status={"conditions": [condition]},
        )
    )
    assert watched.comparison.counts.preempted == 1


async def test_too_many_open_decisions_are_settled_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst of different bindings would take memory without bound; what is not examined must be said."""
    monkeypatch.setattr(decision_comparison, "_OPEN", 2)
    watched = Watched("a", "b", cpu="64")
    await watched.bind("large", "a", cpu="20")
    for number in range(5):
        await watched.bind(f"wrong-{number}", "a", cpu="1")
    counts = await watched.settle()
    assert watched.comparison.counts.unexamined == 3
    assert counts["different"] >= 3


async def test_pods_that_vanish_while_the_watch_is_interrupted_are_pending_no_more() -> None:
    """They would count as pending forever, and every change of a node would copy the whole state for them."""
    watched = Watched("a", "b")
    await watched.show(*(watched.pods.added(name) for name in ("stays", "gone", "bound")))
    await watched.show(
        Event(EventKind.LIST_START, None),
        watched.pods.event("stays", kind=EventKind.LISTED),
        watched.pods.event("bound", "a", kind=EventKind.LISTED),
        Event(EventKind.LIST_END, None),
    )
    assert watched.comparison.pending_count == 1
    await watched.show(Event(EventKind.LIST_START, None), Event(EventKind.LIST_END, None))
    assert watched.comparison.pending_count == 0


async def test_a_late_event_of_a_bound_pod_does_not_make_it_pending() -> None:
    """After a list, a watch may show a state from before the binding: the pod keeps its node."""
    watched = Watched("a", "b")
    await watched.show(watched.pods.added("bound"))
    late = watched.pods.event("bound")
    await watched.show(watched.pods.event("bound", "a"))
    await watched.show(late)
    assert watched.comparison.pending_count == 0
