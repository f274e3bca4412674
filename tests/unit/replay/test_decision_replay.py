"""DecisionReplay: what the services decided is decided again, and what is not the same is named."""

import dataclasses
from typing import Any

import pytest

from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import (
    IMPORTANT,
    LARGE,
    SMALL,
    RecordedCluster,
    with_decision_changed,
    with_every_call,
)
from trireme.framework import status
from trireme.replay import decision_replay
from trireme.v1 import (
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    recorded_call_pb2,
    recording_pb2,
    score_phase_pb2,
    snapshot_pb2,
    status_pb2,
)


async def replayed(
    cluster: RecordedCluster, frames: list[recording_pb2.RecordedFrame] | None = None, **options: Any
) -> tuple[decision_replay.ReplayCounts, list[decision_replay.Difference]]:
    replay = decision_replay.DecisionReplay(cluster.header, **options)
    found = [each async for each in replay.replay(cluster.frames() if frames is None else frames)]
    return replay.counts, found


@pytest.mark.parametrize("seed", range(4))
async def test_every_decision_is_made_again(seed: int) -> None:
    """A replay that finds differences where there are none, or counts what it has not tried, proves nothing."""
    cluster = await RecordedCluster(6).open()
    await cluster.schedule_at_random(120, seed)
    counts, differences = await replayed(cluster)
    assert differences == []
    made = cluster.decisions()
    assert counts.same == len(made) > 200
    assert counts.placed_pods == sum(len(each.place.slots) for each in made) > 50
    kinds = {each.WhichOneof("decision") for each in made}
    assert kinds == {"filter", "place", "post_filter", "nominated"}
    assert any(result.answer.actions for each in made for result in each.post_filter.results)
    assert (counts.inexact, counts.incomplete, counts.missing, counts.remote) == (0, 0, 0, 0)


async def test_another_node_is_a_difference() -> None:
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    (filtered, placed) = cluster.decisions()
    (slot,) = placed.place.slots
    changed = decision_pb2.PlaceDecision(slots=[(slot + 1) % 3])
    frames = with_decision_changed(cluster.frames(), placed.number, place=changed)
    counts, (difference,) = await replayed(cluster, frames)
    assert (counts.same, counts.different) == (1, 1)
    assert (difference.number, difference.call, difference.profile) == (placed.number, "Place", PROFILE)
    assert difference.recorded == (f"n{slot}", f"n{(slot + 1) % 3}")
    assert difference.replayed == (f"n{slot}",)
    assert difference.pods == f"class {SMALL} (namespace default)"
    assert filtered.number + 1 == placed.number


async def test_another_reason_is_a_difference() -> None:
    """The event of a pod that fits nowhere would not be compared."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(LARGE, 2)
    await cluster.schedule(IMPORTANT, 1)
    refused = next(each for each in cluster.decisions() if each.filter.refusals)
    fewer = decision_pb2.NodeRefusals(status=refused.filter.refusals[0].status, nodes=1)
    changed = decision_pb2.FilterDecision(refusals=[fewer])
    frames = with_decision_changed(cluster.frames(), refused.number, filter=changed)
    _, (difference,) = await replayed(cluster, frames)
    assert difference.call == "Filter"
    assert difference.replayed == ("2 nodes: NodeResourcesFit: Insufficient cpu (UNSCHEDULABLE)",)


async def test_other_victims_are_a_difference() -> None:
    """Who was evicted is the decision that people ask about."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(LARGE, 2)
    await cluster.schedule(IMPORTANT, 1)
    decided = next(each for each in cluster.decisions() if each.WhichOneof("decision") == "post_filter")
    assert decided.post_filter.results[0].answer.actions
    more = decision_pb2.PostFilterDecision(results=decided.post_filter.results)
    frames = with_decision_changed(cluster.frames(), decided.number, post_filter=more)
    _, (difference,) = await replayed(cluster, frames)
    assert len(difference.recorded) == 2
    assert difference.recorded[:1] == difference.replayed


async def test_nodes_that_an_extender_left_are_chosen_from() -> None:
    """Filter's own answer has nodes that the extender refused."""
    cluster = await RecordedCluster(4).open()
    filtered = await cluster.filter(SMALL)
    first = (await cluster.place(SMALL, 1, filtered)).slots[0]
    refusing = (status.unschedulable("extender", "no"),)
    columns = dataclasses.replace(filtered.columns, statuses=refusing, index=filtered.columns.index.copy())
    columns.index[first] = 1
    fewer = dataclasses.replace(filtered, columns=columns, update=None)
    assert (await cluster.place(SMALL, 1, fewer)).slots[0] != first
    counts, differences = await replayed(cluster)
    assert (counts.same, differences) == (3, [])
    assert cluster.decisions()[-1].place.HasField("capacities")


