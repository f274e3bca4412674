"""FilterEngine: answers every request to filter, from a snapshot and the plugins of the configured profiles.

It has no server. The caller sees to it that the snapshot is at the generation that the request needs.

Also change: internal/trireme/evaluation/score_engine.py, internal/trireme/filter/service.py,
internal/trireme/score/service.py,
internal/trireme/in_process/in_process_evaluators.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_filter_engine.py, tests/unit/filter/test_service.py,
tests/contract/test_phase_contract.py.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf import message

from trireme.evaluation import plugin_timer, request_errors, reserving
from trireme.evaluation.filtering import (
    class_verdicts,
    filter_answers,
    filter_chain,
    filter_evaluator,
    nominated_filter,
)
from trireme.evaluation.preemption import post_filter_context, post_filter_plugins, post_filter_results
from trireme.framework import domain_rules, status
from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2, filter_pb2, filter_phase_pb2
from trireme.wire import node_columns, phase_answers


@dataclass(frozen=True, slots=True)
class FilterProfiles:
    """The plugins of filter by profile: at Filter, Reserve, PostFilter and PodGroupPostFilter."""

    chains: Mapping[str, filter_chain.FilterChain] = field(default_factory=dict)
    reservers: Mapping[str, Sequence[reserving.Reserver]] = field(default_factory=dict)
    post_filters: Mapping[str, Sequence[post_filter_plugins.HostedPostFilter]] = field(default_factory=dict)
    claim_releases: Mapping[str, post_filter_plugins.ClaimReleasePlugin] = field(default_factory=dict)
    group_preemptions: Mapping[str, post_filter_plugins.PodGroupPreemptionPlugin] = field(default_factory=dict)


class FilterEngine:
    """Everything that filter computes, without I/O: an operation for each RPC, on one snapshot.

    Each request begins with a cycle, which names profile, class and perhaps the pod.
    """

    def __init__(self, snap: snapshot.Snapshot, profiles: FilterProfiles, *, timed: bool = True) -> None:
        """`timed`: answers say how long extension points and plugins took."""
        self._snap = snap
        #: For another engine of the same configuration.
        self.profiles = profiles
        self.evaluator = filter_evaluator.FilterEvaluator(snap, profiles.chains)
        self._answers = {
            profile: filter_answers.FilterAnswers(
                snap, chain, always_reserve=any(plugin.must_be_called for plugin in profiles.reservers.get(profile, ()))
            )
            for profile, chain in profiles.chains.items()
        }
        self._timers = plugin_timer.PluginTimers(timed=timed)

    async def evaluate(
        self, cycle: cycle_pb2.Cycle, timer: plugin_timer.PluginTimer | None = None
    ) -> class_verdicts.ClassVerdicts:
        """The columns of the cycle's class, brought up to date."""
        return await self.evaluator.evaluate(cycle.profile, self._class_of_cycle(cycle), timer)

    async def prepare(self, cycle: cycle_pb2.Cycle) -> None:
        """Bring up to date the columns from which the next request about the cycle's class is answered."""
        await self._evaluate_with_own_nomination(cycle, self._timers.timer_of_next_call())

    async def filter(
        self,
        cycle: cycle_pb2.Cycle,
        count: int = 1,
        base_generation: int = 0,
        preemptors: Sequence[filter_phase_pb2.Preemptor] = (),
    ) -> phase_answers.FilterAnswer:
        """Where so many pods of the class may run; a patch where the caller has the answer of `base_generation`.

        `preemptors` are the first pods: PostFilter's results for them may come with the answer.

        Raises: StaleRequestError where the node that the cycle's pod is nominated to changes too fast.
        """
        pod_class, timer = self._class_of_cycle(cycle), self._timers.timer_of_next_call()
        answers = self._answers[cycle.profile]
        cached, own = await self._evaluate_with_own_nomination(cycle, timer)
        if own is not None:
            columns = answers.columns_with_own_verdict(cached, own)
        elif cached.refusal is None:
            columns = answers.columns_of_class(cached, base_generation)
        else:
            columns = node_columns.NodeColumns()
        constraints: Sequence[domain_rules.DomainConstraint] = ()
        if count > 1 and answers.may_return_constraints(cached):
            constraints = self.evaluator.constraints(cycle.profile, pod_class, cached)
        answer = answers.answer_of_class(cached, columns, constraints, timer)
        if not preemptors:
            return answer
        post_filter = self._post_filter_results(cycle, pod_class, cached)
        about_one = columns if own is not None else None
        results = [result async for result in post_filter.results_with_filter_answer(preemptors, about_one)]
        return dataclasses.replace(answer, post_filter_results=results)

    async def filter_classes(
        self, cycle: cycle_pb2.Cycle, wanted: Sequence[filter_phase_pb2.ClassToFilter]
    ) -> Sequence[phase_answers.FilterAnswer]:
        """As `filter`, of several classes of the cycle's profile: of the first ones that all have a `demand`.

        It ends before a class that no node takes, too, one with the claims of another, and several pods of a class that
        take more than resources.
        Raises: InvalidRequestError without classes.
        """
        if not wanted:
            raise request_errors.InvalidRequestError("classes: there is none")
        out: list[phase_answers.FilterAnswer] = []
        taken: set[tuple[str, str, str]] = set()
        about = cycle_pb2.Cycle()
        about.CopyFrom(cycle)
        for each in wanted:
            about.pod_class = each.pod_class
            pod_class = self._class_of_cycle(about)
            if each.count > 1 and pod_class.takes_more_than_resources:
                break
            timer = self._timers.timer_of_next_call()
            new = await self.evaluator.evaluate_new(about.profile, pod_class, timer)
            verdicts = await self.evaluate(about, timer) if new is None else new.verdicts
            if new is None and not verdicts.is_passing:
                break
            answers = self._answers[about.profile]
            takes = answers.taken_by_pod(pod_class, verdicts)
            if takes is None or not taken.isdisjoint(takes[1]):
                break
            taken |= takes[1]
            passing = verdicts.passing(self._snap.nodes.size) if new is None else new.passing
            out.append(answers.answer_of_class_in_turn(verdicts, passing, takes[0], timer))
        return out

    async def filter_nominated(
        self, cycle: cycle_pb2.Cycle, nominees: Sequence[filter_phase_pb2.Nominee]
    ) -> phase_answers.FilterAnswer:
        """How many of these pods of the class may run where each is nominated to, beside those before it.

        None of them where the first may not, or plugins are to be called about all nodes.

        Raises: InvalidRequestError without nominees.
        """
        if not nominees:
            raise request_errors.InvalidRequestError("nominees: there is none")
        timer = self._timers.timer_of_next_call()
        about = cycle_pb2.Cycle()
        about.CopyFrom(cycle)
        about.pod.metadata.uid = nominees[0].pod.uid
        nominated = await self.evaluator.admit_nominated(about, self._class_of_cycle(about), timer)
        if nominated is None:
            return phase_answers.FilterAnswer()
        cached, slot = nominated
        others = [each.pod for each in nominees[1:]]
        found = [slot, *self.evaluator.slots_of_next_nominees_that_fit(about, cached, others)]
        # If a pod is nominated to another node than the caller knew, the caller has to call again.
        same = itertools.takewhile(lambda pair: pair[0] == pair[1].slot, zip(found, nominees, strict=False))
        answers = self._answers[cycle.profile]
        return answers.answer_of_nominated(len(list(same)), cycle.generation, cached, timer)

    async def run_post_filter(
        self,
        cycle: cycle_pb2.Cycle,
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
        preemptors: Sequence[filter_phase_pb2.Preemptor],
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """PostFilter's results for the first of these pods of the class, at least for one, in order.

        `refused` says why they fit on no node, or `pre_filter` why on none at all.

        Raises: InvalidRequestError without preemptors.
        """
        if not preemptors:
            raise request_errors.InvalidRequestError("preemptors: there is none")
        pod_class = self._class_of_cycle(cycle)
        post_filter = self._post_filter_results(cycle, pod_class, await self.evaluate(cycle))
        results = [result async for result in post_filter.results_after_filter(preemptors, refused, pre_filter)]
        return filter_phase_pb2.RunPostFilterResponse(results=results, evaluated_generation=self._snap.generation)

    async def list_preemption_candidates(
        self,
        cycle: cycle_pb2.Cycle,
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
        preemptor: filter_phase_pb2.Preemptor,
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """The nodes that preemption has to choose from; else what the PostFilter plugins answer, as run_post_filter."""
        found = await self._post_filter(cycle, refused, pre_filter, preemptor, list_candidates=True)
        response = filter_phase_pb2.ListPreemptionCandidatesResponse(evaluated_generation=self._snap.generation)
        if isinstance(found, tuple):
            response.candidates.extend(found)
        else:
            response.answer.CopyFrom(found)
        return response

    async def select_preemption_candidate(
        self,
        cycle: cycle_pb2.Cycle,
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
        preemptor: filter_phase_pb2.Preemptor,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """What the PostFilter plugins answer where preemption chooses among these nodes."""
        answer = await self._post_filter(cycle, refused, pre_filter, preemptor, candidates=candidates)
        assert not isinstance(answer, tuple)  # no candidates were requested
        return filter_phase_pb2.SelectPreemptionCandidateResponse(
            answer=answer, evaluated_generation=self._snap.generation
        )

    def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Return the potential victims of a group."""
        self._class_of_cycle(request.cycle)
        response = self.profiles.group_preemptions[request.cycle.profile].list_victims(request, self._snap)
        response.evaluated_generation = self._snap.generation
        return response

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """Return the victims that have to be evicted for a group, now that it was placed without all of them.

        If the snapshot is replaced meanwhile, it is computed again, `MAX_TRIES` times in all. Raises: OutOfStepError.
        """
        self._class_of_cycle(request.cycle)
        placed = {member.pod_class for member in request.placed}
        self._check_classes("placed", placed)
        for _ in range(post_filter_context.MAX_TRIES - 1):
            with contextlib.suppress(snapshot.OutOfStepError):
                return await self._reprieve_beside(request, placed)
        return await self._reprieve_beside(request, placed)

    async def _reprieve_beside(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest, placed: Collection[int]
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """As `reprieve_pod_group_victims`, once, beside pods of these classes. Raises: OutOfStepError."""
        profile = request.cycle.profile
        cached = await self._evaluate_all(profile, placed)
        plugin = self.profiles.group_preemptions[profile]
        response = await plugin.reprieve_victims(request, self._snap, self.profiles.chains[profile], cached)
        response.evaluated_generation = self._snap.generation
        return response

    def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Which claims of a group, and of those of its pods that were tried, may be given up."""
        self._class_of_cycle(request.cycle)
        self._check_classes("tried", {member.pod_class for member in request.tried})
        try:
            response = self.profiles.claim_releases[request.cycle.profile].post_filter(request, self._snap)
        except (ValueError, message.DecodeError) as error:
            raise request_errors.InvalidRequestError(f"tried: {error}") from error
        response.evaluated_generation = self._snap.generation
        return response

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        """What the Reserve plugins assume beside each placement."""
        pod_class, plugins = self._class_of_cycle(cycle), self.profiles.reservers[cycle.profile]
        reserved = await reserving.reserve(plugins, cycle, placements, pod_class, self._snap)
        return filter_pb2.ReserveResponse(reservations=reserved, evaluated_generation=self._snap.generation)

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Call Unreserve of the plugins: these placements are void. Nothing is stored here, but remote plugins may."""
        pod_class, plugins = self._class_of_cycle(cycle), self.profiles.reservers[cycle.profile]
        await reserving.unreserve(plugins, cycle, placements, pod_class)

    def _post_filter_results(
        self, cycle: cycle_pb2.Cycle, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> post_filter_results.PostFilterResults:
        """Make what runs PostFilter for several pods of the cycle's class, which may be gone by now."""
        chain, plugins = self.profiles.chains[cycle.profile], self.profiles.post_filters[cycle.profile]
        return post_filter_results.PostFilterResults(
            cycle, chain, plugins, cached, self._make_column_refresher(cycle), self._snap, pod_class=pod_class
        )

    async def _post_filter(
        self,
        cycle: cycle_pb2.Cycle,
        refused: node_columns.NodeColumns,
        pre_filter: status.Status | None,
        preemptor: filter_phase_pb2.Preemptor,
        *,
        list_candidates: bool = False,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate] | None = None,
    ) -> filter_pb2.PostFilterResponse | post_filter_context.Candidates:
        """Run the PostFilter plugins for one preemptor, on the columns that refused it.

        With `list_candidates` the result is the candidates; with `candidates` it is the choice among these.
        """
        context = post_filter_context.PostFilterContext(
            post_filter_context.cycle_for(cycle, preemptor),
            self._class_of_cycle(cycle),
            self.profiles.chains[cycle.profile],
            await self.evaluate(cycle),
            self._make_column_refresher(cycle),
            refused.statuses,
            refused.index if pre_filter is None else None,
            pre_filter,
            list_candidates,
            candidates,
            seed=preemptor.seed,
        )
        plugins = self.profiles.post_filters[cycle.profile]
        return await post_filter_plugins.run_in_order(plugins, context, self._snap, refused)

    def _check_classes(self, field_name: str, numbers: Iterable[int]) -> None:
        """Check that the classes exist. Raises: InvalidRequestError, naming the request's field."""
        for number in numbers:
            if number not in self._snap.classes:
                raise request_errors.InvalidRequestError(f"{field_name}: no class {number}")

    async def _evaluate_with_own_nomination(
        self, cycle: cycle_pb2.Cycle, timer: plugin_timer.PluginTimer
    ) -> tuple[class_verdicts.ClassVerdicts, nominated_filter.SlotVerdict | None]:
        """Return the class's columns, and the verdict where the cycle's pod is nominated itself (None: nowhere).

        Evaluates again, a few times, while asynchronous plugins have no answer about that node. Raises:
        StaleRequestError.
        """
        for _ in range(filter_evaluator.ATTEMPTS):
            cached = await self.evaluate(cycle, timer)
            own = self.evaluator.own_nomination_verdict(cycle, cached)
            if own is None or own.index not in cached.unanswered_statuses:
                return cached, own
        text = "cycle.pod: the node that it is nominated to changes faster than plugins can be called about it"
        raise request_errors.StaleRequestError(text)

    async def _evaluate_all(self, profile: str, numbers: Collection[int]) -> Mapping[int, class_verdicts.ClassVerdicts]:
        """The columns of these classes, of one generation unless the cluster changes each time.

        Raises: OutOfStepError; InvalidRequestError where one of them is gone.
        """
        cached: dict[int, class_verdicts.ClassVerdicts] = {}
        for _ in range(post_filter_context.MAX_TRIES):
            generation = self._snap.generation
            for number in numbers:
                self._check_classes("placed", [number])
                cached[number] = await self.evaluator.evaluate(profile, self._snap.classes[number])
            if self._snap.generation == generation:
                break
        self._check_classes("placed", numbers)
        return cached

    def _make_column_refresher(self, cycle: cycle_pb2.Cycle) -> post_filter_context.Refresh:
        """Make the function that brings the class's columns up to date again within one request."""
        incarnation = self._snap.incarnation

        async def refresh_columns() -> class_verdicts.ClassVerdicts:
            """Bring the columns of the cycle's class up to date, and return them."""
            self._snap.check_incarnation(incarnation)
            return await self.evaluate(cycle)

        return refresh_columns

    def _class_of_cycle(self, cycle: cycle_pb2.Cycle) -> classes.PodClass:
        """The class that the cycle names. Raises: InvalidRequestError."""
        return request_errors.class_of(cycle, self.profiles.chains, self._snap)
