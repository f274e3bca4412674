"""PodGroupPostFilter for a group that does not fit: others of lower priority go, in the whole cluster.

Filter says who may go at all. The cluster cache hides all of them from the replicas, the group is tried as always, and
filter says who of them may stay beside it after all. Then everything is shown again, so that for the rest of the world
nothing happened; what has to go is deleted beside the scheduling of others, as for single pods, and the members are
nominated for the nodes that were found. Nobody else is scheduled while pods are hidden.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go, RunPodGroupPostFilterPlugins.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from trireme.cache import cluster_cache
from trireme.framework import status
from trireme.queueing import pre_enqueue, queued_pod
from trireme.registry import group_sides
from trireme.scheduling import ports
from trireme.scheduling.groups.pod_group_results import Result, Trial, Try, Verdict, Wanted
from trireme.scheduling.groups.pod_group_trial import PodGroupTrials
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, scheduling_pb2
from trireme.wire import status as wire_status

_LOOKED_AT = "deallocation and deletion of ResourceClaims completed"


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroupPostFilterResult:
    """What was found. On SUCCESS these members (UID) wait for these nodes, and the actions make room."""

    code: status.Code
    message: str
    nominated: Mapping[str, str] = dataclasses.field(default_factory=dict)
    actions: Sequence[bind_pb2.Action] = ()


class PodGroupPostFilters:
    """Asks the PodGroupPostFilter plugins of each profile, in order."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        trials: PodGroupTrials,
        try_group: Try,
        plugins: Mapping[str, Sequence[str]],
        topology: bool,
        group_claims: bool,
    ) -> None:
        """`try_group` tries a group, `trials` undoes what it assumed. `plugins` are those of each profile. `topology`:
        groups may ask for one domain. `group_claims`: they may have claims for devices.
        """
        self._cache = cache
        self._evaluators = evaluators
        self._publish = publish
        self._observer = observer
        self._group_claims = group_claims
        self._try = try_group
        self._topology = topology
        self._trials = trials
        self._plugins = plugins

    async def find(self, wanted: Wanted, tried: Result) -> PodGroupPostFilterResult:
        """What the plugins find for those who wait, after the trial said what it did of them."""
        texts = []
        actions: list[bind_pb2.Action] = []
        for plugin in self._plugins.get(wanted.profile, ()):
            if group_sides.releases_claims(plugin):
                said = await self._devices(wanted, tried.trials)
            elif plugin == pre_enqueue.DEFAULT_PREEMPTION:
                said = await self._preempt(wanted)
                self._observer.group_preemption_attempted(said.code)
            else:
                continue
            actions.extend(said.actions)
            said = dataclasses.replace(said, actions=tuple(actions))
            if said.code in (status.Code.SUCCESS, status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                return said
            if said.code is not status.Code.UNSCHEDULABLE:
                return dataclasses.replace(said, code=status.Code.ERROR, message=_error(plugin, said.message))
            texts.append(said.message)
        text = ", ".join(text for text in texts if text)
        return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, text, actions=tuple(actions))

    async def _devices(self, wanted: Wanted, tried: Sequence[Trial]) -> PodGroupPostFilterResult:
        """What filter says of claims to release; of a group of which no pod was tried it knows nothing. It is asked
        only where there are claims, and not about groups of groups.
        """
        group = wanted.tree.message
        if isinstance(group, scheduling_pb2.CompositePodGroup):
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, "")
        if self._topology and group.spec.HasField("scheduling_constraints"):
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, "")
        if not tried:
            return PodGroupPostFilterResult(status.Code.ERROR, "not found")
        of_group = self._group_claims and bool(group.spec.resource_claims)
        if not of_group and not any(self._cache.registry.of_one_pod(trial.pod.record.class_id) for trial in tried):
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, _LOOKED_AT)
        request = self._question(wanted, [trial.pod for trial in tried])
        request.devices.scheduled = wanted.scheduled.get(wanted.tree.name, 0)
        for member, trial in zip(request.members, tried, strict=True):
            if trial.columns is not None:
                member.columns.CopyFrom(trial.columns)
            if trial.assumed is not None:
                member.state = trial.assumed.state
        try:
            response = await self._evaluators.pod_group_post_filter(request)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            return PodGroupPostFilterResult(status.Code.ERROR, str(error))
        code = wire_status.from_message(response.status).code
        return PodGroupPostFilterResult(code, ", ".join(response.status.messages), actions=tuple(response.actions))

    async def _preempt(self, wanted: Wanted) -> PodGroupPostFilterResult:
        members, started = wanted.everybody(), self._observer.clock()
        try:
            response = await self._evaluators.pod_group_post_filter(self._question(wanted, members))
            if not response.potential:
                current = {pod.uid: pod.record.nominated_node for pod in members}
                result = _from_message(response, current)
                # Who may not preempt, or does already, is not looked at any closer.
                if result.code is status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    self._observer.preemption_evaluated(result.code, self._observer.clock() - started)
                return result
            result = await self._evaluate(wanted, response.potential)
            self._observer.preemption_evaluated(result.code, self._observer.clock() - started)
            return result
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            return PodGroupPostFilterResult(status.Code.ERROR, f"pod group preemption: {error}")

    async def _evaluate(self, wanted: Wanted, potential: Sequence[filter_pb2.Victim]) -> PodGroupPostFilterResult:
        hidden = [pod.pod.uid for victim in potential for pod in victim.pods]
        self._cache.hide(hidden)
        try:
            return await self._make_room(wanted, potential)
        finally:
            self._cache.show(hidden)

    async def _make_room(self, wanted: Wanted, potential: Sequence[filter_pb2.Victim]) -> PodGroupPostFilterResult:
        """Place the members while all who may go are hidden; who has to go then."""
        result = await self._try(wanted)
        if not result.succeeded:
            unschedulable = result.status.verdict is Verdict.UNSCHEDULABLE
            code = status.Code.UNSCHEDULABLE if unschedulable else status.Code.ERROR
            return PodGroupPostFilterResult(code, f"pod group preemption: {result.status.message}")
        # As in kube-scheduler, who fitted counts and is nominated, also where the pod's own group did not fit.
        proposed = [(trial, trial.assumed) for trial in result.proposed() if trial.assumed is not None]
        try:
            request = self._question(wanted, [trial.pod for trial, _ in proposed])
            for member, (_, assumed) in zip(request.members, proposed, strict=True):
                member.slot = assumed.slot
            request.victims.extend(potential)
            response = await self._evaluators.pod_group_post_filter(request)
            if response.HasField("disruption"):
                self._observer.group_disrupts(wanted.tree.key.kind, response.disruption)
            return _from_message(response, {trial.pod.uid: assumed.node_name for trial, assumed in proposed})
        finally:
            self._trials.undo(list(result.placed()))

    def _question(
        self, wanted: Wanted, members: Sequence[queued_pod.QueuedPodInfo]
    ) -> filter_pb2.PodGroupPostFilterRequest:
        first, metadata = members[0].record, wanted.tree.message.metadata
        request = filter_pb2.PodGroupPostFilterRequest(
            cycle=self._evaluators.cycle(first.profile, first.class_id, self._publish()),
            pod_group=cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
            composite=wanted.tree.composite,
            priority=wanted.tree.message.spec.priority,
        )
        for pod in members:
            parsed = pod.record.pod.parsed
            request.members.add(
                pod=cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid),
                pod_class=pod.record.class_id,
                nominated_node=pod.record.nominated_node,
            )
        return request


def not_made(failure: str) -> PodGroupPostFilterResult:
    """The answer of DefaultPreemption where victims were found and stay."""
    text = _error(pre_enqueue.DEFAULT_PREEMPTION, f"pod group preemption: {failure}")
    return PodGroupPostFilterResult(status.Code.ERROR, text)


def _error(plugin: str, message: str) -> str:
    return f'error in "{plugin}" PodGroupPostFilter plugins: {message}'


def _from_message(
    response: filter_pb2.PodGroupPostFilterResponse, nominated: Mapping[str, str]
) -> PodGroupPostFilterResult:
    code = wire_status.from_message(response.status).code
    text = ", ".join(response.status.messages)
    if code is not status.Code.SUCCESS:
        return PodGroupPostFilterResult(code, text)
    return PodGroupPostFilterResult(code, text, nominated, tuple(response.actions))
