"""PodGroupPostFilter for a group that does not fit: it may preempt pods of lower priority in the whole cluster.

Filter lists the potential victims. The cluster cache hides all of them from the replicas, the group is tried again, and
filter reprieves the victims beside which the group still fits. Then everything is shown again, and the intermediate
state is never used: no other pods are scheduled while pods are hidden. The remaining victims are deleted while others
are scheduled, as for single pods, and the members are nominated for the nodes that were found.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go, RunPodGroupPostFilterPlugins.

Tests: tests/unit/scheduling/test_pod_group_cycle.py, tests/unit/scheduling/test_pod_group_claims.py.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol

from trireme.cache import cluster_cache
from trireme.evaluation.preemption import post_filter_context
from trireme.framework import fit_reasons, status
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.queueing import queued_pod
from trireme.registry import group_plugins, in_tree
from trireme.scheduling import ports
from trireme.scheduling.groups.pod_group_results import (
    GroupCode,
    GroupStatus,
    MemberAttempt,
    PodGroupRequest,
    PodGroupResult,
    TryGroup,
    failed_cause,
)
from trireme.scheduling.groups.pod_group_trial import PodGroupTrials
from trireme.scheduling.groups.victim_costs import VictimCosts
from trireme.v1 import bind_pb2, cycle_pb2, filter_phase_pb2, scheduling_pb2, status_pb2
from trireme.wire import status as wire_status

_LABEL = ExtensionPoint.POD_GROUP_POST_FILTER.label


class _HasIdentity(Protocol):
    """Whatever has namespace, name and UID: a pod, or the metadata of a PodGroup."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def uid(self) -> str:
        """Its UID."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroupPostFilterResult:
    """The result of the plugins. On SUCCESS these members (UID) are nominated for nodes, and the actions make room.

    `causes`: the statuses of the plugins that make none.
    """

    code: status.Code
    message: str
    causes: tuple[status.Status, ...]
    nominated: Mapping[str, str] = dataclasses.field(default_factory=dict)
    actions: Sequence[bind_pb2.Action] = ()


class PodGroupPostFilters:
    """Runs the PodGroupPostFilter plugins of each profile, in order."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        trials: PodGroupTrials,
        try_group: TryGroup,
        plugins: Mapping[str, Sequence[str]],
        ranking: Container[str],
        topology: bool,
        group_claims: bool,
    ) -> None:
        """Take what tries a group (`try_group`), what undoes its trial (`trials`), and the `plugins` of each profile.

        `ranking` are the profiles in which a group that preempts goes where that costs least. `topology`: groups may
        require one topology domain. `group_claims`: groups may have claims for devices.
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
        self._ranking = ranking

    async def run(self, request: PodGroupRequest, tried: PodGroupResult) -> PodGroupPostFilterResult:
        """Run the plugins in order for a group that does not fit (`tried`: its trial), until one makes room.

        SUCCESS and UNSCHEDULABLE_AND_UNRESOLVABLE end it with that result, any other code but UNSCHEDULABLE with an
        error. The actions of the plugins before are in the result in each case. A plugin of an unknown kind is skipped.
        """
        texts = []
        causes: list[status.Status] = []
        actions: list[bind_pb2.Action] = []
        for plugin in self._plugins.get(request.profile, ()):
            started = self._observer.clock()
            if group_plugins.releases_claims(plugin):
                result = await self._list_claims_to_release(request, tried.attempts)
            elif group_plugins.preempts(plugin):
                result = await self._preempt_by_trial_without_victims(request)
                self._observer.on_group_preemption_attempted(request.tree.key.kind, result.code)
            else:
                continue
            self._observer.on_plugin_run(_LABEL, plugin, result.code, self._observer.clock() - started)
            actions.extend(result.actions)
            result = dataclasses.replace(result, actions=tuple(actions))
            if result.code in (status.Code.SUCCESS, status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                return result
            if result.code is not status.Code.UNSCHEDULABLE:
                return dataclasses.replace(
                    result, code=status.Code.ERROR, message=_plugin_error_text(plugin, result.message)
                )
            texts.append(result.message)
            causes.extend(result.causes)
        text = ", ".join(text for text in texts if text)
        return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, text, tuple(causes), actions=tuple(actions))

    async def _list_claims_to_release(
        self, request: PodGroupRequest, tried: Sequence[MemberAttempt]
    ) -> PodGroupPostFilterResult:
        """Have filter list the claims that may be released; UNSCHEDULABLE if nobody of the group has any.

        Groups of groups, and groups with a topology constraint, release none.
        """
        group = request.tree.message
        if isinstance(group, scheduling_pb2.CompositePodGroup):
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, "", ())
        if self._topology and group.spec.HasField("scheduling_constraints"):
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, "", ())
        if not tried:
            return PodGroupPostFilterResult(status.Code.ERROR, "not found", (failed_cause("not found", "failed"),))
        of_group = self._group_claims and bool(group.spec.resource_claims)
        if not of_group and not any(self._cache.registry.is_of_one_pod(member.pod.record.class_id) for member in tried):
            text = fit_reasons.NO_CLAIM_TO_RELEASE
            cause = status.unschedulable("", text, reasons=(status.Reason("noClaimToRelease"),))
            return PodGroupPostFilterResult(status.Code.UNSCHEDULABLE, text, (cause,))
        message = self._list_claims_request(request, group, tried)
        try:
            response = await self._evaluators.list_releasable_claims(message)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            return PodGroupPostFilterResult(status.Code.ERROR, str(error), (failed_cause(str(error), "phaseFailed"),))
        answer = wire_status.from_message(response.status)
        return PodGroupPostFilterResult(answer.code, answer.message, _causes(answer), actions=tuple(response.actions))

    def _list_claims_request(
        self, request: PodGroupRequest, group: scheduling_pb2.PodGroup, tried: Sequence[MemberAttempt]
    ) -> filter_phase_pb2.ListReleasableClaimsRequest:
        """The request with what each member's attempt found: the nodes' statuses, and what Reserve answered."""
        message = filter_phase_pb2.ListReleasableClaimsRequest(
            cycle=self._make_cycle(tried[0].pod),
            pod_group=_identity(group.metadata),
            scheduled=request.scheduled.get(request.tree.name, 0),
        )
        for member in tried:
            record = member.pod.record
            entry = message.tried.add(pod=_identity(record.pod.parsed), pod_class=record.class_id)
            if member.columns is not None:
                entry.columns.CopyFrom(member.columns)
            if member.assumed is not None:
                entry.state = member.assumed.state
        return message

    async def _preempt_by_trial_without_victims(self, request: PodGroupRequest) -> PodGroupPostFilterResult:
        """Preempt for the group in the whole cluster: try it without all potential victims, then evict those needed.

        Without potential victims the group is not tried, and filter's status is the result. Never raises: an
        unreachable phase is an error of the result.
        """
        members, started, kind = request.all_pods(), self._observer.clock(), request.tree.key.kind
        try:
            message = filter_phase_pb2.ListPodGroupVictimsRequest(
                cycle=self._make_cycle(members[0]), priority=request.tree.message.spec.priority
            )
            for pod in members:
                message.members.add(pod_class=pod.record.class_id, nominated_node=pod.record.nominated_node)
            response = await self._evaluators.list_pod_group_victims(message)
            if not response.victims:
                current = {pod.uid: pod.record.nominated_node for pod in members}
                return _result_from_status(response.status, (), current)
            result = await self._hide_and_select_victims(request, response.victims)
            self._observer.on_group_preemption_evaluated(kind, result.code, self._observer.clock() - started)
            return result
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            text = f"{post_filter_context.GROUP_TEXT_PREFIX}{error}"
            return PodGroupPostFilterResult(status.Code.ERROR, text, (failed_cause(text, "phaseFailed"),))

    async def _hide_and_select_victims(
        self, request: PodGroupRequest, potential: Sequence[filter_phase_pb2.Victim]
    ) -> PodGroupPostFilterResult:
        """Hide all potential victims from the replicas, and select those that have to be evicted; then show them."""
        hidden = [pod.pod.uid for victim in potential for pod in victim.pods]
        self._cache.hide_from_replicas(hidden)
        try:
            return await self._select_victims(request, potential)
        finally:
            self._cache.show_to_replicas(hidden)

    async def _select_victims(
        self, request: PodGroupRequest, potential: Sequence[filter_phase_pb2.Victim]
    ) -> PodGroupPostFilterResult:
        """Try the group without the potential victims, and have filter reprieve those of them that may stay.

        The caller has hidden all potential victims. The result has the evictions, and the nodes that members are
        nominated to. Nothing stays assumed, whatever happens.
        """
        with (
            self._trials.choosing_by(VictimCosts(potential))
            if request.profile in self._ranking
            else contextlib.nullcontext()
        ):
            result = await self._try(request)
        if not result.succeeded:
            unschedulable = result.status.code is GroupCode.UNSCHEDULABLE
            code = status.Code.UNSCHEDULABLE if unschedulable else status.Code.ERROR
            text = f"{post_filter_context.GROUP_TEXT_PREFIX}{result.status.message}"
            return PodGroupPostFilterResult(code, text, _causes_of_trial(result.status, text))
        # As in kube-scheduler, all members that fitted count and are nominated, even if their own group did not fit.
        proposed = list(result.fitting_members())
        try:
            message = filter_phase_pb2.ReprievePodGroupVictimsRequest(
                cycle=self._make_cycle(proposed[0][0].pod),
                pod_group=_identity(request.tree.message.metadata),
                composite=request.tree.composite,
                priority=request.tree.message.spec.priority,
                victims=potential,
            )
            for member, assumed in proposed:
                record = member.pod.record
                message.placed.add(pod=_identity(record.pod.parsed), pod_class=record.class_id, slot=assumed.slot)
            response = await self._evaluators.reprieve_pod_group_victims(message)
            if response.HasField("disruption"):
                self._observer.on_group_disruption(request.tree.key.kind, response.disruption)
            nominated = {member.pod.uid: assumed.node_name for member, assumed in proposed}
            return _result_from_status(response.status, response.actions, nominated)
        finally:
            self._trials.unassume_all(list(result.placed_members()))

    def _make_cycle(self, pod: queued_pod.QueuedPodInfo) -> cycle_pb2.Cycle:
        """The context of a call about a group that begins with this pod."""
        return self._evaluators.cycle(pod.record.profile, pod.record.class_id, self._publish())


def failed_preemption_result(failure: str) -> PodGroupPostFilterResult:
    """The result of preemption if victims were found and could not be deleted."""
    text = _plugin_error_text(in_tree.PREEMPTION_PLUGIN, f"{post_filter_context.GROUP_TEXT_PREFIX}{failure}")
    return PodGroupPostFilterResult(status.Code.ERROR, text, (failed_cause(text, "evictionFailed"),))


def _plugin_error_text(plugin: str, message: str) -> str:
    """The error of a plugin in kube-scheduler's words."""
    return f'error in "{plugin}" PodGroupPostFilter plugins: {message}'


