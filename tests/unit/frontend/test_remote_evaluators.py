"""RemoteEvaluators: what filter and score are sent, which answers do not count, and what metrics record."""

import copy
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from grpc import aio

from tests.helpers.frontend_world_services import FakePhase
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.frontend.phase_clients import class_answers, follower_replicas, remote_evaluators
from trireme.scheduling import ports
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer

GENERATION = 5
REFUSED = status.unschedulable("NodeAffinity", "no such node")

_COLUMNS = filter_pb2.NodeColumns(generation=GENERATION, size=2, status_index=[0, 0], capacity=[3, 1])


def failed(code: grpc.StatusCode) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), "it failed")


def _answers() -> dict[str, Any]:
    """A good answer to each call: two nodes take the pods."""
    filtered = filter_phase_pb2.FilterPhaseFilterResponse(columns=_COLUMNS, evaluated_generation=GENERATION)
    of_class = filter_phase_pb2.FilterPhaseFilterResponse(columns=_COLUMNS, admitted=b"\x03")
    of_class.demand.amounts["cpu"] = 1
    at = {"evaluated_generation": GENERATION}
    return {
        "Filter": filtered,
        "FilterNominated": filter_phase_pb2.FilterNominatedResponse(admitted=1, **at),
        "FilterClasses": filter_phase_pb2.FilterClassesResponse(answers=[of_class, of_class], **at),
        "RunPostFilter": filter_phase_pb2.RunPostFilterResponse(results=[filter_phase_pb2.PostFilterResult()], **at),
        "ListPreemptionCandidates": filter_phase_pb2.ListPreemptionCandidatesResponse(**at),
        "SelectPreemptionCandidate": filter_phase_pb2.SelectPreemptionCandidateResponse(**at),
        "ListPodGroupVictims": filter_phase_pb2.ListPodGroupVictimsResponse(**at),
        "ReprievePodGroupVictims": filter_phase_pb2.ReprievePodGroupVictimsResponse(**at),
        "ListReleasableClaims": filter_phase_pb2.ListReleasableClaimsResponse(**at),
        "Reserve": filter_pb2.ReserveResponse(reservations=[filter_pb2.Reservation()], **at),
        "Unreserve": filter_pb2.UnreserveResponse(),
        "Place": score_phase_pb2.PlaceResponse(slots=[0], **at),
        "PlaceClasses": score_phase_pb2.PlaceClassesResponse(
            answers=[score_phase_pb2.PlaceResponse(slots=[0]), score_phase_pb2.PlaceResponse(slots=[1])], **at
        ),
        "ScorePodGroupPlacements": score_phase_pb2.ScorePodGroupPlacementsResponse(
            status=wire_status.to_message(status.SUCCESS), totals=[1], **at
        ),
    }


class Phases:
    """Replicas of filter and score that answer as a test says; `sent` has each call, and `metrics` what was noted."""

    def __init__(self) -> None:
        self.answers = _answers()
        self.failures: dict[str, list[BaseException]] = {}
        self.sent: list[tuple[str, Any]] = []
        self.metrics: list[tuple[str, str, str, float]] = []
        self.now = 0.0
        self.classes = class_answers.ClassAnswers()
        self.filters, self.scores = (FakePhase(self._respond, lambda _: None) for _ in range(2))
        filters, scores = (cast("follower_replicas.FollowerReplicas", each) for each in (self.filters, self.scores))
        self.evaluators = remote_evaluators.RemoteEvaluators(
            filters,
            scores,
            self.classes,
            lambda: cycle_pb2.Fence(epoch=4),
            lambda: 77,
            lambda profile: profile == "remote",
            metrics=cast("scheduler_metrics.SchedulerMetrics", self),
        )

    async def _respond(self, rpc: str, request: Any) -> Any:
        self.sent.append((rpc, copy.deepcopy(request)))
        self.now += 0.25
        if failures := self.failures.get(rpc):
            raise failures.pop(0)
        return self.answers[rpc]

    def clock(self) -> float:
        return self.now

    def record_phase_call(self, *call: Any) -> None:
        self.metrics.append(call)

    async def filtered(self) -> FilterAnswer:
        return await self.evaluators.filter("p", 1, 1, GENERATION)


