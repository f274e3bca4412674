"""InProcessEvaluators: filter and score asked in this process answer as the services do."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.phase_calls import PROFILE, configuration
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation import engine
from trireme.in_process import in_process_evaluators
from trireme.registry import filter_profiles, score_profiles
from trireme.scheduling import ports
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    plugin_pb2,
    score_phase_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import phase_answers

FILTERS = ("TaintToleration", "NodeResourcesFit")
SCORES = (("NodeResourcesFit", 1), ("TaintToleration", 3))

SMALL, LARGE, IMPORTANT, UNIMPORTANT = 1, 2, 3, 4


class Cluster:
    """Three nodes, the first the emptiest, and evaluators of a profile that preempts."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        for name, cpu in (("n0", "4"), ("n1", "2"), ("n2", "2")):
            self.builder.set_node(name, allocatable={"cpu": cpu, "pods": "9"})
        self.builder.add_class(SMALL, pod_of(requesting(cpu="1")))
        self.builder.add_class(LARGE, pod_of(requesting(cpu="9")))
        self.builder.add_class(IMPORTANT, pod_of({**requesting(cpu="4"), "priority": 100}))
        self.builder.add_class(UNIMPORTANT, pod_of(requesting(cpu="1")))
        message = configuration(FILTERS, SCORES)
        profile = message.profiles[0]
        at = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
        at.plugins.add(name="DefaultPreemption")
        self.evaluators = in_process_evaluators.InProcessEvaluators(
            engine.Engine(
                self.builder.snap,
                filter_profiles.make_profiles(message),
                score_profiles.make_profiles(message),
            )
        )

    @property
    def generation(self) -> int:
        """Where the snapshot is."""
        return self.builder.snap.generation

    async def filter(self, number: int, count: int = 1, **options: Any) -> phase_answers.FilterAnswer:
        """Filter's answer about a class."""
        return await self.evaluators.filter(PROFILE, number, count, self.generation, **options)

    def nominate(self, uid: str, number: int, node: str) -> None:
        """A pod of the class is nominated for the node."""
        pod, slot = (
            cycle_pb2.PodIdentity(namespace="default", name=uid, uid=uid),
            self.builder.snap.nodes.slot_of_name[node],
        )
        self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=number, slot=slot)])

    def names(self, slots: Sequence[int]) -> list[str]:
        """The nodes at these slots."""
        return [self.builder.snap.nodes.names[slot] for slot in slots]


def _pod(name: str, nominated: str = "") -> core_pb2.Pod:
    pod = core_pb2.Pod()
    pod.metadata.namespace, pod.metadata.name, pod.metadata.uid = "default", name, name
    pod.status.nominated_node_name = nominated
    return pod


async def test_a_batch_goes_where_it_fits_best() -> None:
    cluster = Cluster()
    filtered = await cluster.filter(SMALL, 9)
    assert [filtered.columns.admits(slot) for slot in range(3)] == [True, True, True]
    assert not filtered.is_refused_everywhere(-1)
    placed = await cluster.evaluators.place(PROFILE, SMALL, 9, filtered)
    assert placed.failure is None
    hosts = cluster.names(placed.slots)
    assert sorted(hosts) == ["n0"] * 4 + ["n1"] * 2 + ["n2"] * 2
    assert hosts[0] == "n0"


async def test_extra_scores_count() -> None:
    """Extenders' scores are added to the plugins'."""
    cluster = Cluster()
    filtered = await cluster.filter(SMALL)
    placed = await cluster.evaluators.place(PROFILE, SMALL, 1, filtered, [0, 0, 1000])
    assert cluster.names(placed.slots) == ["n2"]


async def test_an_answer_is_as_it_was_though_the_cluster_changes() -> None:
    cluster = Cluster()
    filtered = await cluster.filter(SMALL, 4)
    cluster.builder.place(UNIMPORTANT, "n0", "n0", "n0", "n0")
    now = await cluster.filter(SMALL, 4)
    assert [filtered.columns.admits(0), now.columns.admits(0)] == [True, False]


async def test_an_unschedulable_pod_preempts() -> None:
    """The victims are those that stand in the way."""
    cluster = Cluster()
    cluster.builder.place(UNIMPORTANT, "n0")
    filtered = await cluster.filter(IMPORTANT)
    assert filtered.is_refused_everywhere(-1)
    about = PROFILE, IMPORTANT, cluster.generation
    (result,) = (await cluster.evaluators.run_post_filter(*about, [_pod("me")], filtered)).results
    assert (result.answer.status.code, result.answer.nominated_node) == (status_pb2.CODE_SUCCESS, "n0")
    assert [action.pod.name for action in result.answer.actions] == ["pod-0"]


async def test_candidates_are_trimmed_before_one_is_chosen() -> None:
    cluster = Cluster()
    cluster.builder.set_node("n3", allocatable={"cpu": "4", "pods": "9"})
    cluster.builder.place(UNIMPORTANT, "n0", "n3")
    filtered = await cluster.filter(IMPORTANT)
    about = PROFILE, IMPORTANT, cluster.generation, _pod("me"), filtered
    candidates = (await cluster.evaluators.list_preemption_candidates(*about)).candidates
    assert sorted(each.node_name for each in candidates) == ["n0", "n3"]
    left = [each for each in candidates if each.node_name == "n3"]
    selected = await cluster.evaluators.select_preemption_candidate(*about, left)
    assert selected.answer.nominated_node == "n3"
    nothing = await cluster.evaluators.select_preemption_candidate(*about, [])
    assert nothing.answer.status.code == status_pb2.CODE_UNSCHEDULABLE
    assert not nothing.answer.nominated_node
    assert not nothing.answer.clear_nomination


