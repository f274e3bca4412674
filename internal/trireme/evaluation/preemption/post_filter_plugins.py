"""The PostFilter plugins of a profile, run in order until one makes room.

A success, an unresolvable refusal and an error end the run; otherwise the result is the refusals of all plugins. The
actions of the plugins before are executed in any case: kube-scheduler's plugins have executed theirs by then.

Source: pkg/scheduler/framework/runtime (RunPostFilterPlugins).

Tests: tests/unit/plugins/default_preemption/test_post_filter.py,
tests/unit/plugins/default_preemption/test_post_filter_statuses.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.evaluation.filtering import class_verdicts, filter_chain
from trireme.evaluation.preemption.post_filter_context import Candidates, PostFilterContext
from trireme.snapshot import snapshot
from trireme.v1 import filter_pb2, filter_phase_pb2, status_pb2
from trireme.wire import node_columns


class PostFilterPlugin(Protocol):
    """An in-tree plugin at PostFilter.

    Implementers: trireme.plugins.dynamic_resources.post_filter.Deallocation,
    trireme.plugins.default_preemption.post_filter.DefaultPreemption.
    """

    name: str

    async def post_filter(
        self, context: PostFilterContext, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse | Candidates:
        """Return how room is made for the pod, or why it is not; candidates if the context asks for them."""
        ...


class ClaimReleasePlugin(Protocol):
    """An in-tree plugin at PodGroupPostFilter that releases claims which a group cannot use.

    Implementers: trireme.plugins.dynamic_resources.pod_group_post_filter.ClaimRelease.
    """

    def post_filter(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest, snap: snapshot.Snapshot
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Return the claims to release.

        Raises: ValueError, DecodeError where a member's state is not one that Reserve returned.
        """
        ...


class PodGroupPreemptionPlugin(Protocol):
    """An in-tree plugin at PodGroupPostFilter that preempts for a group, in two steps: see ListPodGroupVictims.

    Implementers: trireme.plugins.default_preemption.pod_group_post_filter.PodGroupPreemption.
    """

    def list_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest, snap: snapshot.Snapshot
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Return the potential victims, or why there are none."""
        ...

    async def reprieve_victims(
        self,
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
        snap: snapshot.Snapshot,
        chain: filter_chain.FilterChain,
        class_columns: Mapping[int, class_verdicts.ClassVerdicts],
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """Return the victims that cannot stay beside the placed members; `class_columns` are those of their classes.

        Raises: OutOfStepError where the snapshot changed while plugins were called.
        """
        ...


class HostedPostFilter(Protocol):
    """A plugin at PostFilter, in-tree or `remote`.

    Implementers: trireme.evaluation.preemption.post_filter_plugins.InTreePostFilter,
    trireme.remote.remote_post_filter.RemotePostFilterPlugin, trireme.remote.recorded_plugins.RecordedPostFilterPlugin.
    """

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def remote(self) -> bool:
        """Whether it runs in another process."""
        ...

    async def post_filter(
        self, context: PostFilterContext, snap: snapshot.Snapshot, refused: node_columns.NodeColumns | None
    ) -> filter_pb2.PostFilterResponse | Candidates | None:
        """As PostFilterPlugin.post_filter; None: the call failed, which the plugin's policy ignores.

        `refused` is sent to remote plugins.
        """
        ...


@dataclass(frozen=True, slots=True)
class InTreePostFilter:
    """A plugin of this process."""

    plugin: PostFilterPlugin
    remote: bool = False

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.plugin.name

    async def post_filter(
        self, context: PostFilterContext, snap: snapshot.Snapshot, refused: node_columns.NodeColumns | None
    ) -> filter_pb2.PostFilterResponse | Candidates | None:
        """Call the in-tree plugin; `refused` is for remote ones alone. It never returns None."""
        return await self.plugin.post_filter(context, snap)


async def run_in_order(
    plugins: Sequence[HostedPostFilter],
    context: PostFilterContext,
    snap: snapshot.Snapshot,
    refused: node_columns.NodeColumns | None = None,
) -> filter_pb2.PostFilterResponse | Candidates:
    """Return how the first plugin that can makes room, or why none does; candidates if the context says so.

    A plugin that answers None has no part in it. What plugins before the last one say and do, short of making room, is
    added to the result. `refused` is sent to remote plugins.
    """
    out = filter_pb2.PostFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE))
    for plugin in plugins:
        answer = await plugin.post_filter(context, snap, refused)
        if answer is None:
            continue
        if isinstance(answer, tuple):
            return answer
        code = answer.status.code
        if code in (status_pb2.CODE_SUCCESS, status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, status_pb2.CODE_ERROR):
            out.actions.extend(answer.actions)
            del answer.actions[:]
            answer.actions.extend(out.actions)
            return answer
        # The result names the first plugin that was called, as in kube-scheduler.
        is_first = not out.status.plugin
        if is_first and code == status_pb2.CODE_UNSCHEDULABLE:
            out.status.CopyFrom(answer.status)
        elif answer.status.messages:
            out.refusals.add().CopyFrom(answer.status)
            out.refusals[-1].plugin = plugin.name
        if is_first:
            out.status.plugin = plugin.name
        out.actions.extend(answer.actions)
        out.clear_nomination |= answer.clear_nomination
    return out
