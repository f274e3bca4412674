"""Decisions for the recordings of insight: what a phase was called with and what it answered, as `Decision` messages.

A decision is sent with the next message of the snapshot stream, which costs no message of its own, and only to replicas
that take them. Nothing waits for a replica: a decision for which there is no room is dropped, and its number is left
out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from trireme.cache import placed_pod
from trireme.queueing import queued_pod
from trireme.results import class_answer
from trireme.results.phase_results import FilterResult, PlaceResult
from trireme.scheduling import fit_error, ports
from trireme.v1 import (
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    placed_pods_pb2,
    recorded_call_pb2,
    score_phase_pb2,
    snapshot_pb2,
)
from trireme.wire import identities
from trireme.wire import status as wire_status

# Decisions may wait for the next message up to so many bytes.
MAX_WAITING_BYTES = 1 << 20

GroupRequest = (
    filter_phase_pb2.ListPodGroupVictimsRequest
    | filter_phase_pb2.ReprievePodGroupVictimsRequest
    | filter_phase_pb2.ListReleasableClaimsRequest
    | score_phase_pb2.ScorePodGroupPlacementsRequest
)
GroupResponse = (
    filter_phase_pb2.ListPodGroupVictimsResponse
    | filter_phase_pb2.ReprievePodGroupVictimsResponse
    | filter_phase_pb2.ListReleasableClaimsResponse
    | score_phase_pb2.ScorePodGroupPlacementsResponse
)

# UID and attempts of a pod, and seconds: held back, in the queue, of the attempt, Permit, PreBind, Bind.
_BoundPod: TypeAlias = tuple[str, int, float, float, float, float, float, float]

# The field of Decision that has a call about a group, by the call's request.
_GROUP_FIELDS: Mapping[type[GroupRequest], str] = {
    filter_phase_pb2.ListPodGroupVictimsRequest: "group_victims",
    filter_phase_pb2.ReprievePodGroupVictimsRequest: "group_reprieval",
    filter_phase_pb2.ListReleasableClaimsRequest: "claim_release",
    score_phase_pb2.ScorePodGroupPlacementsRequest: "group_placements",
}


class DecisionLog:
    """Collects decisions from one message of the stream to the next.

    A generation is the one that a call named. Where the cluster was published again before the answer came, the
    decision is inexact: a replica may have answered from either.
    """

    def __init__(
        self,
        generation: Callable[[], int],
        filters_remotely: Callable[[str], bool] = lambda profile: False,
        calls_remotely: Callable[[str], bool] = lambda profile: False,
    ) -> None:
        """The arguments say what decisions depend on.

        `generation` returns that of the last delta published. For a profile, `filters_remotely` returns whether
        services filter, and `calls_remotely` whether services take part at Filter, PostFilter, Reserve or Score.
        """
        self._generation = generation
        self._filters_remotely = filters_remotely
        self._calls_remotely = calls_remotely
        #: Returns whether any replica takes decisions.
        self.wanted: Callable[[], bool] = bool
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._number = 0
        #: How long the call took whose answer is added next, in seconds.
        self.call_seconds = 0.0
        # Pods bound since the last message: a tuple costs each pod less than the message's eight fields.
        self._bound: list[_BoundPod] = []
        # The last answer of filter, and the generation of that call: most calls that follow build on it.
        self._filtered: tuple[ports.ClassKey, class_answer.ClassAnswer, int] | None = None

    def wants_remote_answers(self, profile: str) -> bool:
        """Whether phases are to return what remote plugins answer in calls about the profile."""
        return self.wanted() and self._calls_remotely(profile)

    @property
    def waiting(self) -> bool:
        """Whether there are decisions that no message has taken yet."""
        return bool(self._waiting or self._bound)

    def take(self) -> bytes:
        """What was added since the last call, as the fields of a serialised SyncRequest; empty: nothing."""
        if self._bound:
            self._number += 1
            bound, self._bound = _bound_message(self._bound), []
            self._keep(decision_pb2.Decision(number=self._number, generation=self._generation(), bound=bound))
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return snapshot_pb2.SyncRequest(decisions=waiting).SerializeToString() if waiting else b""

    def add_filter(
        self,
        class_key: ports.ClassKey,
        generation: int,
        request: filter_phase_pb2.FilterPhaseFilterRequest,
        result: FilterResult,
        post_filter: Sequence[filter_phase_pb2.PostFilterResult],
    ) -> None:
        """Add Filter's answer about a class, or about the pod that the request names, with PostFilter's results."""
        self._filtered = class_key, result.answer, generation
        if not self.wanted():
            return
        about = decision_pb2.FilterDecision(
            count=request.count, preemptors=request.preemptors, post_filter_results=post_filter
        )
        if result.of_one:
            about.nominee.CopyFrom(identities.identity(request.cycle.pod))
        if result.refusal is not None:
            about.pre_filter.CopyFrom(wire_status.to_message(result.refusal))
        elif result.is_refused_everywhere(placed_pod.NO_SLOT):
            for refusing, nodes in fit_error.nodes_by_status(result.answer.statuses, result.answer.index):
                about.refusals.add(status=wire_status.to_message(refusing), nodes=nodes)
        if result.refusal is None and self._filters_remotely(class_key[0]):
            about.columns.CopyFrom(result.answer.to_message())
        self._add(class_key, generation, decision_pb2.Decision(filter=about))

    def add_nominated(
        self, class_key: ports.ClassKey, generation: int, nominees: Sequence[filter_phase_pb2.Nominee], admitted: int
    ) -> None:
        """Add how many nominated pods may have their nodes."""
        if self.wanted():
            about = decision_pb2.NominatedDecision(nominees=nominees, admitted=admitted)
            self._add(class_key, generation, decision_pb2.Decision(nominated=about))

    def add_place(
        self,
        class_key: ports.ClassKey,
        count: int,
        filtered: FilterResult,
        extra_scores: Sequence[int],
        result: PlaceResult,
        remote: bytes = b"",
    ) -> None:
        """Add the nodes of the next pods. `remote`, here and below: what remote plugins answered, a RemoteAnswers."""
        if not self.wanted():
            return
        about = decision_pb2.PlaceDecision(count=count, extra_scores=extra_scores, slots=result.slots)
        if not self._is_last_answer(class_key, filtered):
            about.capacities.CopyFrom(filtered.answer.to_message())
            about.constraints.extend(filtered.constraints)
        if result.failure is not None:
            about.failure.CopyFrom(wire_status.to_message(result.failure))
        self._add(class_key, filtered.answer.generation, decision_pb2.Decision(place=about), remote)

    def add_post_filter(
        self,
        class_key: ports.ClassKey,
        generation: int,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
        filtered: FilterResult,
        results: Sequence[filter_phase_pb2.PostFilterResult],
        remote: bytes = b"",
    ) -> None:
        """Add how room was to be made for pods."""
        if not self.wanted():
            return
        about = decision_pb2.PostFilterDecision(preemptors=preemptors, results=results)
        generation = self._add_refusal(about, class_key, generation, filtered)
        self._add(class_key, generation, decision_pb2.Decision(post_filter=about), remote)

    def add_candidates(
        self,
        class_key: ports.ClassKey,
        generation: int,
        preemptor: filter_phase_pb2.Preemptor,
        filtered: FilterResult,
        response: filter_phase_pb2.ListPreemptionCandidatesResponse,
    ) -> None:
        """Add the nodes that extenders may choose from, or PostFilter's answer without a choice."""
        if not self.wanted():
            return
        about = recorded_call_pb2.CandidatesDecision(preemptor=preemptor, candidates=response.candidates)
        if not response.candidates:
            about.answer.CopyFrom(response.answer)
        generation = self._add_refusal(about, class_key, generation, filtered)
        self._add(class_key, generation, decision_pb2.Decision(candidates=about), response.remote_answers)

    def add_candidate_choice(
        self,
        class_key: ports.ClassKey,
        generation: int,
        filtered: FilterResult,
        request: filter_phase_pb2.SelectPreemptionCandidateRequest,
        response: filter_phase_pb2.SelectPreemptionCandidateResponse,
    ) -> None:
        """Add the choice among the nodes that extenders left."""
        if not self.wanted():
            return
        about = recorded_call_pb2.CandidateChoiceDecision(
            preemptor=request.preemptor, candidates=request.candidates, answer=response.answer
        )
        generation = self._add_refusal(about, class_key, generation, filtered)
        self._add(class_key, generation, decision_pb2.Decision(candidate_choice=about), response.remote_answers)

    def add_reserve(
        self,
        cycle: cycle_pb2.Cycle,
        placements: Sequence[filter_pb2.Placement],
        response: filter_pb2.ReserveResponse,
    ) -> None:
        """Add what Reserve assumed beside pods. The state for PreBind says the same once more, and is left out."""
        if not self.wanted():
            return
        about = recorded_call_pb2.ReserveDecision(placements=placements, reservations=response.reservations)
        for reservation in about.reservations:
            reservation.ClearField("state")
        decision = decision_pb2.Decision(reserve=about)
        self._add((cycle.profile, cycle.pod_class), cycle.generation, decision, response.remote_answers)

    def add_group_call(self, request: GroupRequest, response: GroupResponse) -> None:
        """Add a call about a pod group."""
        if not self.wanted():
            return
        decision, cycle = decision_pb2.Decision(), request.cycle
        about = getattr(decision, _GROUP_FIELDS[type(request)])
        about.request.CopyFrom(request)
        about.request.ClearField("cycle")
        about.response.CopyFrom(response)
        about.response.ClearField("evaluated_generation")
        remote = b""
        if isinstance(response, filter_phase_pb2.ReprievePodGroupVictimsResponse):
            remote = response.remote_answers
            about.response.ClearField("remote_answers")
        self._add((cycle.profile, cycle.pod_class), cycle.generation, decision, remote)

    def add_placed(self, class_key: ports.ClassKey, generation: int, pods: Sequence[tuple[str, int]]) -> None:
        """Add which pods (UID, slot) took the nodes of the last answer about the class, of this generation."""
        if not pods or not self.wanted():
            return
        uids, slots = zip(*pods, strict=True)
        self.call_seconds = 0.0
        about = placed_pods_pb2.PlacedPods(uid=uids, slot=slots)
        self._add(class_key, generation, decision_pb2.Decision(placed=about))

    def add_bound(
        self,
        pod: queued_pod.QueuedPodInfo,
        now: float,
        *,
        permit_seconds: float,
        pre_bind_seconds: float,
        bind_seconds: float,
    ) -> None:
        """Add that the pod was bound, and how long that took; all that were bound since a message are one decision."""
        if not self.wanted():
            return
        first = pod.initial_attempt_timestamp
        self._bound.append(
            (
                pod.uid,
                pod.attempts,
                first - pod.first_queued_at if first else 0.0,
                pod.popped_at - first if first else 0.0,
                now - pod.popped_at,
                permit_seconds,
                pre_bind_seconds,
                bind_seconds,
            )
        )

    def _add_refusal(
        self,
        about: decision_pb2.PostFilterDecision
        | recorded_call_pb2.CandidatesDecision
        | recorded_call_pb2.CandidateChoiceDecision,
        class_key: ports.ClassKey,
        generation: int,
        filtered: FilterResult,
    ) -> int:
        """Add why no node took the pods, unless Filter's last answer says it; returns the generation of the call."""
        if self._filtered is not None and self._is_last_answer(class_key, filtered):
            # Where PreFilter refused the class, the generation of the call is that of an earlier answer.
            return self._filtered[2]
        about.columns.CopyFrom(filtered.answer.to_message())
        return generation

    def _is_last_answer(self, class_key: ports.ClassKey, filtered: FilterResult) -> bool:
        """Whether this is Filter's last answer as it was."""
        last = self._filtered
        return last is not None and last[0] == class_key and last[1] is filtered.answer

    def _add(
        self, class_key: ports.ClassKey, generation: int, decision: decision_pb2.Decision, remote: bytes = b""
    ) -> None:
        """Number a decision of a call, and keep it for the next message if there is room."""
        if remote:
            decision.remote.MergeFromString(remote)
        self._number += 1
        decision.number, decision.generation = self._number, generation
        decision.profile, decision.pod_class = class_key
        decision.inexact = generation != self._generation()
        decision.duration_us = _microseconds(self.call_seconds)
        self._keep(decision)

    def _keep(self, decision: decision_pb2.Decision) -> None:
        """Keep a decision for the next message, if there is room."""
        content = decision.SerializeToString()
        if self._waiting_bytes + len(content) <= MAX_WAITING_BYTES:
            self._waiting.append(content)
            self._waiting_bytes += len(content)


def _bound_message(bound: Sequence[_BoundPod]) -> decision_pb2.BoundPods:
    """The message about pods that were bound."""
    uids, attempts, *seconds = zip(*bound, strict=True)
    # As `_microseconds`, without a call for each of some hundred numbers.
    held_back, queue, attempt, permit, pre_bind, bind = (
        [int(each * 1_000_000 + 0.5) if each > 0 else 0 for each in column] for column in seconds
    )
    return decision_pb2.BoundPods(
        uid=uids,
        attempts=attempts,
        held_back_us=held_back,
        queue_us=queue,
        attempt_us=attempt,
        permit_us=permit,
        pre_bind_us=pre_bind,
        bind_us=bind,
    )


def _microseconds(seconds: float) -> int:
    """The duration in whole microseconds; 0 where clocks disagree."""
    return max(round(seconds * 1_000_000), 0)