async def test_without_candidates_post_filter_has_answered() -> None:
    cluster = Cluster()
    cluster.builder.place(UNIMPORTANT, "n0")
    filtered = await cluster.filter(SMALL)
    found = await cluster.evaluators.list_preemption_candidates(
        PROFILE, SMALL, cluster.generation, _pod("me"), filtered
    )
    assert not found.candidates
    assert found.answer.status.code == status_pb2.CODE_UNSCHEDULABLE


async def test_post_filter_results_come_with_the_filter_result() -> None:
    cluster = Cluster()
    cluster.builder.place(UNIMPORTANT, "n0")
    filtered = await cluster.filter(IMPORTANT, 1, preemptors=[_pod("me")])
    assert [each.answer.nominated_node for each in filtered.post_filter_results] == ["n0"]


async def test_the_nominated_node_is_tried_first() -> None:
    cluster = Cluster()
    cluster.nominate("me", SMALL, "n1")
    slot = cluster.builder.snap.nodes.slot_of_name["n1"]
    about = PROFILE, SMALL, cluster.generation, [_pod("me", "n1")]
    filtered = await cluster.evaluators.filter_nominated(*about, [slot])
    assert filtered.admitted == 1
    # It was nominated for another node than the caller knows.
    filtered = await cluster.evaluators.filter_nominated(*about, [2])
    assert filtered.admitted == 0


async def test_several_that_are_nominated_are_admitted_together() -> None:
    """As far as each runs where it is nominated, beside those before it."""
    cluster = Cluster()
    for uid, node in (("a", "n0"), ("b", "n1"), ("c", "n2")):
        cluster.nominate(uid, SMALL, node)
    cluster.builder.place(UNIMPORTANT, "n2", "n2")
    nominees = [_pod("a"), _pod("b"), _pod("c")]
    asked = cluster.evaluators.filter_nominated(PROFILE, SMALL, cluster.generation, nominees, [0, 1, 2])
    assert (await asked).admitted == 2
    nobody = [_pod("c")]
    asked = cluster.evaluators.filter_nominated(PROFILE, SMALL, cluster.generation, nobody, [2])
    assert (await asked).admitted == 0


async def test_prepared_classes_are_known() -> None:
    """Who prepares goes by it."""
    cluster = Cluster()
    assert (PROFILE, SMALL) not in cluster.evaluators.answers
    await cluster.evaluators.prepare(PROFILE, SMALL, cluster.generation)
    assert (PROFILE, SMALL) in cluster.evaluators.answers


async def test_nothing_is_reserved_where_no_plugin_reserves() -> None:
    """The answer has one entry for each placement all the same."""
    cluster = Cluster()
    cycle = cluster.evaluators.cycle(PROFILE, SMALL, cluster.generation)
    placement = filter_pb2.Placement(pod=cycle_pb2.PodIdentity(name="me", uid="me"), node_name="n0", slot=0)
    (reservation,) = (await cluster.evaluators.reserve(cycle, [placement])).reservations
    assert not reservation.assumed
    await cluster.evaluators.unreserve(cycle, [placement])


async def test_groups_are_answered_for() -> None:
    """Who may go for a group, and which placement is better."""
    cluster = Cluster()
    cluster.builder.place(UNIMPORTANT, "n0")
    cycle = cluster.evaluators.cycle(PROFILE, IMPORTANT, cluster.generation)
    question = filter_phase_pb2.ListPodGroupVictimsRequest(cycle=cycle, priority=100)
    question.members.add(pod_class=IMPORTANT)
    answer = await cluster.evaluators.list_pod_group_victims(question)
    assert [[pod.pod.name for pod in victim.pods] for victim in answer.victims] == [["pod-0"]]
    request = score_phase_pb2.ScorePodGroupPlacementsRequest(cycle=cycle)
    request.plugins.add(plugin="PodGroupPodsCount", weight=1)
    for count in (1, 2):
        request.placements.add(pod_classes=[SMALL] * count, slots=[0, 1])
    scored = await cluster.evaluators.score_pod_group_placements(request)
    assert list(scored.totals) == [50, 100]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"generation": 99}, ports.PhaseUnavailable),
        ({"class_id": 77}, ports.PhaseFault),
        ({"profile": "nobody"}, ports.PhaseFault),
    ],
    ids=["not-reached", "no-class", "no-profile"],
)
async def test_unanswerable_requests_raise_the_errors_of_the_port(
    changed: dict[str, Any], expected: type[Exception]
) -> None:
    cluster = Cluster()
    question: dict[str, Any] = {"profile": PROFILE, "class_id": SMALL, "count": 1, "generation": cluster.generation}
    with pytest.raises(expected):
        await cluster.evaluators.filter(**{**question, **changed})
