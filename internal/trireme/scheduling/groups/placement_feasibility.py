"""PlacementFeasible: whether a group may still fit in the placement that it is tried in.

The plugins are called before the first pod of the group (or the first group of a group of groups) is tried there, and
after each. Pods of one class are tried together, and for a remote plugin those of several: it gets the steps in one
call. The outcome is that of one call a step.

Source: pkg/scheduler/framework/runtime/framework.go RunPlacementFeasiblePlugins, pkg/scheduler/algorithm_podgroup.go
podGroupPotentiallyFeasible.

Tests: tests/unit/scheduling/test_placement_feasibility.py.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from trireme.framework import status
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api.placements import PlacementProgress
from trireme.queueing.groups import forest
from trireme.registry import group_plugins
from trireme.scheduling import ports, trial_scope
from trireme.scheduling.groups.pod_group_results import GroupCode, GroupStatus, MemberAttempt, PodGroupRequest
from trireme.v1 import cycle_pb2

_LABEL = ExtensionPoint.PLACEMENT_FEASIBLE.label
_FAILED = "failed to evaluate placement feasibility: "
_CODES = {
    status.Code.SUCCESS: GroupCode.SUCCESS,
    status.Code.WAIT: GroupCode.WAIT,
    status.Code.UNSCHEDULABLE: GroupCode.UNSCHEDULABLE,
}


class TrialStep(NamedTuple):
    """How far the trial had come, and how many of its attempts, from the first, were made by then."""

    progress: PlacementProgress
    attempts: int


@dataclasses.dataclass(frozen=True, slots=True)
class GroupTrial:
    """The trial of a group in a placement (None: all nodes), with the attempts of its pods so far, in order.

    `cycle` identifies the caller, and the generation at which the pods that fitted are assumed.
    """

    cycle: cycle_pb2.Cycle
    group: forest.GroupNode
    placement: trial_scope.GroupPlacement | None
    attempts: Sequence[MemberAttempt]


class RemotePlacementFeasible(Protocol):
    """A remote plugin at PlacementFeasible.

    Implementers: trireme.frontend.placement_plugin_calls.PlacementFeasibleCaller.
    """

    async def placement_feasible(self, trial: GroupTrial, steps: Sequence[TrialStep]) -> Sequence[status.Status]:
        """A status for each step, up to the first that ends the trial: SUCCESS, WAIT, UNSCHEDULABLE or ERROR."""
        ...


# Returns the remote plugins at PlacementFeasible of a profile, by name.
# Implementers: trireme.scheduling.in_memory.QueueCaller.placement_feasible_plugins,
# trireme.frontend.queue_plugin_calls.QueuePluginCaller.placement_feasible_plugins.
RemotePlugins = Callable[[str], Mapping[str, RemotePlacementFeasible]]


class PlacementFeasibility:
    """Runs the PlacementFeasible plugins of a profile, in order."""

    def __init__(
        self,
        *,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        plugins: Mapping[str, Sequence[str]],
        remote_plugins: RemotePlugins,
    ) -> None:
        """`plugins` are the names of each profile's plugins; one that is neither in-tree nor remote is left out."""
        self._evaluators = evaluators
        self._observer = observer
        self._publish = publish
        self._plugins = plugins
        self._remote_plugins = remote_plugins

    def may_wait(self, profile: str, group: forest.GroupNode, step: TrialStep) -> bool:
        """Whether a step may be decided about together with those behind it: that saves calls of remote plugins.

        It may not where an in-tree plugin ends the trial, since nothing has to be tried behind it.
        """
        names = self._plugins.get(profile, ())
        answers = (
            plugin.placement_feasible(group.min_count, step.progress)
            for plugin in group_plugins.placement_feasible_plugins(names).values()
        )
        return not self._remote_plugins(profile).keys().isdisjoint(names) and all(
            answer.code in (status.Code.SUCCESS, status.Code.WAIT) for answer in answers
        )

    async def evaluate(
        self,
        request: PodGroupRequest,
        group: forest.GroupNode,
        placement: trial_scope.GroupPlacement | None,
        attempts: Sequence[MemberAttempt],
        steps: Sequence[TrialStep],
    ) -> list[GroupStatus]:
        """The group's status at each step, up to the first that ends the trial.

        Of several plugins that have it wait, the last one's status counts; the first one that refuses, or fails, ends
        it, and no plugin after it is called about that step.
        """
        started, profile = self._observer.clock(), request.profile
        names = self._plugins.get(profile, ())
        in_tree, remote = group_plugins.placement_feasible_plugins(names), self._remote_plugins(profile)
        trial: GroupTrial | None = None
        found: list[status.Status] = [status.SUCCESS] * len(steps)
        undecided = len(steps)
        for name in names:
            answers: Iterable[status.Status] = ()
            if name in in_tree:
                plugin = in_tree[name]
                answers = (plugin.placement_feasible(group.min_count, step.progress) for step in steps[:undecided])
            elif name in remote and undecided:
                trial = trial or self._make_trial(request, group, placement, attempts)
                answers = await remote[name].placement_feasible(trial, steps[:undecided])
            for at, answer in enumerate(answers):
                if answer.code is not status.Code.SUCCESS:
                    found[at] = answer
                if answer.code not in (status.Code.SUCCESS, status.Code.WAIT):
                    undecided = at
                    del found[at + 1 :]
                    break
        self._record(profile, found, self._observer.clock() - started)
        return [_group_status(each) for each in found]

    def _make_trial(
        self,
        request: PodGroupRequest,
        group: forest.GroupNode,
        placement: trial_scope.GroupPlacement | None,
        attempts: Sequence[MemberAttempt],
    ) -> GroupTrial:
        first = request.all_pods()[0].record
        cycle = self._evaluators.cycle(first.profile, first.class_id, self._publish())
        return GroupTrial(cycle, group, placement, attempts)

    def _record(self, profile: str, found: Sequence[status.Status], seconds: float) -> None:
        for code, count in Counter(each.code for each in found).items():
            self._observer.on_extension_point_run(_LABEL, code, profile, seconds * count / len(found), count)


def _group_status(answer: status.Status) -> GroupStatus:
    """The group's status that follows from a plugin's."""
    code = _CODES.get(answer.code, GroupCode.ERROR)
    if code is GroupCode.ERROR:
        return GroupStatus(code, f"{_FAILED}{answer.message}", (answer,))
    return GroupStatus(code, answer.message, (answer,), frozenset({answer.plugin} - {""}))