_POD = core_pb2.Pod()
_POD.metadata.uid = "u"
_FILTERED = FilterAnswer(columns=node_columns.from_message(_COLUMNS))
_PLACEMENTS = [filter_pb2.Placement(slot=0)]


def _about(request: Any) -> Any:
    request.cycle.CopyFrom(cycle_pb2.Cycle(generation=GENERATION, profile="p", pod_class=1))
    return request


CALLS: dict[str, Callable[[remote_evaluators.RemoteEvaluators], Awaitable[Any]]] = {
    "Filter": lambda it: it.filter("p", 1, 1, GENERATION),
    "FilterNominated": lambda it: it.filter_nominated("p", 1, GENERATION, [_POD], [0]),
    "RunPostFilter": lambda it: it.run_post_filter("p", 1, GENERATION, [_POD], _FILTERED),
    "ListPreemptionCandidates": lambda it: it.list_preemption_candidates("p", 1, GENERATION, _POD, _FILTERED),
    "SelectPreemptionCandidate": lambda it: it.select_preemption_candidate("p", 1, GENERATION, _POD, _FILTERED, []),
    "ListPodGroupVictims": lambda it: it.list_pod_group_victims(_about(filter_phase_pb2.ListPodGroupVictimsRequest())),
    "ReprievePodGroupVictims": lambda it: it.reprieve_pod_group_victims(
        _about(filter_phase_pb2.ReprievePodGroupVictimsRequest())
    ),
    "ListReleasableClaims": lambda it: it.list_releasable_claims(
        _about(filter_phase_pb2.ListReleasableClaimsRequest())
    ),
    "Reserve": lambda it: it.reserve(it.cycle("p", 1, GENERATION), _PLACEMENTS),
    "Unreserve": lambda it: it.unreserve(it.cycle("p", 1, GENERATION), _PLACEMENTS),
    "Place": lambda it: it.place("p", 1, 1, _FILTERED),
    "FilterClasses": lambda it: it.place_in_turn("p", [(1, 1), (2, 1)], GENERATION),
    "PlaceClasses": lambda it: it.place_in_turn("p", [(1, 1), (2, 1)], GENERATION),
    "ScorePodGroupPlacements": lambda it: it.score_pod_group_placements(
        _about(
            score_phase_pb2.ScorePodGroupPlacementsRequest(placements=[score_phase_pb2.CandidatePlacement(slots=[0])])
        )
    ),
}
_OF_SCORE = ("Place", "PlaceClasses", "ScorePodGroupPlacements")


@pytest.mark.parametrize("rpc", CALLS)
async def test_each_call_is_answered_and_measured(rpc: str) -> None:
    phases = Phases()
    answer = await CALLS[rpc](phases.evaluators)
    assert (answer is None) == (rpc == "Unreserve")
    phase = "score" if rpc in _OF_SCORE else "filter"
    assert (phase, rpc, "OK", 0.25) in phases.metrics
    assert [each[1] for each in phases.metrics] == [each for each, _ in phases.sent]
    sent = dict(phases.sent)[rpc]
    assert (sent.cycle.profile, sent.cycle.generation) == ("p", GENERATION)


@pytest.mark.parametrize("rpc", CALLS)
@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, None], ids=["refused", "no replica"])
async def test_a_call_that_fails_is_a_fault_with_its_code(rpc: str, code: grpc.StatusCode | None) -> None:
    """An error that nobody maps ends the scheduling of all pods."""
    phases = Phases()
    error: BaseException = ports.PhaseUnavailable("none in step") if code is None else failed(code)
    phases.failures[rpc] = [error]
    with pytest.raises(ports.PhaseUnavailable if code is None else ports.PhaseFault) as raised:
        await CALLS[rpc](phases.evaluators)
    phase = "score" if rpc in _OF_SCORE else "filter"
    assert str(raised.value) == ("none in step" if code is None else f"{phase} answered INTERNAL: it failed")
    assert phases.metrics[-1] == (phase, rpc, "UNAVAILABLE" if code is None else "INTERNAL", 0.25)


