"""FilterEngine with plugins that are fakes: what each request hands to them, and what it refuses."""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers import phase_calls
from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.phase_calls import PROFILE
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation import filter_engine, request_errors
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator
from trireme.evaluation.preemption import post_filter_context, post_filter_results
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, filter_pb2, filter_phase_pb2, snapshot_pb2, status_pb2
from trireme.wire import node_columns

SMALL, LARGE, UNKNOWN = 1, 2, 99
REFUSED = node_columns.NodeColumns(1, 0, 2, None, (status.unschedulable("P", "no"),), np.array([1, 1], dtype=np.int16))
ME = filter_phase_pb2.Preemptor(pod=cycle_pb2.PodIdentity(name="me", uid="me"), nominated_node="n1", seed=7)


class PostFilter:
    """Answers with the nodes that it may choose from, or which it was given; notes the context."""

    name = "Evicting"

    def __init__(self) -> None:
        self.remote = False
        #: The answer about each pod; None: as the candidates say.
        self.answer: filter_pb2.PostFilterResponse | None = None
        self.contexts: list[Any] = []
        self.refused: list[Any] = []

    async def post_filter(self, context: Any, snap: object, refused: object) -> Any:
        self.contexts.append(context)
        self.refused.append(refused)
        if context.list_candidates:
            return (filter_phase_pb2.PreemptionCandidate(node_name="n0"),)
        if self.answer is not None:
            context.pending.independent = True
            return filter_pb2.PostFilterResponse.FromString(self.answer.SerializeToString())
        names = ",".join(each.node_name for each in context.candidates or ())
        code = status_pb2.CODE_SUCCESS
        return filter_pb2.PostFilterResponse(status=status_pb2.Status(code=code), nominated_node=names)


class Groups:
    """Preempts for groups, and releases claims; is out of step the first times."""

    def __init__(self, out_of_step: int = 0, error: Exception | None = None) -> None:
        self.classes: list[list[int]] = []
        self._out_of_step = out_of_step
        self._error = error

    def list_victims(self, request: object, snap: object) -> Any:
        return filter_phase_pb2.ListPodGroupVictimsResponse(status=status_pb2.Status(messages=["listed"]))

    async def reprieve_victims(self, request: object, snap: object, chain: object, columns: Any) -> Any:
        self.classes.append(sorted(columns))
        if len(self.classes) <= self._out_of_step:
            raise snapshot.OutOfStepError("replaced")
        return filter_phase_pb2.ReprievePodGroupVictimsResponse(status=status_pb2.Status(messages=["reprieved"]))

    def post_filter(self, request: object, snap: object) -> Any:
        if self._error is not None:
            raise self._error
        return filter_phase_pb2.ListReleasableClaimsResponse()


class Reserver:
    """Notes what it is called for."""

    name, must_be_called = "Reserver", True

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def reserve(self, cycle: object, placements: Sequence[object], *_: object) -> Any:
        self.calls.append("reserve")
        success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
        return [filter_pb2.Reservation(status=success, assumed=[snapshot_pb2.ClusterObject()]) for _ in placements]

    async def unreserve(self, *_: object) -> None:
        self.calls.append("unreserve")


class Cluster:
    """Two nodes, and classes of pods that fit there and that do not."""

    def __init__(self, *plugins: Any, groups: Groups | None = None) -> None:
        self.builder = SnapshotBuilder()
        for name in ("n0", "n1"):
            self.builder.set_node(name)
        self.builder.add_class(SMALL, pod_of(requesting(cpu="3")))
        self.builder.add_class(LARGE, pod_of(requesting(cpu="9")))
        self.post_filter, self.reserver = PostFilter(), Reserver()
        made: list[Any] = [node_resources_fit.NodeResourcesFitFilter(fit_args.Args()), *plugins]
        of_groups: Any = groups or Groups()
        self.engine = filter_engine.FilterEngine(
            self.builder.snap,
            filter_engine.FilterProfiles(
                {PROFILE: filter_chain.FilterChain(made)},
                {PROFILE: [self.reserver]},
                {PROFILE: [self.post_filter]},
                {PROFILE: of_groups},
                {PROFILE: of_groups},
            ),
        )

    def cycle(self, number: int = SMALL, uid: str = "") -> cycle_pb2.Cycle:
        cycle = phase_calls.cycle(self.builder, number)
        cycle.pod.metadata.uid = uid
        return cycle

    def nominate(self, uid: str, number: int, slot: int) -> None:
        pod = cycle_pb2.PodIdentity(uid=uid)
        self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=number, slot=slot)])


