"""PostFilter: the plugins of a profile are asked for a way out, one after the other, until one has it.

A success or a refusal that nothing can resolve ends the chain, and so does an error; the refusals before are joined.
What those before wanted done is done in any case: kube-scheduler's have done it by then.

Source: pkg/scheduler/framework/runtime (RunPostFilterPlugins).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.evaluation import reserving
from trireme.evaluation.preemption import preemption
from trireme.framework import status
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, meta_pb2, status_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


class PostFilterPlugin(Protocol):
    """A plugin of this process that looks for a way out."""

    name: str

    async def post_filter(
        self, question: preemption.Question, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse | preemption.Candidates:
        """The way out, or why there is none; candidates where the question asks for them. It writes nothing."""
        ...


class ClaimReleasePlugin(Protocol):
    """A plugin of this process that says which claims a group of pods may give up."""

    def post_filter(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest, snap: snapshot.Snapshot
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """What may be given up. Raises: ValueError, DecodeError where a state is none that Reserve gave."""
        ...


class PostFilter(Protocol):
    """A plugin at PostFilter, in this process or a service of its own (`remote`)."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def remote(self) -> bool:
        """It is a service of its own, so calling it takes time."""
        ...

    async def post_filter(
        self, question: preemption.Question, snap: snapshot.Snapshot, refused: node_columns.NodeColumns | None
    ) -> filter_pb2.PostFilterResponse | preemption.Candidates | None:
        """The way out, or why there is none; candidates where the question asks for them. None: it could not be called,
        and that is ignored.
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
        self, question: preemption.Question, snap: snapshot.Snapshot, refused: node_columns.NodeColumns | None
    ) -> filter_pb2.PostFilterResponse | preemption.Candidates | None:
        """As the Protocol says."""
        return await self.plugin.post_filter(question, snap)


@dataclass(frozen=True, slots=True)
class RemotePostFilter:
    """A plugin that is a service of its own; its call says which nodes refuse the pod."""

    plugin: reserving.RemoteReserve
    remote: bool = True

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.plugin.name

    async def post_filter(
        self, question: preemption.Question, snap: snapshot.Snapshot, refused: node_columns.NodeColumns | None
    ) -> filter_pb2.PostFilterResponse | None:
        """As the Protocol says."""
        columns = filter_pb2.NodeColumns() if refused is None else node_columns.to_message(refused)
        answer = await self.plugin.post_filter(question.cycle, columns, question.pre_filter)
        if isinstance(answer, status.Status):
            return filter_pb2.PostFilterResponse(status=wire_status.to_message(answer))
        return answer


def cycle_for(cycle: cycle_pb2.Cycle, preemptor: filter_phase_pb2.Preemptor) -> cycle_pb2.Cycle:
    """The cycle, about this pod of its class."""
    out = cycle_pb2.Cycle()
    out.CopyFrom(cycle)
    identity = preemptor.pod
    metadata = meta_pb2.ObjectMeta(namespace=identity.namespace, name=identity.name, uid=identity.uid)
    nomination = core_pb2.PodStatus(nominated_node_name=preemptor.nominated_node)
    out.pod.CopyFrom(core_pb2.Pod(metadata=metadata, status=nomination))
    return out


async def post_filter(
    plugins: Sequence[PostFilter],
    question: preemption.Question,
    snap: snapshot.Snapshot,
    refused: node_columns.NodeColumns | None = None,
) -> filter_pb2.PostFilterResponse | preemption.Candidates:
    """The first way out that a plugin has, or all that they say why there is none; candidates where the question asks
    for them. `refused` is for plugins of other processes.
    """
    out = filter_pb2.PostFilterResponse(status=wire_status.to_message(status.unschedulable("")))
    for plugin in plugins:
        answer = await plugin.post_filter(question, snap, refused)
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
        out.status.messages.extend(answer.status.messages)
        out.status.plugin = out.status.plugin or plugin.name
        out.actions.extend(answer.actions)
        out.clear_nomination |= answer.clear_nomination
    return out