@pytest.mark.parametrize("rpc", [each for each in CALLS if each != "Unreserve"])
async def test_an_answer_from_an_older_snapshot_does_not_count(rpc: str) -> None:
    phases = Phases()
    phases.answers[rpc].evaluated_generation = GENERATION - 1
    phase = "score" if rpc in _OF_SCORE else "filter"
    with pytest.raises(ports.PhaseFault, match=f"{phase} answered by generation 4, but the call named 5"):
        await CALLS[rpc](phases.evaluators)
    phases.answers[rpc].evaluated_generation = GENERATION + 1
    await CALLS[rpc](phases.evaluators)


def _with(rpc: str, **fields: Any) -> tuple[str, Callable[[Any], None]]:
    def change(answer: Any) -> None:
        for name, value in fields.items():
            if isinstance(value, list):
                answer.ClearField(name)
                getattr(answer, name).extend(value)
            else:
                setattr(answer, name, value)

    return rpc, change


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (_with("FilterNominated", admitted=2), "filter admitted 2 of 1 nominated pods"),
        (_with("RunPostFilter", results=[]), "filter answered 0 PostFilter results for 1 pods"),
        (
            _with("RunPostFilter", results=[filter_phase_pb2.PostFilterResult()] * 2),
            "filter answered 2 PostFilter results for 1 pods",
        ),
        (_with("Reserve", reservations=[]), "filter answered 0 reservations for 1"),
        (_with("ScorePodGroupPlacements", totals=[]), "score answered 0 totals for 1 placements"),
        (
            _with("PlaceClasses", answers=[score_phase_pb2.PlaceResponse()] * 3),
            "score answered about 3 classes of 2",
        ),
        (("Filter", lambda it: it.columns.capacity.pop()), "filter answered columns that do not fit together"),
        *(
            (
                ("FilterClasses", lambda it, name=name: it.answers[1].ClearField(name)),
                "filter answered about a class without its demand, or the nodes that take it",
            )
            for name in ("demand", "admitted")
        ),
        (
            ("FilterClasses", lambda it: setattr(it.answers[1].columns, "generation", GENERATION - 1)),
            "filter answered by generation 4, but the call named 5",
        ),
    ],
)
async def test_an_answer_about_something_else_is_a_fault(bad: tuple[str, Callable[[Any], Any]], text: str) -> None:
    """Taken as it is, it would place pods that nobody named, or leave some without an answer."""
    phases = Phases()
    rpc, change = bad
    change(phases.answers[rpc])
    with pytest.raises(ports.PhaseFault, match=text):
        await CALLS[rpc](phases.evaluators)


async def test_a_score_that_failed_need_not_rate_placements() -> None:
    phases = Phases()
    answer = phases.answers["ScorePodGroupPlacements"]
    answer.ClearField("totals")
    answer.status.CopyFrom(wire_status.to_message(status.error("P", "broken")))
    assert await CALLS["ScorePodGroupPlacements"](phases.evaluators) is answer


def test_a_call_has_the_leader_the_configuration_and_whether_remote_answers_are_wanted() -> None:
    evaluators = Phases().evaluators
    for profile in ("p", "remote"):
        assert evaluators.cycle(profile, 3, 9) == cycle_pb2.Cycle(
            fence=cycle_pb2.Fence(epoch=4),
            generation=9,
            config_hash=77,
            profile=profile,
            pod_class=3,
            wants_remote_answers=profile == "remote",
        )