def _calls(cluster: Cluster, number: int) -> dict[str, Any]:
    """A call of each operation about the class of this number."""
    engine, cycle = cluster.engine, cluster.cycle(number)
    members: dict[str, Any] = {"cycle": cluster.cycle(SMALL)}
    return {
        "filter": engine.filter(cycle),
        "classes": engine.filter_classes(cycle, [filter_phase_pb2.ClassToFilter(pod_class=number, count=1)]),
        "nominated": engine.filter_nominated(cycle, [filter_phase_pb2.Nominee()]),
        "post filter": engine.run_post_filter(cycle, REFUSED, None, [ME]),
        "reserve": engine.reserve(cycle, []),
        "unreserve": engine.unreserve(cycle, []),
        "placed": engine.reprieve_pod_group_victims(
            filter_phase_pb2.ReprievePodGroupVictimsRequest(**members, placed=[{"pod_class": number}])
        ),
        "reprieve": engine.reprieve_pod_group_victims(filter_phase_pb2.ReprievePodGroupVictimsRequest(cycle=cycle)),
    }


@pytest.mark.parametrize("name", ["filter", "classes", "nominated", "post filter", "reserve", "unreserve", "placed",
                                  "reprieve"])  # fmt: skip
async def test_a_request_about_a_class_that_does_not_exist_is_refused(name: str) -> None:
    for number, refused in ((UNKNOWN, True), (SMALL, False)):
        calls = _calls(Cluster(), number)
        call = calls.pop(name)
        for other in calls.values():
            other.close()
        if refused:
            with pytest.raises(request_errors.InvalidRequestError, match="no class 99"):
                await call
        else:
            await call


@pytest.mark.parametrize("operation", ["list_pod_group_victims", "list_releasable_claims"])
def test_a_group_whose_class_does_not_exist_is_refused(operation: str) -> None:
    request = {
        "list_pod_group_victims": filter_phase_pb2.ListPodGroupVictimsRequest,
        "list_releasable_claims": filter_phase_pb2.ListReleasableClaimsRequest,
    }[operation]
    cluster = Cluster()
    answer = getattr(cluster.engine, operation)(request(cycle=cluster.cycle()))
    assert answer.evaluated_generation == cluster.builder.snap.generation
    with pytest.raises(request_errors.InvalidRequestError, match="no class 99"):
        getattr(cluster.engine, operation)(request(cycle=cluster.cycle(UNKNOWN)))


async def test_a_request_about_a_profile_that_does_not_exist_is_refused() -> None:
    cluster = Cluster()
    cycle = cluster.cycle()
    cycle.profile = "other"
    with pytest.raises(request_errors.InvalidRequestError, match="no profile 'other'"):
        await cluster.engine.filter(cycle)


async def test_requests_about_nothing_are_refused() -> None:
    cluster = Cluster()
    for call, text in (
        (cluster.engine.filter_classes(cluster.cycle(), []), "classes: there is none"),
        (cluster.engine.filter_nominated(cluster.cycle(), []), "nominees: there is none"),
        (cluster.engine.run_post_filter(cluster.cycle(), REFUSED, None, []), "preemptors: there is none"),
    ):
        with pytest.raises(request_errors.InvalidRequestError, match=text):
            await call


@pytest.mark.parametrize("pre_filter", [None, status.unschedulable("P", "never here")])
async def test_post_filter_plugins_learn_why_the_pod_was_refused(pre_filter: status.Status | None) -> None:
    """By node, or by PreFilter everywhere; with the pod's name, its nomination and its seed."""
    cluster = Cluster()
    cycle, generation = cluster.cycle(LARGE), cluster.builder.snap.generation
    listed = await cluster.engine.list_preemption_candidates(cycle, REFUSED, pre_filter, ME)
    assert [each.node_name for each in listed.candidates] == ["n0"]
    assert not listed.HasField("answer")
    chosen = await cluster.engine.select_preemption_candidate(cycle, REFUSED, pre_filter, ME, list(listed.candidates))
    assert chosen.answer.nominated_node == "n0"
    run = await cluster.engine.run_post_filter(cycle, REFUSED, pre_filter, [ME])
    assert [each.answer.nominated_node for each in run.results] == [""]
    assert {each.evaluated_generation for each in (listed, chosen, run)} == {generation}
    for context, refused in zip(cluster.post_filter.contexts, cluster.post_filter.refused, strict=True):
        assert refused is REFUSED
        assert (context.pre_filter, context.index is None) == (pre_filter, pre_filter is not None)
        assert list(context.statuses) == list(REFUSED.statuses)
        assert (context.pod_class.id, context.seed, context.cycle.pod.metadata.uid) == (LARGE, 7, "me")
        assert context.cycle.pod.status.nominated_node_name == "n1"
    assert [context.list_candidates for context in cluster.post_filter.contexts] == [True, False, False]


