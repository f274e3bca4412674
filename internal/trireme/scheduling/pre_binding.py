"""PreBind of one placed pod: repeated until it is done, fails, or its time is over.

Bind does the work and answers which objects it waits for; the frontend watches these. Before the work begins the pod's
status names the node that the pod is expected on, so that others know that this room is taken. Pods that come to the
same step at the same time share a call; where more wait than are sent at once, the most important are first.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from google.protobuf import duration_pb2

from trireme.cache import object_waits
from trireme.framework import status
from trireme.scheduling import call_batches, calls_to_bind, ports
from trireme.v1 import bind_pb2, cycle_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import golang

log = logging.getLogger(__name__)

# PreBind runs again after so long even if no change was seen: a plugin may read objects that are not watched.
LOOK_AGAIN_SECONDS = 10.0

# Pods of one profile in calls under way. Bind does not begin more than its rate limit lets through, so the bound is one
# of memory; a remote plugin may take its time for each, and its profile's other pods wait.
MAX_UNDER_WAY = 1000

POD = "pod"

Result = TypeVar("Result")

_PASSED = (status.Code.SUCCESS, status.Code.SKIP)


class _CallsByProfile(Generic[Result]):
    """Calls to bind for pods: those of one profile share calls, and wait for no other profile's plugins."""

    def __init__(self, send: call_batches.SendBatch[ports.PreBindItem, Result]) -> None:
        self._send = send
        self._batches: dict[str, call_batches.CallBatches[ports.PreBindItem, Result]] = {}

    async def execute(self, item: ports.PreBindItem, rank: call_batches.Rank) -> Result:
        """The item's result; those of the lowest rank are sent first."""
        batches = self._batches.get(item.cycle.profile)
        if batches is None:
            batches = self._batches[item.cycle.profile] = call_batches.CallBatches(
                self._send, MAX_UNDER_WAY, calls_to_bind.MAX_CALLS_OF_PROFILE
            )
        (result,) = await batches.execute([item], rank)
        return result

    async def close(self) -> None:
        """Cancel the calls under way."""
        for batches in self._batches.values():
            await batches.close()


class PreBindWait(NamedTuple):
    """What a PreBind waits for: the objects, as kind and name, and the plugin's message."""

    plugin: str
    objects: Sequence[str]
    message: str