async def test_only_the_replica_that_has_the_class_is_asked_for_what_changed() -> None:
    """Another one, or another stream of it, numbers statuses for itself."""
    phases = Phases()
    bases = []
    for identity in (("a", 1), ("a", 1), ("b", 2), ("b", 3), ("b", 3)):
        phases.filters.identity = identity
        await phases.filtered()
        bases.append(phases.sent[-1][1].base_generation)
    assert bases == [0, GENERATION, 0, 0, GENERATION]
    assert ("p", 1) in phases.evaluators.answers
    phases.filters.identity = ("c", 4)
    phases.answers["Filter"].pre_filter.status.CopyFrom(wire_status.to_message(REFUSED))
    assert (await phases.filtered()).refusal == REFUSED
    await phases.filtered()
    assert phases.sent[-1][1].base_generation == 0, "a refusal has no columns that a patch could build on"


async def test_an_answer_about_a_nominated_pod_is_kept_for_no_class() -> None:
    phases = Phases()
    preemptor = core_pb2.Pod()
    preemptor.metadata.uid = "v"
    await phases.evaluators.filter("p", 1, 2, GENERATION, _POD, [preemptor])
    request = phases.sent[-1][1]
    assert (request.cycle.pod.metadata.uid, request.count, request.base_generation) == ("u", 2, 0)
    assert [each.pod.uid for each in request.preemptors] == ["v"]
    assert ("p", 1) not in phases.evaluators.answers
    await phases.filtered()
    assert (phases.sent[-1][1].base_generation, phases.sent[-1][1].cycle.HasField("pod")) == (0, False)


@pytest.mark.parametrize("refusal", [REFUSED, None], ids=["by PreFilter", "on each node"])
@pytest.mark.parametrize("rpc", ["RunPostFilter", "ListPreemptionCandidates", "SelectPreemptionCandidate"])
async def test_post_filter_gets_why_the_class_runs_nowhere(rpc: str, refusal: status.Status | None) -> None:
    phases = Phases()
    filtered, pods = FilterAnswer(columns=_FILTERED.columns, refusal=refusal), (1, GENERATION, _POD)
    if rpc == "RunPostFilter":
        await phases.evaluators.run_post_filter("p", 1, GENERATION, [_POD], filtered)
    elif rpc == "ListPreemptionCandidates":
        await phases.evaluators.list_preemption_candidates("p", *pods, filtered)
    else:
        chosen = [filter_phase_pb2.PreemptionCandidate(node_name="n")]
        await phases.evaluators.select_preemption_candidate("p", *pods, filtered, chosen)
        assert list(phases.sent[-1][1].candidates) == chosen
    request = phases.sent[-1][1]
    assert (request.HasField("pre_filter"), request.HasField("columns")) == (refusal is not None, refusal is None)
    preemptors = request.preemptors if rpc == "RunPostFilter" else [request.preemptor]
    assert [each.pod.uid for each in preemptors] == ["u"]


def _sent_capacities(phases: Phases) -> list[int]:
    """The base generations of the columns that Place was sent; 0: all of them."""
    return [request.capacities.base_generation for rpc, request in phases.sent if rpc == "Place"]


async def _filter_patch(phases: Phases) -> FilterAnswer:
    """Filter's answer by a patch to its last one."""
    phases.answers["Filter"].columns.CopyFrom(
        filter_pb2.NodeColumns(
            generation=GENERATION + 1, base_generation=GENERATION, size=2, slots=[1], status_index=[0], capacity=[7]
        )
    )
    return await phases.filtered()


@pytest.mark.parametrize(
    ("known", "sent"), [(GENERATION, GENERATION), (GENERATION - 1, 0), (None, 0)], ids=["known", "older", "unknown"]
)
async def test_score_gets_what_changed_where_it_has_the_rest(known: int | None, sent: int) -> None:
    phases = Phases()
    await phases.filtered()
    phases.answers["Place"].evaluated_generation = GENERATION + 1
    if known is not None:
        phases.scores.capacities["p", 1] = known
    filtered = await _filter_patch(phases)
    await phases.evaluators.place("p", 1, 3, filtered, [4, 5])
    assert _sent_capacities(phases) == [sent]
    request = phases.sent[-1][1]
    assert (request.count, list(request.extra_scores), request.seed) == (3, [4, 5], GENERATION + 1)
    assert list(request.capacities.capacity) == ([7] if sent else [3, 7])
    assert phases.scores.capacities == {("p", 1): GENERATION + 1}