async def test_each_result_of_post_filter_says_how_long_it_took() -> None:
    cluster, ticks = Cluster(), itertools.count()
    chain = cluster.engine.profiles.chains[PROFILE]
    columns = await cluster.engine.evaluate(cluster.cycle(LARGE))

    async def refresh() -> class_verdicts.ClassVerdicts:
        return columns

    results = post_filter_results.PostFilterResults(
        cluster.cycle(LARGE), chain, [cluster.post_filter], columns, refresh, cluster.builder.snap,
        pod_class=cluster.builder.snap.classes[LARGE], clock=lambda: next(ticks) / 2,
    )  # fmt: skip
    assert [each.duration_us async for each in results.results_after_filter([ME], REFUSED, None)] == [500_000]


async def test_a_post_filter_that_answers_in_place_of_candidates_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    answer = filter_pb2.PostFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_ERROR))

    async def post_filter(*_: object) -> filter_pb2.PostFilterResponse:
        return answer

    monkeypatch.setattr(cluster.post_filter, "post_filter", post_filter)
    listed = await cluster.engine.list_preemption_candidates(cluster.cycle(LARGE), REFUSED, None, ME)
    assert (list(listed.candidates), listed.answer) == ([], answer)


async def test_post_filter_gets_columns_of_the_cluster_as_it_is_by_then() -> None:
    """While it searches the cluster may change, but not be replaced."""
    cluster = Cluster()
    await cluster.engine.run_post_filter(cluster.cycle(LARGE), REFUSED, None, [ME])
    (context,) = cluster.post_filter.contexts
    cluster.builder.set_node("n2")
    assert (await context.refresh()).generation == cluster.builder.snap.generation
    cluster.builder.snap.incarnation += 1
    with pytest.raises(snapshot.OutOfStepError):
        await context.refresh()


@pytest.mark.parametrize(
    ("number", "node", "action", "remote", "nominated", "results"),
    [
        pytest.param(LARGE, "n0", "evict", False, "", 3, id="each pod"),
        pytest.param(LARGE, "n0", "evict", True, "", 1, id="a plugin is a service"),
        pytest.param(LARGE, "n0", "evict", False, "me-1", 1, id="a later pod is nominated"),
        pytest.param(LARGE, "", "evict", False, "", 1, id="no node is nominated"),
        pytest.param(LARGE, "gone", "evict", False, "", 1, id="the node is not here"),
        pytest.param(LARGE, "n0", "other", False, "", 1, id="more is done than to evict"),
        pytest.param(SMALL, "n0", "evict", False, "", 1, id="a node takes a pod by now"),
    ],
)
async def test_several_pods_have_results_where_each_follows_from_those_before(
    number: int, node: str, action: str, remote: bool, nominated: str, results: int
) -> None:
    cluster = Cluster()
    success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    answer = cluster.post_filter.answer = filter_pb2.PostFilterResponse(status=success, nominated_node=node)
    if action == "evict":
        answer.actions.add().evict.SetInParent()
    else:
        answer.actions.add()
    cluster.post_filter.remote = remote
    if nominated:
        cluster.nominate(nominated, LARGE, 1)
    preemptors = [filter_phase_pb2.Preemptor(pod=cycle_pb2.PodIdentity(uid=f"me-{each}")) for each in range(3)]
    found = await cluster.engine.run_post_filter(cluster.cycle(number), REFUSED, None, preemptors)
    assert len(found.results) == results
    with_filter = (await cluster.engine.filter(cluster.cycle(number), 3, 0, preemptors)).post_filter_results
    assert len(with_filter) == (0 if remote or nominated or number == SMALL else results)


