"""RecordingEvaluators: what of an answer is in the decision."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from trireme.framework import status
from trireme.frontend.phase_clients import decision_log, recording_evaluators
from trireme.scheduling import ports
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    remote_answer_pb2,
    score_phase_pb2,
    snapshot_pb2,
)
from trireme.wire import node_columns
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

PROFILE, CLASS, GENERATION = "p", 3, 7
REMOTE = remote_answer_pb2.RemoteAnswers(complete=True, answers=[remote_answer_pb2.RemoteAnswer(plugin="Far")])
CYCLE = cycle_pb2.Cycle(profile=PROFILE, pod_class=CLASS, generation=GENERATION)


class Recorder:
    """Evaluators that give `answer` to each call, and what is recorded of it."""

    def __init__(self, answer: Any, *, filters_remotely: bool = False) -> None:
        recorder = self
        self.answer = answer

        class Evaluators:
            def __getattr__(self, call: str) -> Any:
                async def respond(*_: Any) -> Any:
                    return recorder.answer

                return respond

        self.log = decision_log.DecisionLog(lambda: GENERATION, lambda profile: True)
        self.log.wanted = lambda: True
        self.evaluators = recording_evaluators.RecordingEvaluators(
            cast("ports.Evaluators", Evaluators()), self.log, lambda: 0.0, lambda profile: filters_remotely
        )

    def decisions(self) -> list[decision_pb2.Decision]:
        request = snapshot_pb2.SyncRequest.FromString(self.log.take())
        return [decision_pb2.Decision.FromString(content) for content in request.decisions]


@pytest.mark.parametrize("in_turn", [False, True], ids=["Place", "FilterAndPlaceClasses"])
@pytest.mark.parametrize("failure", [None, status.error("Far", "no answer")], ids=["placed", "failed"])
async def test_place_is_recorded_with_its_failure(failure: status.Status | None, in_turn: bool) -> None:
    """A replay of the decision would differ from it."""
    placed = PlaceAnswer(slots=[4, 2], failure=failure)
    if in_turn:
        recorder = Recorder([(FilterAnswer(), placed)])
        await recorder.evaluators.place_in_turn(PROFILE, [(CLASS, 5)], GENERATION)
    else:
        recorder = Recorder(placed)
        await recorder.evaluators.place(PROFILE, CLASS, 5, FilterAnswer())
    about = recorder.decisions()[-1].place
    assert (about.count, list(about.slots)) == (5, [4, 2])
    assert about.HasField("failure") == (failure is not None)
    if failure is not None:
        assert about.failure == wire_status.to_message(failure)


@pytest.mark.parametrize("has_candidates", [False, True])
async def test_the_answer_of_post_filter_is_recorded_where_there_are_no_candidates(has_candidates: bool) -> None:
    candidates = [filter_phase_pb2.PreemptionCandidate(node_name="n1")] if has_candidates else []
    answer = filter_pb2.PostFilterResponse(nominated_node="n2")
    recorder = Recorder(
        filter_phase_pb2.ListPreemptionCandidatesResponse(
            candidates=candidates, answer=answer, remote_answers=REMOTE.SerializeToString()
        )
    )
    await recorder.evaluators.list_preemption_candidates(PROFILE, CLASS, GENERATION, core_pb2.Pod(), FilterAnswer())
    (decision,) = recorder.decisions()
    assert list(decision.candidates.candidates) == candidates
    assert decision.candidates.answer.nominated_node == ("" if has_candidates else "n2")
    assert decision.remote == REMOTE


_FIELDS: dict[Any, dict[str, Any]] = {
    filter_phase_pb2.ListPodGroupVictimsRequest: {"priority": 3},
    filter_phase_pb2.ReprievePodGroupVictimsRequest: {"priority": 4},
    filter_phase_pb2.ListReleasableClaimsRequest: {"tried": [filter_phase_pb2.TriedPodGroupMember(pod_class=5)]},
    score_phase_pb2.ScorePodGroupPlacementsRequest: {"placements": [score_phase_pb2.CandidatePlacement(slots=[6])]},
}


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize(
    ("call", "field", "request_type", "response"),
    [
        (
            "list_pod_group_victims",
            "group_victims",
            filter_phase_pb2.ListPodGroupVictimsRequest,
            filter_phase_pb2.ListPodGroupVictimsResponse(victims=[filter_phase_pb2.Victim(violations=2)]),
        ),
        (
            "reprieve_pod_group_victims",
            "group_reprieval",
            filter_phase_pb2.ReprievePodGroupVictimsRequest,
            filter_phase_pb2.ReprievePodGroupVictimsResponse(actions=[bind_pb2.Action()]),
        ),
        (
            "list_releasable_claims",
            "claim_release",
            filter_phase_pb2.ListReleasableClaimsRequest,
            filter_phase_pb2.ListReleasableClaimsResponse(actions=[bind_pb2.Action()]),
        ),
        (
            "score_pod_group_placements",
            "group_placements",
            score_phase_pb2.ScorePodGroupPlacementsRequest,
            score_phase_pb2.ScorePodGroupPlacementsResponse(totals=[3, 1]),
        ),
    ],
)
async def test_a_call_about_a_group_is_recorded_without_what_the_decision_has_already(
    call: str, field: str, request_type: Any, response: Any, wanted: bool
) -> None:
    answered = type(response).FromString(response.SerializeToString())
    answered.evaluated_generation = GENERATION
    has_remote = call == "reprieve_pod_group_victims"
    if has_remote:
        answered.remote_answers = REMOTE.SerializeToString()
    recorder = Recorder(answered)
    recorder.log.wanted = lambda: wanted
    request = request_type(**_FIELDS[request_type])
    assert await getattr(recorder.evaluators, call)(request_type(cycle=CYCLE, **_FIELDS[request_type])) is answered
    decisions = recorder.decisions()
    if not wanted:
        assert decisions == []
        return
    (decision,) = decisions
    assert (decision.profile, decision.pod_class, decision.generation) == (PROFILE, CLASS, GENERATION)
    about = getattr(decision, field)
    assert (about.request, about.response) == (request, response)
    assert decision.HasField("remote") == has_remote
    assert answered.evaluated_generation == GENERATION


_POD = core_pb2.Pod()
_ANSWER = filter_pb2.PostFilterResponse(nominated_node="n2")
_CALLS: list[Any] = [
    pytest.param("filter", FilterAnswer(), (PROFILE, CLASS, 1, GENERATION), "filter", id="Filter"),
    pytest.param(
        "filter_nominated",
        FilterAnswer(admitted=1),
        (PROFILE, CLASS, GENERATION, [_POD], [4]),
        "nominated",
        id="FilterNominated",
    ),
    pytest.param(
        "run_post_filter",
        filter_phase_pb2.RunPostFilterResponse(),
        (PROFILE, CLASS, GENERATION, [_POD], FilterAnswer()),
        "post_filter",
        id="PostFilter",
    ),
    pytest.param(
        "list_preemption_candidates",
        filter_phase_pb2.ListPreemptionCandidatesResponse(answer=_ANSWER),
        (PROFILE, CLASS, GENERATION, _POD, FilterAnswer()),
        "candidates",
        id="ListPreemptionCandidates",
    ),
    pytest.param(
        "select_preemption_candidate",
        filter_phase_pb2.SelectPreemptionCandidateResponse(answer=_ANSWER),
        (PROFILE, CLASS, GENERATION, _POD, FilterAnswer(), []),
        "candidate_choice",
        id="SelectPreemptionCandidate",
    ),
    pytest.param("place", PlaceAnswer(slots=[1]), (PROFILE, CLASS, 1, FilterAnswer()), "place", id="Place"),
    pytest.param("reserve", filter_pb2.ReserveResponse(), (CYCLE, []), "reserve", id="Reserve"),
]


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize(("call", "answer", "arguments", "field"), _CALLS)
async def test_a_call_is_a_decision_while_anybody_records(
    call: str, answer: Any, arguments: tuple[Any, ...], field: str, wanted: bool
) -> None:
    """Scheduling without recordings would pay for messages that nobody gets."""
    recorder = Recorder(answer)
    recorder.log.wanted = lambda: wanted
    assert await getattr(recorder.evaluators, call)(*arguments) is answer
    assert [each.WhichOneof("decision") for each in recorder.decisions()] == ([field] if wanted else [])


async def test_the_choice_among_candidates_is_recorded_with_them() -> None:
    candidates = [filter_phase_pb2.PreemptionCandidate(node_name="n1")]
    recorder = Recorder(
        filter_phase_pb2.SelectPreemptionCandidateResponse(answer=_ANSWER, remote_answers=REMOTE.SerializeToString())
    )
    await recorder.evaluators.select_preemption_candidate(PROFILE, CLASS, GENERATION, _POD, FilterAnswer(), candidates)
    (decision,) = recorder.decisions()
    about = decision.candidate_choice
    assert (list(about.candidates), about.answer, decision.remote) == (candidates, _ANSWER, REMOTE)


async def test_what_is_reserved_is_recorded_without_the_plugins_state() -> None:
    """The reservation has the rest."""
    reserved = filter_pb2.Reservation(state=b"state", claim_statuses=[filter_pb2.Reservation().claim_statuses.add()])
    answer = filter_pb2.ReserveResponse(reservations=[reserved, reserved], remote_answers=REMOTE.SerializeToString())
    recorder = Recorder(answer)
    placement = filter_pb2.Placement(node_name="n1")
    await recorder.evaluators.reserve(CYCLE, [placement])
    (decision,) = recorder.decisions()
    without = filter_pb2.Reservation()
    without.CopyFrom(reserved)
    without.ClearField("state")
    about = decision.reserve
    assert (list(about.placements), list(about.reservations), decision.remote) == ([placement], [without] * 2, REMOTE)
    assert answer.reservations[0].state == b"state"


async def test_each_class_in_turn_is_recorded_with_the_pods_placed_before_it() -> None:
    recorder = Recorder([(FilterAnswer(), PlaceAnswer(slots=slots)) for slots in ([4, 2], [7], [])])
    await recorder.evaluators.place_in_turn(PROFILE, [(3, 2), (5, 1), (6, 1)], GENERATION)
    decisions = recorder.decisions()
    assert [each.WhichOneof("decision") for each in decisions] == ["filter", "place"] * 3
    placed = [each.place for each in decisions[1::2]]
    assert [(list(each.slots), list(each.before_classes), list(each.before_slots)) for each in placed] == [
        ([4, 2], [], []),
        ([7], [3, 3], [4, 2]),
        ([], [3, 3, 5], [4, 2, 7]),
    ]
    assert [each.pod_class for each in decisions] == [3, 3, 5, 5, 6, 6]


class Traces:
    """The names of the spans, and what they are about."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    @contextlib.contextmanager
    def _span(self, *about: Any) -> Iterator[SimpleNamespace]:
        call = SimpleNamespace(timings=None)
        self.spans.append(about)
        yield call
        assert call.timings is not None

    def batch_call(self, name: str) -> Any:
        return self._span(name)

    def call_ahead(self, name: str) -> Any:
        return self._span(name, "ahead")

    def call_about(self, name: str, pods: Any) -> Any:
        return self._span(name, pods)