@pytest.mark.parametrize("fields", [{"inexact": True}, {"generation": 9999}])
async def test_what_may_be_of_another_state_is_counted_apart(fields: dict[str, Any]) -> None:
    """A race would pass for a difference."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    frames = with_decision_changed(cluster.frames(), 1, **fields)
    counts, differences = await replayed(cluster, frames)
    # Place builds on Filter's answer, which was not made again.
    assert (counts.inexact, counts.incomplete, counts.same, differences) == (1, 1, 0, [])


async def test_a_decision_of_an_unknown_profile_is_not_counted_as_one_of_remote_plugins() -> None:
    """The reader would look for a remote plugin where there is none."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    counts, _ = await replayed(cluster, with_decision_changed(cluster.frames(), 1, profile="other"))
    assert (counts.remote, counts.incomplete, counts.same) == (0, 2, 0)


async def test_pods_that_were_bound_are_no_decision_to_make_again() -> None:
    """They would count as decisions without the answer that they build on."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    bound = decision_pb2.Decision(number=3, bound=decision_pb2.BoundPods(uid=["uid-0"]))
    frames[-1].message.decisions.append(bound.SerializeToString())
    counts, differences = await replayed(cluster, frames)
    assert (counts.same, counts.bindings, counts.incomplete, counts.missing, differences) == (2, 1, 0, 0, [])


async def test_decisions_that_were_dropped_are_counted() -> None:
    """`0 differences` would be of a part that nobody knows the size of."""
    cluster = await RecordedCluster(3).open()
    for _ in range(3):
        await cluster.schedule(SMALL, 1)
    frames = with_decision_changed(cluster.frames(), 3)
    counts, differences = await replayed(cluster, frames)
    assert (counts.missing, counts.incomplete, counts.same, differences) == (1, 1, 4, [])


@pytest.mark.parametrize(("dropped", "uncounted"), [(5, 0), (0, 1)])
async def test_decisions_in_a_gap_are_missing(dropped: int, uncounted: int) -> None:
    """`0 differences` would be of an incident that is not in the file; or Place would build on what is before."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    state, (filtered, placed) = cluster.frames(), cluster.decisions()
    gap = recording_pb2.RecordedFrame(gap=recording_pb2.RecordingGap(dropped_messages=dropped))
    filtered.number, placed.number = 70, 80

    def alone(decision: decision_pb2.Decision) -> recording_pb2.RecordedFrame:
        message = snapshot_pb2.SyncRequest(decisions=[decision.SerializeToString()])
        return recording_pb2.RecordedFrame(message=message)

    begin = [frame for frame in state if frame.state_part]
    frames = [*begin, alone(filtered), gap, *begin, alone(placed)]
    counts, differences = await replayed(cluster, frames)
    assert (counts.gaps, counts.same, counts.incomplete, counts.missing) == (1, 1, 1, 9)
    assert counts.uncounted_gaps == uncounted
    assert differences == []


async def test_profiles_with_remote_plugins_are_counted_apart() -> None:
    """Nobody recorded what they answered."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    cluster.configuration.remote_plugins.add(name="Remote")
    cluster.configuration.profiles[0].plugin_sets[0].plugins.add(name="Remote")
    counts, differences = await replayed(cluster)
    # Place builds on Filter's answer, which was not made again.
    assert (counts.remote, counts.incomplete, counts.same, differences) == (1, 1, 0, [])


async def test_another_configuration_shows_what_it_would_change() -> None:
    """It is tried out on the decisions of a day before anybody has it."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    await cluster.schedule(SMALL, 1)
    other = snapshot_pb2.Configuration()
    other.CopyFrom(cluster.configuration)
    args = b'{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1}]}}'
    other.profiles[0].plugin_args.add(name="NodeResourcesFit", args_json=args)
    counts, (difference,) = await replayed(cluster, configuration=other)
    # The first pod finds all nodes the same; the second goes where the first one is.
    assert (counts.same, counts.different) == (3, 1)
    (first,) = cluster.decisions()[1].place.slots
    assert difference.replayed == (f"n{first}",)
    assert difference.recorded != difference.replayed


async def test_a_delta_that_does_not_fit_is_an_error() -> None:
    """The rest would be decided on another cluster."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    places = [place for place, frame in enumerate(frames) if not frame.state_part]
    del frames[places[0]]
    with pytest.raises(ValueError, match="a delta does not fit"):
        await replayed(cluster, frames)


async def test_a_decision_that_cannot_be_decoded_is_an_error() -> None:
    """A damaged file of a bug report would end in a traceback."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    frames[-1].message.decisions.append(b"\xff")
    with pytest.raises(ValueError, match="a decision cannot be decoded"):
        await replayed(cluster, frames)


CALLS = {
    "Reserve": "reserve",
    "ListPreemptionCandidates": "candidates",
    "SelectPreemptionCandidate": "candidate_choice",
    "ListPodGroupVictims": "group_victims",
    "ReprievePodGroupVictims": "group_reprieval",
    "ListReleasableClaims": "claim_release",
    "ScorePodGroupPlacements": "group_placements",
}


