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
from trireme.v1 import filter_pb2, status_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


class PostFilterPlugin(Protocol):
    """A plugin of this process that looks for a way out."""

    name: str

    async def post_filter(
        self, question: preemption.Question, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse:
        """The way out, or why there is none. It writes nothing."""
        ...


class ClaimReleasePlugin(Protocol):
    """A plugin of this process that says which claims a group of pods may give up."""

    def post_filter(
        self, request: filter_pb2.PodGroupPostFilterRequest, snap: snapshot.Snapshot
    ) -> filter_pb2.PodGroupPostFilterResponse:
        """What may be given up. Raises: ValueError, DecodeError where a state is none that Reserve gave."""
        ...


@dataclass(frozen=True, slots=True)
class Remote:
    """A plugin of another process in the chain."""

    plugin: reserving.RemoteReserve


PostFilter = PostFilterPlugin | Remote


def any_remote(plugins: Sequence[PostFilter]) -> bool:
    """Whether a plugin is a service of its own."""
    return any(isinstance(plugin, Remote) for plugin in plugins)


async def post_filter(
    plugins: Sequence[PostFilter],
    question: preemption.Question,
    snap: snapshot.Snapshot,
    refused: node_columns.NodeColumns | None = None,
) -> filter_pb2.PostFilterResponse:
    """The first way out that a plugin has, or all that they say why there is none. `refused` is for plugins of other
    processes.
    """
    out = filter_pb2.PostFilterResponse(status=wire_status.to_message(status.unschedulable("")))
    for plugin in plugins:
        answer = await _ask(plugin, question, snap, refused)
        if answer is None:
            continue
        code = answer.status.code
        if code in (status_pb2.CODE_SUCCESS, status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, status_pb2.CODE_ERROR):
            out.actions.extend(answer.actions)
            del answer.actions[:]
            answer.actions.extend(out.actions)
            return answer
        out.status.messages.extend(answer.status.messages)
        out.status.plugin = out.status.plugin or (plugin.plugin.name if isinstance(plugin, Remote) else plugin.name)
        out.actions.extend(answer.actions)
        out.clear_nomination |= answer.clear_nomination
    return out


async def _ask(
    plugin: PostFilter,
    question: preemption.Question,
    snap: snapshot.Snapshot,
    refused: node_columns.NodeColumns | None,
) -> filter_pb2.PostFilterResponse | None:
    if not isinstance(plugin, Remote):
        return await plugin.post_filter(question, snap)
    columns = filter_pb2.NodeColumns() if refused is None else node_columns.to_message(refused)
    said = await plugin.plugin.post_filter(question.cycle, columns, question.pre_filter)
    if isinstance(said, status.Status):
        return filter_pb2.PostFilterResponse(status=wire_status.to_message(said))
    return said