async def test_calls_are_spans_of_the_pods_that_they_are_about() -> None:
    traces = Traces()
    called: list[Any] = []

    class Evaluators:
        async def reserve(self, *arguments: Any) -> filter_pb2.ReserveResponse:
            return filter_pb2.ReserveResponse()

        async def filter(self, *arguments: Any) -> FilterAnswer:
            return FilterAnswer()

        async def place_in_turn(self, *arguments: Any) -> list[Any]:
            return []

        async def prepare(self, *arguments: Any) -> None:
            called.append(("prepare", *arguments))

        async def unreserve(self, *arguments: Any) -> None:
            called.append(("unreserve", *arguments))

    log = decision_log.DecisionLog(lambda: GENERATION, lambda profile: True)
    evaluators = recording_evaluators.RecordingEvaluators(
        cast("ports.Evaluators", Evaluators()), log, lambda: 0.0, traces=cast("Any", traces)
    )
    placement = filter_pb2.Placement(pod=cycle_pb2.PodIdentity(uid="u"), node_name="n")
    await evaluators.reserve(CYCLE, [placement])
    await evaluators.filter(PROFILE, CLASS, 1, GENERATION)
    await evaluators.place_in_turn(PROFILE, [], GENERATION)
    await evaluators.prepare(PROFILE, CLASS, GENERATION)
    await evaluators.unreserve(CYCLE, [placement])
    assert traces.spans == [("Reserve", [("u", "n")]), ("Filter",), ("FilterAndPlaceClasses", "ahead")]
    assert called == [("prepare", PROFILE, CLASS, GENERATION), ("unreserve", CYCLE, [placement])]