async def test_a_class_for_which_a_plugin_fails_on_some_node_is_not_placed_with_others() -> None:
    cluster = Cluster()
    plugin: Any = cluster.engine.profiles.chains[PROFILE].plugins[0]
    # Without plugins at Reserve, which have each class placed by itself.
    engine = filter_engine.FilterEngine(
        cluster.builder.snap, filter_engine.FilterProfiles(cluster.engine.profiles.chains)
    )
    wanted = [filter_phase_pb2.ClassToFilter(pod_class=SMALL, count=1)]
    assert len(await engine.filter_classes(cluster.cycle(), wanted)) == 1
    plugin.filter = lambda pod_class, snap, state, slots, table: interfaces.Verdicts(
        np.array([0, table.intern(status.error("P", "broken"))], dtype=np.int16)[slots]
    )
    engine.evaluator.drop_all()
    assert len(await engine.filter_classes(cluster.cycle(), wanted)) == 0


class Lonely:
    """Refuses nodes without pods."""

    name = "Lonely"
    depends_on = interfaces.Dependency.NODE_PODS
    reads: tuple[str, ...] = ()

    def pre_filter(self, *_: object) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult()

    def filter(self, pod_class: object, snap: Any, state: object, slots: Any, table: Any) -> interfaces.Verdicts:
        refusal = table.intern(status.unschedulable(self.name, "lonely"))
        return interfaces.Verdicts(np.where(snap.pod_count(slots) > 0, 0, refusal).astype(np.int16))


@pytest.mark.parametrize(
    ("number", "expected"),
    [pytest.param(SMALL, "no", id="passes"), pytest.param(LARGE, "Insufficient cpu", id="fits not")],
)
async def test_the_next_pod_learns_why_the_node_refuses_it_beside_the_one_before(number: int, expected: str) -> None:
    """If it would not, the reason without that pod stays."""
    cluster = Cluster(Lonely())
    success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    cluster.post_filter.answer = filter_pb2.PostFilterResponse(status=success, nominated_node="n1")
    preemptors = [filter_phase_pb2.Preemptor(pod=cycle_pb2.PodIdentity(uid=f"me-{each}")) for each in range(2)]
    cluster.builder.set_node("n1", allocatable={"cpu": "8", "pods": "9"})
    found = await cluster.engine.run_post_filter(cluster.cycle(number), REFUSED, None, preemptors)
    first, second = found.results
    assert not first.HasField("changed_slot")
    assert (second.changed_slot, list(second.changed_status.messages)) == (1, [expected])


@pytest.mark.parametrize("code", [status.Code.ERROR, status.Code.UNSCHEDULABLE])
async def test_nobody_preempts_where_a_plugin_failed(code: status.Code) -> None:
    """On some node, or for the class as a whole."""
    cluster = Cluster()
    plugin: Any = cluster.engine.profiles.chains[PROFILE].plugins[0]
    failed = status.Status(code, "P", ("broken",))
    plugin.filter = lambda pod_class, snap, state, slots, table: interfaces.Verdicts(
        np.array([table.intern(failed), table.intern(status.unschedulable("P", "no"))], dtype=np.int16)[slots]
    )
    preemptors = [ME]
    found = await cluster.engine.filter(cluster.cycle(), 1, 0, preemptors)
    assert len(found.post_filter_results) == (code is not status.Code.ERROR)
    plugin.pre_filter = lambda *_: interfaces.PreFilterResult(status=failed)
    found = await cluster.engine.filter(cluster.cycle(LARGE), 1, 0, preemptors)
    assert len(found.post_filter_results) == (code is not status.Code.ERROR)


async def test_nobody_preempts_where_there_is_no_node() -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.builder.remove_node(name)
    assert len((await cluster.engine.filter(cluster.cycle(), 1, 0, [ME])).post_filter_results) == 1
    (context,) = cluster.post_filter.contexts
    assert context.slots_where_preemption_may_help(cluster.builder.snap.nodes.live_slots()).tolist() == []