@pytest.mark.parametrize(
    ("code", "sent"),
    [(grpc.StatusCode.FAILED_PRECONDITION, [GENERATION, 0]), (grpc.StatusCode.ABORTED, [GENERATION])],
    ids=lambda each: getattr(each, "name", ""),
)
async def test_a_score_replica_that_lost_a_class_gets_all_of_it(code: grpc.StatusCode, sent: list[int]) -> None:
    phases = Phases()
    await phases.filtered()
    phases.scores.capacities["p", 1] = GENERATION
    phases.answers["Place"].evaluated_generation = GENERATION + 1
    filtered = await _filter_patch(phases)
    phases.failures["Place"] = [failed(code)]
    if len(sent) > 1:
        await phases.evaluators.place("p", 1, 1, filtered)
        assert list(phases.sent[-1][1].capacities.capacity) == [3, 7]
    else:
        with pytest.raises(ports.PhaseFault):
            await phases.evaluators.place("p", 1, 1, filtered)
        assert phases.scores.capacities == {}, "what it has after a failed call is unknown"
    assert _sent_capacities(phases) == sent


async def test_a_refusal_of_all_capacities_is_not_tried_again() -> None:
    phases = Phases()
    phases.failures["Place"] = [failed(grpc.StatusCode.FAILED_PRECONDITION)]
    with pytest.raises(ports.PhaseFault):
        await phases.evaluators.place("p", 1, 1, await phases.filtered())
    assert _sent_capacities(phases) == [0]


async def test_capacities_of_one_pod_are_not_the_classes() -> None:
    """Those of a nominated pod, or that extenders changed: a later patch would be to something else."""
    phases = Phases()
    own = await phases.filtered()
    await phases.evaluators.place("p", 1, 1, FilterAnswer(columns=copy.copy(own.columns)))
    assert phases.scores.capacities == {}
    await phases.evaluators.place("p", 1, 1, own)
    assert phases.scores.capacities == {("p", 1): GENERATION}


async def test_classes_in_turn_are_scored_by_what_filter_said_of_each() -> None:
    phases = Phases()
    answers = await phases.evaluators.place_in_turn("p", [(1, 2), (2, 3), (3, 4)], GENERATION)
    assert [placed.slots for _, placed in answers] == [(0,), (1,)]
    (_, asked), (_, placed) = phases.sent
    assert [(each.pod_class, each.count) for each in asked.classes] == [(1, 2), (2, 3), (3, 4)]
    sent = [(each.pod_class, each.count, each.admitted, dict(each.demand.amounts)) for each in placed.classes]
    assert sent == [(1, 2, b"\x03", {"cpu": 1}), (2, 3, b"\x03", {"cpu": 1})]
    assert placed.cycle.generation == GENERATION
    phases.answers["FilterClasses"].ClearField("answers")
    assert await phases.evaluators.place_in_turn("p", [(1, 2)], GENERATION) == ()
    assert phases.sent[-1][0] == "FilterClasses"


async def test_only_the_replicas_that_will_be_called_prepare_a_class() -> None:
    phases = Phases()
    phases.answers["Prepare"] = filter_phase_pb2.FilterPhasePrepareResponse()
    for phase in (phases.filters, phases.scores):
        phase.preferred = lambda *_, phase=phase: [phase, None]  # type: ignore[method-assign]
    await phases.evaluators.prepare("p", 1, GENERATION)
    assert [(rpc, request.cycle.pod_class) for rpc, request in phases.sent] == [("Prepare", 1)] * 2
    assert {type(request) for _, request in phases.sent} == {
        filter_phase_pb2.FilterPhasePrepareRequest,
        score_phase_pb2.ScorePhasePrepareRequest,
    }
    phases.failures["Prepare"] = [failed(grpc.StatusCode.UNAVAILABLE)]
    with pytest.raises(ports.PhaseFault, match="it failed"):
        await phases.evaluators.prepare("p", 1, GENERATION)
