"""What a plugin is in the bind phase: Permit, PreBind, Bind and PostBind, and the writes beside them.

The calls speak the contract's own messages, so a plugin in this process and one behind a gRPC channel look the same to
the host that runs them (`trireme.bind.profile_plugins`).

Tests: tests/unit/plugins/test_volume_binding_bind.py, tests/unit/bind/test_profile_plugins.py.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.framework import status
from trireme.plugin_api.api_writer import ApiWriter
from trireme.plugin_kit.pod_binder import PodBinder
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery.api_writes import Outcome, PodName


class BindResultUnknown(Exception):
    """It is unknown whether some of the pods were bound."""


PermitCall = Callable[[bind_pb2.PermitRequest], Awaitable[Sequence[bind_pb2.PermitResult]]]
PreBindPreFlightCall = Callable[[bind_pb2.PreBindPreFlightRequest], Awaitable[Sequence[status_pb2.Status]]]
PreBindCall = Callable[[bind_pb2.PreBindRequest], Awaitable[Sequence[bind_pb2.PreBindResult]]]
BindCall = Callable[[bind_pb2.BindRequest, Tenure], AsyncGenerator[Sequence[bind_pb2.BindResult], None]]
PostBindCall = Callable[[bind_pb2.PostBindRequest], Awaitable[None]]


async def always_has_work(request: bind_pb2.PreBindPreFlightRequest) -> Sequence[status_pb2.Status]:
    """The PreBindPreFlight of a plugin that may have work for any pod: SUCCESS for each."""
    return [status_pb2.Status(code=status_pb2.CODE_SUCCESS) for _ in request.items]


def result_with_code(code: status_pb2.Code.ValueType) -> bind_pb2.PreBindResult:
    """Make the result of a pod that needs no text: SUCCESS or SKIP."""
    return bind_pb2.PreBindResult(status=status_pb2.Status(code=code))


def own_state(plugin: str, item: bind_pb2.BindItem) -> bytes:
    """What the plugin's Reserve left for the pod; empty: nothing."""
    return bind_phase_pb2.PluginStates.FromString(item.state).plugin_states.get(plugin, b"")


def pre_flight_of_state(plugin: str, read: Callable[[bytes], object]) -> PreBindPreFlightCall:
    """The PreBindPreFlight of a plugin that has work where its Reserve left state.

    `read` raises ValueError for state that is not the plugin's.
    """

    def pre_flight_of_pod(item: bind_pb2.BindItem) -> status_pb2.Status:
        """SUCCESS if Reserve left state for the pod, else SKIP; an error if it cannot be read."""
        state = own_state(plugin, item)
        if not state:
            return status_pb2.Status(code=status_pb2.CODE_SKIP)
        try:
            read(state)
        except ValueError as failure:
            return to_message(status.error(plugin, f'running PreBindPreFlight "{plugin}": {failure}'))
        return status_pb2.Status(code=status_pb2.CODE_SUCCESS)

    async def pre_flight(request: bind_pb2.PreBindPreFlightRequest) -> Sequence[status_pb2.Status]:
        """Whether there is work for each pod, in order."""
        return [pre_flight_of_pod(item) for item in request.items]

    return pre_flight


@dataclass(frozen=True, slots=True)
class BindPhasePlugin:
    """One plugin in the bind phase: its calls by extension point; None: it takes no part there."""

    name: str
    permit: PermitCall | None = None
    pre_bind: PreBindCall | None = None
    bind: BindCall | None = None
    post_bind: PostBindCall | None = None
    #: Whether its PreBind has work to do: CODE_SUCCESS or CODE_SKIP. Writes nothing.
    pre_bind_pre_flight: PreBindPreFlightCall = always_has_work
    #: Its PreBind writes to the API server through this phase's client.
    writes: bool = False


@dataclass(frozen=True, slots=True)
class BindContext:
    """What a plugin is made from in the bind phase.

    `args` are its arguments as JSON has them, by profile; `features` the gates that are set. `wall` answers nanoseconds
    since 1970, for the times that are written.
    """

    args: Mapping[str, Mapping[str, Any]]
    features: Mapping[str, bool]
    writer: ApiWriter
    binder: PodBinder
    wall: Callable[[], int]


#: (writer, pod, the plugin's own state from Reserve) -> the write that failed. Gives back what PreBind wrote for the
#: pod; None: all of it was. Raises: ValueError where the state is not the plugin's.
#: Implementers: trireme.plugins.dynamic_resources.unreserve.unreserve.
UnreserveCall = Callable[[ApiWriter, PodName, bytes], Awaitable[Outcome | None]]


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What a plugin carries out an action with.

    `begin_round` is called before each round of reading and writing: a new leader waits until the round can have no
    effect any more. Raises: TenureOver.
    """

    writer: ApiWriter
    begin_round: Callable[[], None]


class TenureOver(Exception):
    """The leader that wanted an action is not in office any more: nothing more is begun. The text says why."""


#: Carries out one action of a kind; one that is done already is a success.
#: Implementers: trireme.plugins.dynamic_resources.claim_actions.deallocate,
#: trireme.plugins.dynamic_resources.claim_actions.remove_user.
ActionCall = Callable[[bind_pb2.Action, ActionContext], Awaitable[Outcome]]