async def test_calls_for_reserve_extenders_and_groups_are_made_again() -> None:
    """Of volumes, devices, groups and extenders' victims nothing would be compared."""
    cluster = await with_every_call()
    counts, differences = await replayed(cluster)
    assert differences == []
    assert counts.same == len(cluster.decisions())
    assert {call: counts.calls[call] for call in CALLS} == {**dict.fromkeys(CALLS, 1), "SelectPreemptionCandidate": 2}
    (victims, *_) = (each.group_victims for each in cluster.decisions() if each.HasField("group_victims"))
    assert len(victims.response.victims) == 3
    assert not victims.request.HasField("cycle")
    (reprieved,) = (each.group_reprieval for each in cluster.decisions() if each.HasField("group_reprieval"))
    assert reprieved.response.actions


OTHER_ANSWERS: dict[str, Any] = {
    "Reserve": recorded_call_pb2.ReserveDecision(
        reservations=[filter_pb2.Reservation(status=status_pb2.Status(code=status_pb2.CODE_ERROR))]
    ),
    "ListPreemptionCandidates": recorded_call_pb2.CandidatesDecision(
        candidates=[filter_phase_pb2.PreemptionCandidate(node_name="n7")]
    ),
    "SelectPreemptionCandidate": recorded_call_pb2.CandidateChoiceDecision(
        answer=filter_pb2.PostFilterResponse(nominated_node="n7")
    ),
    "ListPodGroupVictims": recorded_call_pb2.GroupVictimsDecision(
        response=filter_phase_pb2.ListPodGroupVictimsResponse(victims=[filter_phase_pb2.Victim(violations=7)])
    ),
    "ReprievePodGroupVictims": recorded_call_pb2.GroupReprievalDecision(
        response=filter_phase_pb2.ReprievePodGroupVictimsResponse(disruption=filter_pb2.Disruption(victims=7))
    ),
    "ListReleasableClaims": recorded_call_pb2.ClaimReleaseDecision(
        response=filter_phase_pb2.ListReleasableClaimsResponse(status=status_pb2.Status(messages=["other"]))
    ),
    "ScorePodGroupPlacements": recorded_call_pb2.GroupPlacementsDecision(
        response=score_phase_pb2.ScorePodGroupPlacementsResponse(totals=[7])
    ),
}


@pytest.mark.parametrize("call", CALLS)
async def test_another_answer_to_any_call_is_a_difference(call: str) -> None:
    """A change of how volumes, devices, victims of groups or extenders' nodes are chosen would pass for the same."""
    cluster = await with_every_call()
    number = next(each.number for each in cluster.decisions() if each.HasField(CALLS[call]))
    frames = with_decision_changed(cluster.frames(), number, **{CALLS[call]: OTHER_ANSWERS[call]})
    counts, (difference,) = await replayed(cluster, frames)
    assert (difference.call, difference.number, counts.different) == (call, number, 1)
    assert difference.recorded != difference.replayed


async def test_a_kind_of_decision_that_a_later_release_records_is_counted() -> None:
    """An older release could not read its recordings, or would take them for wrong."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    later = decision_pb2.Decision(number=3, generation=cluster.generation - 1, profile=PROFILE, pod_class=SMALL)
    place = next(frame for frame in frames if frame.message.decisions)
    place.message.decisions.append(later.SerializeToString())
    counts, differences = await replayed(cluster, frames)
    assert (counts.same, counts.incomplete, differences) == (2, 1, [])


async def with_remote_filter() -> RecordedCluster:
    """Filter refuses a node by a service, as the recorded columns say; the other two are left."""
    cluster = await RecordedCluster(3).open()
    filtered = await cluster.filter(SMALL)
    refusing = (status.unschedulable("Remote", "closed"),)
    columns = dataclasses.replace(filtered.columns, statuses=refusing, index=filtered.columns.index.copy())
    columns.index[0] = 1
    left = dataclasses.replace(filtered, columns=columns, update=None)
    cluster.log.take()
    cluster.filters_remotely = True
    await cluster.filter_with(left, SMALL, 3)
    await cluster.place(SMALL, 3, left)
    cluster.configuration.remote_plugins.add(name="Remote")
    cluster.configuration.profiles[0].plugin_sets[0].plugins.add(name="Remote")
    return cluster


async def test_what_a_remote_filter_refused_is_refused_again() -> None:
    """Of clusters with a filter of their own no decision could be made again."""
    cluster = await with_remote_filter()
    counts, differences = await replayed(cluster)
    assert differences == []
    assert (counts.same, counts.remote, counts.incomplete) == (2, 0, 0)
    assert 0 not in cluster.decisions()[1].place.slots


async def test_preemption_beside_a_remote_filter_is_counted_apart() -> None:
    """The service's answer about a node without a victim is not recorded, and would be guessed."""
    cluster = await with_remote_filter()
    frames = cluster.frames()
    about = decision_pb2.PostFilterDecision(preemptors=[filter_phase_pb2.Preemptor()])
    preempting = decision_pb2.Decision(
        number=4, generation=cluster.generation, profile=PROFILE, pod_class=SMALL, post_filter=about
    )
    frames[-1].message.decisions.append(preempting.SerializeToString())
    counts, _ = await replayed(cluster, frames)
    assert (counts.same, counts.remote) == (2, 1)
