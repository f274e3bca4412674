"""Several plugins at PlacementFeasible: the cases of kube-scheduler's TestRunPlacementFeasiblePlugins, by trials."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.metric_values import counts
from tests.helpers.pod_group_builders import PROFILE, of_groups, pod_group, too_few
from tests.helpers.pod_group_cluster import T0, Cluster
from trireme.framework import status
from trireme.plugin_api import placements
from trireme.scheduling import ports
from trireme.scheduling.groups import placement_feasibility
from trireme.scheduling.groups.placement_feasibility import GroupTrial, TrialStep

REFUSED = status.unschedulable("Far", "the rack has no licence")
WAITS = status.Status(status.Code.WAIT, "Far", ("one more",))
AWAY = "failed to schedule other pod from a pod group: filter is away"
FAILED = status.error("Far", "running PlacementFeasible plugin: down")


class Scripted:
    """Answers about each step by how many pods were tried, and records the steps, with the nodes of those tried."""

    def __init__(self, answers: dict[int, status.Status], *, composite: dict[int, status.Status] | None = None) -> None:
        self._answers = answers
        self._composite = composite or {}
        self.calls: list[list[int]] = []
        self.seen: list[tuple[str, str, list[str]]] = []

    async def placement_feasible(self, trial: GroupTrial, steps: Sequence[TrialStep]) -> Sequence[status.Status]:
        self.calls.append([step.attempts for step in steps])
        nodes = ["" if each.assumed is None else each.assumed.node_name for each in trial.attempts]
        self.seen.append((trial.group.name, "" if trial.placement is None else trial.placement.name, nodes))
        out = []
        for step in steps:
            answers, at = self._answers, step.attempts
            if trial.group.composite:
                answers, at = self._composite, step.progress.scheduled + step.progress.unschedulable
            out.append(answers.get(at, status.SUCCESS))
            if out[-1].code not in (status.Code.SUCCESS, status.Code.WAIT):
                break
        return out


async def _schedule_gang(
    plugins: dict[str, Scripted], minimum: int = 1, members: int = 3, room: int = 3, *, own_classes: bool = False
) -> Cluster:
    """Schedule a gang on one node with so much room; with `own_classes` each member is of a class of its own."""
    cluster = Cluster([room], remote_feasible=plugins)
    cluster.group(pod_group("g", minimum))
    for number in range(members):
        name, kind = (f"p{number:03}", str(number)) if own_classes else (f"p{number}", "")
        cluster.add(name, "g", kind=kind)
    await cluster.run()
    return cluster


async def test_pods_of_one_class_are_steps_of_one_call() -> None:
    """A thousand pods would be a thousand calls."""
    plugin = Scripted({})
    cluster = await _schedule_gang({"Far": plugin})
    assert plugin.calls == [[0], [1, 2, 3]]
    assert plugin.seen == [("g", "", []), ("g", "", ["n0", "n0", "n0"])]
    assert cluster.started == [["p0", "p1", "p2"]]


async def test_a_call_is_about_more_and_more_pods_of_different_classes() -> None:
    """Two hundred such pods would be two hundred calls, each with all pods that were tried before."""
    plugin = Scripted(dict.fromkeys(range(8), WAITS))
    cluster = await _schedule_gang({"Far": plugin}, members=8, room=99, own_classes=True)
    assert plugin.calls == [[0], [1], [2, 3], [4, 5, 6, 7], [8]]
    assert len(cluster.nodes) == 8
    many = Scripted({})
    await _schedule_gang({"Far": many}, members=200, room=200, own_classes=True)
    assert [len(call) for call in many.calls] == [1, 1, 2, 4, 8, 16, 32, 64, 64, 9]


async def test_what_was_tried_behind_a_refusal_counts_for_nothing() -> None:
    """The group's pods would have failures of attempts that kube-scheduler does not make, or stay assumed."""
    cluster = await _schedule_gang({"Far": Scripted({4: REFUSED})}, members=9, room=5, own_classes=True)
    assert (cluster.nodes, cluster.conditions) == ({}, [("False", "Unschedulable", REFUSED.message)])
    tried = [class_id for what, class_id, _ in cluster.asked if what == "filter"]
    assert len(tried) == 7
    assert all(failure.rejectors == {"Far"} for failure in cluster.failures.values())
    assert len(cluster.failures) == 9