@pytest.mark.parametrize("is_nominated", [False, True])
async def test_a_nominated_pod_is_recorded_with_its_filter(is_nominated: bool) -> None:
    recorder = Recorder(FilterAnswer())
    pod = core_pb2.Pod()
    pod.metadata.uid = "u"
    await recorder.evaluators.filter(PROFILE, CLASS, 1, GENERATION, pod if is_nominated else None)
    (decision,) = recorder.decisions()
    assert decision.filter.HasField("nominee") is is_nominated
    assert decision.filter.nominee.uid == ("u" if is_nominated else "")


@pytest.mark.parametrize(("class_id", "again"), [(CLASS, True), (CLASS, False), (CLASS + 1, True)])
async def test_columns_are_recorded_unless_they_are_those_of_the_last_answer_about_the_class(
    class_id: int, again: bool
) -> None:
    """A recording would have them twice, or a replay none."""
    recorder = Recorder(FilterAnswer())
    last = await recorder.evaluators.filter(PROFILE, CLASS, 1, GENERATION)
    constraints = [filter_phase_pb2.DomainConstraint()]
    filtered = last if again else FilterAnswer(constraints=constraints)
    response = filter_phase_pb2.RunPostFilterResponse()
    recorder.answer = response
    await recorder.evaluators.run_post_filter(PROFILE, class_id, GENERATION + 1, [_POD], filtered)
    recorder.answer = PlaceAnswer()
    await recorder.evaluators.place(PROFILE, class_id, 1, filtered)
    _, refused, placed = recorder.decisions()
    is_last = again and class_id == CLASS
    assert refused.post_filter.HasField("columns") is not is_last
    assert refused.generation == (GENERATION if is_last else GENERATION + 1)
    assert placed.place.HasField("capacities") is not is_last
    assert list(placed.place.constraints) == ([] if again else constraints)


