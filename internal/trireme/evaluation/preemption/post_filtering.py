"""PostFilter: the plugins of a profile are asked for a way out, one after the other, until one has it.

A success or a refusal that nothing can resolve ends the chain, and so does an error; the refusals before are joined.
What those before wanted done is done in any case: kube-scheduler's have done it by then.

Source: pkg/scheduler/framework/runtime (RunPostFilterPlugins).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from trireme.evaluation import reserving
from trireme.evaluation.filtering import evaluation
from trireme.evaluation.preemption import preemption
from trireme.framework import status
from trireme.plugins.dynamic_resources import deallocation
from trireme.plugins.dynamic_resources import plugin as dynamic_resources
from trireme.snapshot import snapshot
from trireme.v1 import filter_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.wire import profiles
from trireme.wire import status as wire_status


class PostFilterPlugin(Protocol):
    """An in-tree plugin that looks for a way out."""

    name: str

    def post_filter(self, question: preemption.Question, snap: snapshot.Snapshot) -> filter_pb2.PostFilterResponse:
        """The way out, or why there is none. It writes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Remote:
    """A plugin of another process in the chain."""

    plugin: reserving.RemoteReserve


PostFilter = PostFilterPlugin | preemption.DefaultPreemption | Remote


def _preemption(args_json: bytes, *, groups: bool) -> preemption.DefaultPreemption:
    args = orjson.loads(args_json) if args_json else {}
    return preemption.DefaultPreemption(
        preemption.Args(args.get("minCandidateNodesPercentage", 10), args.get("minCandidateNodesAbsolute", 100)),
        groups=groups,
    )


def post_filters(
    configuration: snapshot_pb2.Configuration,
    chains: Mapping[str, evaluation.Chain],
    make_remote: reserving.MakeRemoteReserve | None,
) -> Mapping[str, Sequence[PostFilter]]:
    """By profile the plugins at PostFilter, in order."""
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    groups = configuration.feature_gates.get("GenericWorkload", False)
    out: dict[str, list[PostFilter]] = {}
    for profile in configuration.profiles:
        local = {plugin.name: plugin for plugin in chains[profile.scheduler_name].local}
        found = out[profile.scheduler_name] = []
        for entry in profiles.plugins_at(profile, plugin_pb2.EXTENSION_POINT_POST_FILTER):
            plugin = local.get(entry.name)
            if entry.name == preemption.NAME:
                found.append(_preemption(profiles.args_of(profile, entry.name), groups=groups))
            elif isinstance(plugin, dynamic_resources.DynamicResources):
                found.append(deallocation.Deallocation(plugin))
            elif entry.name in remotes and make_remote is not None:
                found.append(Remote(make_remote(remotes[entry.name])))
    return out


def any_remote(plugins: Sequence[PostFilter]) -> bool:
    """Whether a plugin is a service of its own."""
    return any(isinstance(plugin, Remote) for plugin in plugins)


async def post_filter(
    plugins: Sequence[PostFilter],
    request: filter_pb2.PostFilterRequest,
    question: preemption.Question,
    snap: snapshot.Snapshot,
) -> filter_pb2.PostFilterResponse:
    """The first way out that a plugin has, or all that they say why there is none."""
    out = filter_pb2.PostFilterResponse(status=wire_status.to_message(status.unschedulable("")))
    for plugin in plugins:
        answer = await _ask(plugin, request, question, snap)
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
    plugin: PostFilter, request: filter_pb2.PostFilterRequest, question: preemption.Question, snap: snapshot.Snapshot
) -> filter_pb2.PostFilterResponse | None:
    if isinstance(plugin, preemption.DefaultPreemption):
        return await plugin.post_filter(question, snap)
    if not isinstance(plugin, Remote):
        return plugin.post_filter(question, snap)
    said = await plugin.plugin.post_filter(request.cycle, request.columns, question.pre_filter)
    if isinstance(said, status.Status):
        return filter_pb2.PostFilterResponse(status=wire_status.to_message(said))
    return said