async def test_a_phase_that_fails_behind_a_refusal_is_not_heard_of() -> None:
    """The group would end by an error, and be tried again at once, though the plugin refuses it."""

    def fail_at_the_third() -> None:
        if len(cluster.asked) >= 4:  # a call of filter and one of score for each member
            cluster.fault = ports.PhaseUnavailable("filter is away")

    for refused, expected in ((2, ("Unschedulable", REFUSED.message)), (9, ("SchedulerError", AWAY))):
        cluster = Cluster([9], remote_feasible={"Far": (plugin := Scripted({refused: REFUSED}))})
        cluster.meanwhile = fail_at_the_third
        cluster.group(pod_group("g", 1))
        for number in range(4):
            cluster.add(f"p{number}", "g", kind=str(number))
        await cluster.run()
        assert plugin.calls == [[0], [1], [2]]
        assert [(reason, text) for _, reason, text in cluster.conditions] == [expected]
        assert cluster.nodes == {}


async def test_nothing_is_tried_behind_a_pod_without_which_the_gang_cannot_be() -> None:
    """Each attempt at a large gang without room would be made for all its pods in vain."""
    plugin = Scripted({})
    cluster = await _schedule_gang({"Far": plugin}, minimum=32, members=32, room=20, own_classes=True)
    assert len([what for what, _, _ in cluster.asked if what == "filter"]) == 21
    assert plugin.calls[-1] == list(range(16, 21))
    assert cluster.conditions == [("False", "Unschedulable", too_few(32, 20, 1, 11))]


async def test_a_refusal_ends_the_trial_and_undoes_it_and_names_the_plugin() -> None:
    """Pods behind it would stay assumed, or their events would not be those of the plugin that refused."""
    cluster = await _schedule_gang({"Far": Scripted({2: REFUSED})})
    assert (cluster.nodes, cluster.started) == ({}, [])
    assert cluster.conditions == [("False", "Unschedulable", REFUSED.message)]
    assert [cluster.failures[f"p{number}"].rejectors for number in range(3)] == [{"Far"}] * 3


async def test_a_refusal_that_names_no_plugin_is_nobodys() -> None:
    """A hint is looked for by the plugin's name."""
    cluster = await _schedule_gang({"Far": Scripted({2: status.unschedulable("", "no")})})
    assert cluster.conditions == [("False", "Unschedulable", "no")]
    assert [cluster.failures[f"p{number}"].rejectors for number in range(3)] == [frozenset()] * 3


async def test_before_the_first_pod_a_refusal_saves_the_trial() -> None:
    cluster = await _schedule_gang({"Far": Scripted({0: REFUSED})})
    assert cluster.asked == []
    assert cluster.conditions == [("False", "Unschedulable", REFUSED.message)]


async def test_waiting_goes_on_and_is_a_refusal_at_the_end() -> None:
    waits_once = await _schedule_gang({"Far": Scripted({0: WAITS, 1: WAITS})})
    assert waits_once.started == [["p0", "p1", "p2"]]
    to_the_end = await _schedule_gang({"Far": Scripted(dict.fromkeys(range(4), WAITS))})
    assert (to_the_end.nodes, to_the_end.conditions) == ({}, [("False", "Unschedulable", "one more")])
    assert to_the_end.failures["p0"].rejectors == {"Far"}


async def test_an_error_is_one_of_the_group_and_says_what_failed() -> None:
    cluster = await _schedule_gang({"Far": Scripted({1: FAILED})})
    text = f"failed to evaluate placement feasibility: {FAILED.message}"
    assert (cluster.nodes, cluster.conditions) == ({}, [("False", "SchedulerError", text)])
    assert cluster.text("p2") == 'parent pod group "g" encountered an error'


async def test_no_plugin_is_called_about_a_step_that_one_before_it_ended() -> None:
    """GangScheduling is the first: it ends the trial when too few are left."""
    plugin = Scripted({})
    cluster = await _schedule_gang({"Far": plugin}, minimum=3, room=1)
    assert plugin.calls == [[0], [1]]
    assert cluster.conditions == [("False", "Unschedulable", too_few(3, 1, 1, 1))]


async def test_the_last_of_several_that_wait_is_reported_and_the_first_refusal_wins() -> None:
    last = status.Status(status.Code.WAIT, "Last", ("and one more",))
    cluster = await _schedule_gang({"Far": Scripted({3: WAITS}), "Last": Scripted({3: last})})
    assert cluster.conditions == [("False", "Unschedulable", "and one more")]
    second = Scripted({1: status.unschedulable("Last", "never")})
    cluster = await _schedule_gang({"Far": Scripted({2: REFUSED}), "Last": second})
    assert second.calls == [[0], [1]]
    assert cluster.conditions == [("False", "Unschedulable", "never")]