async def test_the_columns_of_classes_in_turn_are_known_afterwards() -> None:
    answers = [(FilterAnswer(), PlaceAnswer(slots=[1])), (FilterAnswer(), PlaceAnswer())]
    recorder = Recorder(answers)
    await recorder.evaluators.place_in_turn(PROFILE, [(3, 1), (5, 1)], GENERATION)
    recorder.answer = PlaceAnswer()
    await recorder.evaluators.place(PROFILE, 5, 1, answers[1][0])
    assert not recorder.decisions()[-1].place.HasField("capacities")


@pytest.mark.parametrize("remotely", [False, True])
async def test_all_verdicts_are_recorded_where_services_filter(remotely: bool) -> None:
    recorder = Recorder(FilterAnswer(), filters_remotely=remotely)
    await recorder.evaluators.filter(PROFILE, CLASS, 1, GENERATION)
    (decision,) = recorder.decisions()
    assert decision.filter.HasField("columns") is remotely


@pytest.mark.parametrize("passes", [False, True])
async def test_why_nodes_refuse_is_recorded_where_none_takes_the_pod(passes: bool) -> None:
    index = np.array([0 if passes else 1, 1, 2, 2, 2], dtype=np.int16)
    columns = node_columns.NodeColumns(
        generation=GENERATION,
        size=5,
        statuses=(status.unschedulable("Fit", "full"), status.unschedulable("Far", "no")),
        index=index,
        capacity=(index == 0).astype(np.int32),
    )
    recorder = Recorder(FilterAnswer(columns=columns))
    await recorder.evaluators.filter(PROFILE, CLASS, 1, GENERATION)
    (decision,) = recorder.decisions()
    found = {each.status.plugin: each.nodes for each in decision.filter.refusals}
    assert found == ({} if passes else {"Fit": 2, "Far": 3})
