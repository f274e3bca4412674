"""Calls the plugins of a profile at Permit, PreBindPreFlight, PreBind, Bind and PostBind, and merges their answers.

It uses the contract's own messages, so a plugin in this process and one behind a gRPC channel look the
same to it. The rules are those of kube-scheduler's framework: the first plugin that refuses a pod decides; Permit
continues after a plugin that makes the pod wait; Bind continues after a plugin that skips the pod. kube-scheduler's
prefix of an error (`running Bind plugin "X": …`) comes from each plugin here, because either the plugin or the way to
it may have failed.

Source: pkg/scheduler/framework/runtime of Kubernetes 1.37.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf import duration_pb2

from trireme.framework import status
from trireme.plugin_kit.bind_phase_plugin import (
    BindCall,
    BindPhasePlugin,
    PermitCall,
    PostBindCall,
    PreBindCall,
    PreBindPreFlightCall,
)
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.wire import profile_messages
from trireme.wire.status import to_message

C = TypeVar("C")


MAX_PERMIT_SECONDS = 15 * 60


@dataclass(frozen=True, slots=True)
class ProfilePlugins:
    """The plugins of one profile at each point, in order."""

    permit: tuple[tuple[str, PermitCall], ...]
    pre_bind_pre_flight: tuple[tuple[str, PreBindPreFlightCall], ...]
    pre_bind: tuple[tuple[str, PreBindCall], ...]
    bind: tuple[tuple[str, BindCall], ...]
    post_bind: tuple[tuple[str, PostBindCall], ...]
    #: The plugins whose PreBind writes to the API server.
    writing: frozenset[str] = frozenset()


def by_profile(
    configuration: snapshot_pb2.Configuration, plugins: Mapping[str, BindPhasePlugin]
) -> dict[str, ProfilePlugins]:
    """Resolve the plugins of each profile at each point, in order, to the functions that are called.

    Raises:
        ValueError: a profile names a plugin that is not there, or not at that point.
    """
    return {
        profile.scheduler_name: ProfilePlugins(
            permit=_calls_at_point(
                profile, plugin_pb2.EXTENSION_POINT_PERMIT, "Permit", plugins, lambda plugin: plugin.permit
            ),
            pre_bind=_calls_at_point(
                profile, plugin_pb2.EXTENSION_POINT_PRE_BIND, "PreBind", plugins, lambda plugin: plugin.pre_bind
            ),
            pre_bind_pre_flight=_calls_at_point(
                profile,
                plugin_pb2.EXTENSION_POINT_PRE_BIND,
                "PreBind",
                plugins,
                lambda plugin: plugin.pre_bind_pre_flight,
            ),
            bind=_calls_at_point(profile, plugin_pb2.EXTENSION_POINT_BIND, "Bind", plugins, lambda plugin: plugin.bind),
            post_bind=_calls_at_point(
                profile, plugin_pb2.EXTENSION_POINT_POST_BIND, "PostBind", plugins, lambda plugin: plugin.post_bind
            ),
            writing=frozenset(name for name, plugin in plugins.items() if plugin.writes),
        )
        for profile in configuration.profiles
    }


def _calls_at_point(
    profile: snapshot_pb2.Profile,
    point: plugin_pb2.ExtensionPoint.ValueType,
    label: str,
    plugins: Mapping[str, BindPhasePlugin],
    call_of: Callable[[BindPhasePlugin], C | None],
) -> tuple[tuple[str, C], ...]:
    """Return the profile's plugins at one point with their functions, in order. Raises: ValueError if one lacks it."""
    found = []
    for entry in profile_messages.plugins_at(profile, point):
        plugin = plugins.get(entry.name)
        call = call_of(plugin) if plugin is not None else None
        if call is None:
            raise ValueError(f"profile {profile.scheduler_name}: no {label} plugin {entry.name}")
        found.append((entry.name, call))
    return tuple(found)