async def test_each_run_is_recorded_with_its_status() -> None:
    cluster = await _schedule_gang({"Far": Scripted({1: WAITS, 3: REFUSED})})
    runs = counts(cluster.metrics.instruments.point_seconds)
    assert {name: runs[name] for name in runs if name.startswith("PlacementFeasible")} == {
        f"PlacementFeasible Success {PROFILE}": 1,
        f"PlacementFeasible Wait {PROFILE}": 2,
        f"PlacementFeasible Unschedulable {PROFILE}": 1,
    }


async def test_a_group_goes_to_another_placement_if_one_is_refused() -> None:
    """The plugin gets the placement by name, and where the pods are there."""

    class RackB(Scripted):
        async def placement_feasible(self, trial: GroupTrial, steps: Sequence[TrialStep]) -> Sequence[status.Status]:
            await super().placement_feasible(trial, steps)
            assert trial.placement is not None
            return [REFUSED] if trial.placement.name == "a" else [status.SUCCESS] * len(steps)

    plugin = RackB({})
    cluster = Cluster([2, 2], racks=["a", "b"], topology=True, remote_feasible={"Far": plugin})
    group = pod_group("g", 2)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    cluster.add("p0", "g")
    cluster.add("p1", "g")
    await cluster.run()
    assert cluster.nodes == dict.fromkeys(("p0", "p1"), "n1")
    assert plugin.seen == [("g", "a", []), ("g", "b", []), ("g", "b", ["n1", "n1"])]


@pytest.mark.parametrize("refused", [False, True])
async def test_a_group_of_groups_is_asked_about_by_its_groups(refused: bool) -> None:
    """Its progress counts groups; the pods of groups that fit are there."""
    plugin = Scripted({}, composite={2: REFUSED} if refused else {})
    cluster = Cluster([4], composite=True, remote_feasible={"Far": plugin})
    cluster.group(of_groups("top", 1))
    for name in ("one", "two"):
        cluster.group(pod_group(name, 1, parent="top"))
        cluster.add(f"p-{name}", name)
    await cluster.run()
    of_top = [nodes for name, _, nodes in plugin.seen if name == "top"]
    assert of_top == [[], ["n0"], ["n0", "n0"]]
    assert len(cluster.nodes) == (0 if refused else 2)


@pytest.mark.parametrize(
    ("plugins", "remote", "members", "waits"),
    [
        (("GangScheduling", "Far"), True, 3, True),
        (("Far",), True, 3, True),
        (("GangScheduling", "Far"), True, 1, False),
        (("GangScheduling",), True, 3, False),
        (("GangScheduling", "Far"), False, 3, False),
    ],
    ids=["it may still fit", "no in-tree plugin", "it cannot fit any more", "not enabled", "not remote"],
)
def test_steps_wait_for_one_another_where_that_saves_calls_of_a_remote_plugin(
    plugins: tuple[str, ...], remote: bool, members: int, waits: bool
) -> None:
    nobody: Any = None
    feasibility = placement_feasibility.PlacementFeasibility(
        evaluators=nobody,
        observer=nobody,
        publish=nobody,
        plugins={PROFILE: plugins},
        remote_plugins=lambda _: {"Far": Scripted({})} if remote else {},
    )
    group: Any = SimpleNamespace(min_count=2)
    step = TrialStep(placements.PlacementProgress(members, 0, 0), 0)
    assert feasibility.may_wait(PROFILE, group, step) is waits


async def test_a_remote_plugin_is_not_called_about_a_group_that_an_in_tree_plugin_refuses() -> None:
    plugin = Scripted({})
    cluster = Cluster([3], remote_feasible={"Far": plugin})
    cluster.group(pod_group("g", 2))
    for name in ("p0", "p1"):
        cluster.add(name, "g")
    batch = cluster.queue.pop(T0, 9)
    assert batch is not None
    cluster.queue.delete("ns/p1", "uid-p1", T0)
    await cluster.run_group(batch)
    assert plugin.calls == []


async def test_nothing_is_tried_where_a_plugin_fails_before_the_first_pod() -> None:
    cluster = await _schedule_gang({"Far": Scripted({0: FAILED})})
    assert (cluster.asked, cluster.nodes) == ([], {})
    ((_, reason, _),) = cluster.conditions
    assert reason == "SchedulerError"


async def test_a_plugin_that_is_not_connected_any_more_is_left_out() -> None:
    cluster = Cluster([3], remote_feasible={"Far": Scripted({})})
    cluster.remote_feasible = {}
    cluster.group(pod_group("g", 1))
    cluster.add("p0", "g")
    await cluster.run()
    assert cluster.nodes == {"p0": "n0"}