class PreBinding:
    """Has bind run PreBindPreFlight and PreBind, and waits for the objects that PreBind needs changed.

    `nominating`: before a PreBind that has work to do the pod's status names the node.
    """

    def __init__(
        self,
        binder: ports.Binder,
        waits: object_waits.ObjectWaits,
        clock: Callable[[], float],
        nominating: bool,
    ) -> None:
        self._binder = binder
        self._waits = waits
        self._clock = clock
        self._nominating = nominating
        self._pre_flights = _CallsByProfile(self._send_pre_flights)
        self._calls = _CallsByProfile(self._send_pre_binds)
        self._actions = call_batches.CallBatches(binder.apply)
        # By the pod's UID: the replica that runs its PreBind, which goes on there after a pod was cancelled here.
        self._addresses: dict[str, str] = {}
        # By the pod's UID, while a plugin has it wait.
        self._awaited: dict[str, PreBindWait] = {}

    def wait_of(self, uid: str) -> "PreBindWait | None":
        """What PreBind of the pod waits for; None: it does not wait."""
        return self._awaited.get(uid)

    async def close(self) -> None:
        """Cancel the calls under way."""
        await self._pre_flights.close()
        await self._calls.close()
        await self._actions.close()

    async def has_work(
        self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem, rank: call_batches.Rank
    ) -> "bool | status.Status":
        """Whether PreBind has work to do for the pod; a status if that is not known."""
        result = await self._pre_flights.execute(ports.PreBindItem(cycle, item), rank)
        answer = wire_status.from_message(result)
        return answer.code is status.Code.SUCCESS if answer.code in _PASSED else answer

    async def write_nomination(self, item: bind_pb2.BindItem, rank: call_batches.Rank) -> bool:
        """Write the expected node into the pod's status; a failure is only logged. False: it is turned off."""
        if not self._nominating:
            return False
        action = bind_pb2.Action(pod=item.pod, nominate=bind_pb2.Nominate(node_name=item.node_name))
        for result in await self._actions.execute([action], rank):
            answer = wire_status.from_message(result.status)
            if answer.code is not status.Code.SUCCESS:
                log.info("nomination of pod %s/%s: %s", item.pod.namespace, item.pod.name, answer.message)
        return True

    async def undo_pre_bind(self, item: bind_pb2.BindItem) -> None:
        """Undo what PreBind wrote for a pod that is not bound after all.

        The replica that ran PreBind does that; if it still runs PreBind, it cancels that first.
        """
        action = bind_pb2.Action(pod=item.pod, undo_pre_bind=bind_pb2.UndoPreBind(state=item.state))
        for result in await self._binder.apply([action], address=self._addresses.pop(item.pod.uid, "")):
            answer = wire_status.from_message(result.status)
            if answer.code is not status.Code.SUCCESS:
                log.warning("release of pod %s/%s: %s", item.pod.namespace, item.pod.name, answer.message)

    async def run(
        self,
        cycle: cycle_pb2.Cycle,
        item: bind_pb2.BindItem,
        rank: call_batches.Rank,
        on_wait: Callable[[str, frozenset[object_waits.Key]], None],
    ) -> status.Status:
        """Run PreBind, again after each change that it waits for; SUCCESS once everything is done, else why not.

        The time-out of the first wait is that of all of them together; when it is over, the result is an error.
        `on_wait` is called once, with the plugin for which the pod waits, and the objects that it waits for.
        """
        ends, seconds = None, 0.0
        # Changes of the pod itself count too.
        own = (POD, item.pod.namespace, item.pod.name)
        with self._waits.record_changes() as recording:
            while True:
                recording.start_over()
                result = await self._calls.execute(ports.PreBindItem(cycle, item), rank)
                self._addresses.pop(item.pod.uid, None)
                answer = wire_status.from_message(result.status)
                if answer.code in _PASSED:
                    return status.SUCCESS
                if answer.code is not status.Code.WAIT:
                    return answer
                # Called again with the state that it answered, once an object that it waits for has changed.
                item.state = result.state or item.state
                keys = frozenset((key.kind, key.namespace, key.name) for key in result.wait_for)
                if ends is None:
                    # The first wait sets the time for all of them.
                    seconds = _in_seconds(result.timeout)
                    ends = self._clock() + seconds
                    on_wait(answer.plugin, keys)
                left = ends - self._clock()
                if left <= 0:
                    return status.error(answer.plugin, _text_of_expired_wait(answer, seconds, result.wait_for))
                message = "" if answer.message.startswith(_running(answer.plugin)) else answer.message
                self._awaited[item.pod.uid] = PreBindWait(answer.plugin, _texts_of_keys(result.wait_for), message)
                try:
                    # Changes since before the call count, so that none is missed between the answer and the wait.
                    async with asyncio.timeout(min(left, LOOK_AGAIN_SECONDS)):
                        await recording.wait_for_change({own, *keys})
                except TimeoutError:
                    continue
                finally:
                    del self._awaited[item.pod.uid]

    async def _send_pre_flights(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Send PreBindPreFlight for these items of one profile."""
        await self._binder.pre_bind_pre_flight(items, on_result)

    async def _send_pre_binds(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
    ) -> None:
        """Send PreBind for these items of one profile; remembers which replica runs it, for `undo_pre_bind`."""

        def remember_address(index: int, address: str) -> None:
            # Without a state nothing is written that would have to be released.
            if items[index].item.state:
                self._addresses[items[index].item.pod.uid] = address

        await self._binder.pre_bind(items, on_result, remember_address)


def _text_of_expired_wait(answer: status.Status, seconds: float, wait_for: Sequence[snapshot_pb2.ObjectKey]) -> str:
    """Why a pod fails whose wait is over; in-tree plugins answer the whole text, in kube-scheduler's words."""
    running = _running(answer.plugin)
    if answer.message.startswith(running):
        return answer.message
    objects = ", ".join(_texts_of_keys(wait_for))
    detail = f": {answer.message}" if answer.message else ""
    return f"{running}timed out after {golang.format_duration(round(seconds * 1e9))} waiting for {objects}{detail}"


def _running(plugin: str) -> str:
    """How kube-scheduler's messages of a PreBind plugin begin."""
    return f'running PreBind plugin "{plugin}": '


def _texts_of_keys(keys: Sequence[snapshot_pb2.ObjectKey]) -> list[str]:
    """Kind, namespace and name of each of the objects."""
    return [f"{key.kind} {f'{key.namespace}/' if key.namespace else ''}{key.name}" for key in keys]


def _in_seconds(timeout: duration_pb2.Duration) -> float:
    """The duration in seconds."""
    return timeout.seconds + timeout.nanos / 1e9