def _causes(answer: status.Status) -> tuple[status.Status, ...]:
    """What a plugin's status adds to why the group does not fit; of one that says nothing: nothing."""
    return (answer,) if answer.messages and answer.code is not status.Code.SUCCESS else ()


def _causes_of_trial(found: GroupStatus, text: str) -> tuple[status.Status, ...]:
    """Why the group does not fit without the potential victims."""
    if found.code is GroupCode.ERROR:
        return found.causes
    reasons = (status.Reason("victimsNotEnough"),)
    return (status.unschedulable(in_tree.PREEMPTION_PLUGIN, text, reasons=reasons),)


def _identity(named: _HasIdentity) -> cycle_pb2.PodIdentity:
    return cycle_pb2.PodIdentity(namespace=named.namespace, name=named.name, uid=named.uid)


def _result_from_status(
    message: status_pb2.Status, actions: Sequence[bind_pb2.Action], nominated: Mapping[str, str]
) -> PodGroupPostFilterResult:
    """The result by a plugin's status: actions and nominations count only with SUCCESS."""
    answer, text = wire_status.from_message(message), ", ".join(message.messages)
    if answer.code is not status.Code.SUCCESS:
        return PodGroupPostFilterResult(answer.code, text, _causes(answer))
    return PodGroupPostFilterResult(answer.code, text, (), nominated, tuple(actions))