async def test_a_service_that_answers_otherwise_without_a_change_has_its_answer_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller has an answer of the same generation."""
    far = Meanwhile(0)
    far.depends_on = interfaces.Dependency.CLUSTER
    cluster = far.cluster = Cluster(far)
    for name in ("n2", "n3"):
        cluster.builder.set_node(name)
    answer = await cluster.engine.filter(cluster.cycle())
    columns = answer.columns
    assert columns.feasible.tolist() == [True] * 4
    for refused in ({2}, {2, 3}, set[int]()):
        monkeypatch.setattr(far, "passes", lambda snap, slot, refused=refused: slot not in refused)
        columns.update((await cluster.engine.filter(cluster.cycle(), 1, columns.generation)).columns)
        assert columns.feasible.tolist() == [slot not in refused for slot in range(4)]


@pytest.mark.parametrize("times", range(post_filter_context.MAX_TRIES + 1))
async def test_victims_are_reprieved_again_where_the_snapshot_is_replaced_meanwhile(times: int) -> None:
    groups = Groups(times)
    cluster = Cluster(groups=groups)
    request = filter_phase_pb2.ReprievePodGroupVictimsRequest(
        cycle=cluster.cycle(), placed=[{"pod_class": LARGE}, {"pod_class": SMALL}, {"pod_class": LARGE}]
    )
    call = cluster.engine.reprieve_pod_group_victims(request)
    if times < post_filter_context.MAX_TRIES:
        answer = await call
        assert list(answer.status.messages) == ["reprieved"]
        assert answer.evaluated_generation == cluster.builder.snap.generation
    else:
        with pytest.raises(snapshot.OutOfStepError):
            await call
    assert groups.classes == [[SMALL, LARGE]] * min(times + 1, post_filter_context.MAX_TRIES)


class Meanwhile(FakeRemoteFilter):
    """A service that lets all nodes take pods; nodes change under the first calls."""

    def __init__(self, changes: int, slots: Sequence[int] = (0, 1)) -> None:
        super().__init__("Far", interfaces.Dependency.NODE)
        self.cluster: Any = None
        self.left = changes

    def passes(self, *_: object) -> bool:
        return True

    async def answering(self) -> None:
        self.left -= 1
        if self.left >= 0:
            self.cluster.builder.set_node("n0", labels={"left": str(self.left)})


async def test_the_members_of_a_group_are_judged_by_one_state_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class that was evaluated first is evaluated again where the cluster changed under the second."""
    changing = Meanwhile(1)
    groups = Groups()
    cluster = changing.cluster = Cluster(changing, groups=groups)
    seen: list[set[int]] = []

    async def reprieve(request: object, snap: object, chain: object, columns: Any) -> Any:
        seen.append({each.generation for each in columns.values()})
        return filter_phase_pb2.ReprievePodGroupVictimsResponse()

    monkeypatch.setattr(groups, "reprieve_victims", reprieve)
    members = [{"pod_class": SMALL}, {"pod_class": LARGE}]
    await cluster.engine.evaluate(cluster.cycle(SMALL))
    changing.left = 1
    await cluster.engine.reprieve_pod_group_victims(
        filter_phase_pb2.ReprievePodGroupVictimsRequest(cycle=cluster.cycle(), placed=members)
    )
    assert seen == [{cluster.builder.snap.generation}]


@pytest.mark.parametrize("changes", [0, 99])
async def test_a_pod_waits_for_an_answer_about_the_node_that_it_is_nominated_to(changes: int) -> None:
    """While plugins have none about that node as it is, no other answer holds for the pod."""
    changing = Meanwhile(0)
    cluster = changing.cluster = Cluster(changing)
    cluster.nominate("me", SMALL, 0)
    changing.left = changes
    if changes:
        with pytest.raises(request_errors.StaleRequestError, match="changes faster than plugins"):
            await cluster.engine.filter(cluster.cycle(uid="me"))
        assert changes - changing.left >= filter_evaluator.ATTEMPTS
    else:
        answer = await cluster.engine.filter(cluster.cycle(uid="me"))
        assert answer.columns.feasible.tolist() == [True, True]


@pytest.mark.parametrize("error", [ValueError("odd"), None])
def test_claims_that_cannot_be_read_are_the_callers_fault(error: Exception | None) -> None:
    cluster = Cluster(groups=Groups(error=error))
    request = filter_phase_pb2.ListReleasableClaimsRequest(cycle=cluster.cycle(), tried=[{"pod_class": LARGE}])
    if error is None:
        cluster.engine.list_releasable_claims(request)
    else:
        with pytest.raises(request_errors.InvalidRequestError, match="tried: odd"):
            cluster.engine.list_releasable_claims(request)
    request.tried.add(pod_class=UNKNOWN)
    with pytest.raises(request_errors.InvalidRequestError, match="tried: no class 99"):
        cluster.engine.list_releasable_claims(request)