async def permit(plugins: ProfilePlugins, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
    """Call the Permit plugins in order, and merge their answers about each pod.

    The first refusal ends a pod's turn. All plugins that answered WAIT are in its result, with their time-outs and
    messages; a pod that none holds back has SUCCESS.
    """
    ended: dict[int, bind_pb2.PermitResult] = {}
    waits: dict[int, list[bind_pb2.PermitWait]] = {}
    for name, call in plugins.permit:
        left = [index for index in range(len(request.items)) if index not in ended]
        if not left:
            break
        part = bind_pb2.PermitRequest(cycle=request.cycle, items=_items_at(request.items, left))
        for index, result in zip(left, await call(part), strict=True):
            if result.status.code == status_pb2.CODE_WAIT:
                timeout = _bounded_permit_timeout(result.timeout)
                wait = bind_pb2.PermitWait(plugin=name, timeout=timeout, messages=result.status.messages)
                waits.setdefault(index, []).append(wait)
            elif result.status.code not in _PASSED:
                ended[index] = _with_plugin_name(result, name)
    response = bind_pb2.PermitResponse()
    for index, item in enumerate(request.items):
        if index in ended:
            response.results.append(ended[index])
        elif index in waits:
            response.results.append(_wait_result(item.pod.name, waits[index]))
        else:
            response.results.add().status.code = status_pb2.CODE_SUCCESS
    return response


#: Implementers: trireme.bind.pre_binder.call_context.
PluginCallContext = Callable[[str, bool], AbstractAsyncContextManager[None]]
"""Makes the context that the call of a plugin runs in, from the plugin's name and whether the call writes to the API
server.
"""


def _empty_call_context(plugin: str, writes: bool) -> AbstractAsyncContextManager[None]:
    """The context for calls without turns, time-outs or bookkeeping: it does nothing."""
    return nullcontext()


async def pre_bind_pre_flight(
    plugins: ProfilePlugins,
    request: bind_pb2.PreBindPreFlightRequest,
    call_context: PluginCallContext = _empty_call_context,
) -> bind_pb2.PreBindPreFlightResponse:
    """Whether any PreBind plugin has work for each pod.

    CODE_SUCCESS or CODE_SKIP, else the status of the first plugin that failed.
    """
    ended: dict[int, status_pb2.Status] = {}
    working: set[int] = set()
    for name, call in plugins.pre_bind_pre_flight:
        left = [index for index in range(len(request.items)) if index not in ended]
        if not left:
            break
        part = bind_pb2.PreBindPreFlightRequest(cycle=request.cycle, items=_items_at(request.items, left))
        async with call_context(name, False):
            statuses = await call(part)
        for index, answer in zip(left, statuses, strict=True):
            if answer.code == status_pb2.CODE_SUCCESS:
                working.add(index)
            elif answer.code != status_pb2.CODE_SKIP:
                answer.plugin = name
                ended[index] = answer
    response = bind_pb2.PreBindPreFlightResponse()
    for index in range(len(request.items)):
        if index in ended:
            response.statuses.append(ended[index])
        else:
            response.statuses.add(code=status_pb2.CODE_SUCCESS if index in working else status_pb2.CODE_SKIP)
    return response


async def pre_bind(
    plugins: ProfilePlugins, request: bind_pb2.PreBindRequest, call_context: PluginCallContext = _empty_call_context
) -> bind_pb2.PreBindResponse:
    """Call the PreBind plugins in order, and merge their answers about each pod; SKIP if none had work.

    A pod that a plugin refuses or makes wait does not reach the plugins after it; its state then has that of all
    plugins, for the call that repeats it.
    """
    ended: dict[int, bind_pb2.PreBindResult] = {}
    worked: set[int] = set()
    for name, call in plugins.pre_bind:
        left = [index for index in range(len(request.items)) if index not in ended]
        if not left:
            break
        part = bind_pb2.PreBindRequest(cycle=request.cycle, items=_items_at(request.items, left))
        async with call_context(name, name in plugins.writing):
            results = await call(part)
        for index, result in zip(left, results, strict=True):
            if result.status.code == status_pb2.CODE_SUCCESS:
                worked.add(index)
            elif result.status.code != status_pb2.CODE_SKIP:
                ended[index] = _with_states_of_all_plugins(request.items[index], _with_plugin_name(result, name), name)
    response = bind_pb2.PreBindResponse()
    for index in range(len(request.items)):
        if index in ended:
            response.results.append(ended[index])
        else:
            response.results.add().status.code = status_pb2.CODE_SUCCESS if index in worked else status_pb2.CODE_SKIP
    return response


async def bind(
    plugins: ProfilePlugins, request: bind_pb2.BindRequest, tenure: Tenure
) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
    """Bind each pod by the first plugin that does not skip it; a pod that all skip gets an error."""
    left = list(range(len(request.items)))
    for name, call in plugins.bind:
        part = request
        if len(left) < len(request.items):
            part = bind_pb2.BindRequest(cycle=request.cycle, items=_items_at(request.items, left))
        skipped: list[int] = []
        async with aclosing(call(part, tenure)) as batches:
            async for results in batches:
                answered = list(_renumbered_without_skipped(results, left, name, skipped))
                if answered:
                    yield answered
        left = sorted(skipped)
        if not left:
            return
    message = "no Bind plugin of the profile binds this pod"
    refused = to_message(status.error("", message, reasons=(status.Reason("noBindPlugin"),)))
    yield [bind_pb2.BindResult(index=index, status=refused) for index in left]


def _renumbered_without_skipped(
    results: Sequence[bind_pb2.BindResult], indexes: Sequence[int], plugin: str, skipped: list[int]
) -> Iterator[bind_pb2.BindResult]:
    """Yield one plugin's results with their indexes in the whole request, and its name in failures.

    Results that the plugin skipped are left out; their indexes are added to `skipped`.
    """
    for result in results:
        result.index = indexes[result.index]
        if result.status.code == status_pb2.CODE_SKIP:
            skipped.append(result.index)
            continue
        if result.status.code != status_pb2.CODE_SUCCESS:
            result.status.plugin = plugin
        yield result


async def post_bind(plugins: ProfilePlugins, request: bind_pb2.PostBindRequest) -> None:
    """Notify the profile's PostBind plugins, one after the other, that these pods were bound."""
    for _, call in plugins.post_bind:
        await call(request)


_PASSED = (status_pb2.CODE_SUCCESS, status_pb2.CODE_SKIP)

R = TypeVar("R", bind_pb2.PermitResult, bind_pb2.PreBindResult)


def _with_plugin_name(result: R, plugin: str) -> R:
    """The result, its status naming the plugin that it is of."""
    result.status.plugin = plugin
    return result


def _items_at(items: Sequence[bind_pb2.BindItem], indexes: Sequence[int]) -> Sequence[bind_pb2.BindItem]:
    """The items at these indexes; `items` itself, not a copy, if that is all of them."""
    return items if len(indexes) == len(items) else [items[index] for index in indexes]


def _wait_result(pod: str, waits: Sequence[bind_pb2.PermitWait]) -> bind_pb2.PermitResult:
    """The result of a pod that Permit plugins make wait: all of them, and the shortest time-out."""
    message = f'one or more plugins asked to wait and no plugin rejected pod "{pod}"'
    shortest = min((wait.timeout for wait in waits), key=lambda timeout: (timeout.seconds, timeout.nanos))
    return bind_pb2.PermitResult(
        status=status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=waits[0].plugin, messages=[message]),
        timeout=shortest,
        waits=waits,
    )


def _bounded_permit_timeout(timeout: duration_pb2.Duration) -> duration_pb2.Duration:
    """The time-out that a plugin set, from 0 to the longest that Permit may wait."""
    if timeout.seconds < 0:
        return duration_pb2.Duration()
    return timeout if timeout.seconds < MAX_PERMIT_SECONDS else duration_pb2.Duration(seconds=MAX_PERMIT_SECONDS)


def _with_states_of_all_plugins(
    item: bind_pb2.BindItem, result: bind_pb2.PreBindResult, plugin: str
) -> bind_pb2.PreBindResult:
    """The result of a pod that does not reach the next plugin; one that waits has the state of all plugins.

    A plugin that answers no state keeps the one that it has, of Reserve or an earlier PreBind.
    """
    if result.status.code == status_pb2.CODE_WAIT:
        states = bind_phase_pb2.PluginStates.FromString(item.state)
        if result.state:
            states.plugin_states[plugin] = result.state
        result.state = states.SerializeToString()
    return result