async def test_what_is_reserved_is_given_back_by_the_same_plugins() -> None:
    cluster = Cluster()
    placements = [filter_pb2.Placement(node_name="n0")]
    reserved = await cluster.engine.reserve(cluster.cycle(), placements)
    assert [len(each.assumed) for each in reserved.reservations] == [1]
    assert reserved.evaluated_generation == cluster.builder.snap.generation
    await cluster.engine.unreserve(cluster.cycle(), placements)
    assert cluster.reserver.calls == ["reserve", "unreserve"]


async def test_a_pod_that_is_nominated_is_answered_by_itself() -> None:
    """On its node it does not count; for others of its class it does."""
    cluster = Cluster()
    cluster.builder.add_class(3, pod_of({**requesting(cpu="3"), "priority": 5}))
    cluster.nominate("me", 3, 1)
    own = await cluster.engine.filter(cluster.cycle(3, uid="me"))
    assert own.columns.feasible.tolist() == [True, True]
    other = await cluster.engine.filter(cluster.cycle(3, uid="other"))
    assert other.columns.feasible.tolist() == [True, False]
    assert other.columns.statuses[int(other.columns.index[1]) - 1].messages == ("Insufficient cpu",)


async def test_pods_go_where_they_are_nominated_as_far_as_the_caller_knows_where() -> None:
    cluster = Cluster()
    for slot, uid in enumerate(("a", "b")):
        cluster.nominate(uid, SMALL, slot)

    async def admitted(*nominees: tuple[str, int]) -> int:
        named = [filter_phase_pb2.Nominee(pod=cycle_pb2.PodIdentity(uid=uid), slot=slot) for uid, slot in nominees]
        return (await cluster.engine.filter_nominated(cluster.cycle(), named)).admitted

    assert await admitted(("a", 0), ("b", 1)) == 2
    assert await admitted(("a", 0), ("b", 0)) == 1
    assert await admitted(("a", 1), ("b", 1)) == 0
    assert await admitted(("b", 1)) == 1
    assert await admitted(("unknown", 0), ("a", 0)) == 0


async def test_constraints_come_with_answers_about_several_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one pod nobody places another by the same answer."""
    plugin = SimpleNamespace(asked=0)
    cluster = Cluster()
    engine = cluster.engine.evaluator

    def constraints(*_: object) -> tuple[()]:
        plugin.asked += 1
        return ()

    monkeypatch.setattr(engine, "constraints", constraints)
    for count, asked in ((1, 0), (2, 1)):
        await cluster.engine.filter(cluster.cycle(), count)
        assert plugin.asked == asked
    never = pod_of({"nodeName": "nowhere"})
    cluster.builder.add_class(3, never)
    refusing: Any = cluster.engine.profiles.chains[PROFILE].plugins[0]
    refusing.pre_filter = lambda *_: interfaces.PreFilterResult(status=status.unresolvable("P", "never"))
    answer = await cluster.engine.filter(cluster.cycle(3), 2)
    assert answer.refusal is not None
    assert plugin.asked == 1, "a class that PreFilter refuses is placed nowhere"


async def test_an_answer_says_how_long_its_points_took_if_it_is_timed() -> None:
    cluster = Cluster()
    answer = await cluster.engine.filter(cluster.cycle())
    assert {each.extension_point for each in answer.timings} == {"PreFilter", "Filter"}
    untimed = filter_engine.FilterEngine(cluster.builder.snap, cluster.engine.profiles, timed=False)
    assert (await untimed.filter(cluster.cycle())).timings == ()
    # A plugin at Reserve that must be called is called for each pod.
    assert answer.needs_reserve


async def test_without_post_filter_plugins_an_answer_has_no_results_of_these() -> None:
    cluster = Cluster()
    engine = filter_engine.FilterEngine(
        cluster.builder.snap, filter_engine.FilterProfiles(cluster.engine.profiles.chains, post_filters={PROFILE: []})
    )
    answer = await engine.filter(cluster.cycle(LARGE), 1, 0, [ME])
    assert not answer.post_filter_results
    assert len((await cluster.engine.filter(cluster.cycle(LARGE), 1, 0, [ME])).post_filter_results) == 1


async def test_an_answer_names_the_plugins_that_did_not_skip_the_class() -> None:
    skipping: Any = Lonely()
    skipping.pre_filter = lambda *_: interfaces.SKIPPED
    assert (await Cluster(skipping).engine.filter(Cluster().cycle())).evaluated == ["NodeResourcesFit"]
    assert (await Cluster(Lonely()).engine.filter(Cluster().cycle())).evaluated == ["NodeResourcesFit", "Lonely"]
