"""PreBind of one placed pod: repeated until it is done, fails, or its time is over.

Bind does the work and answers which objects it waits for; the frontend watches these. Before the work begins the pod's
status names the node that the pod is expected on, so that others know that this room is taken. Pods that come to the
same step at the same time share a call; where more wait than are sent at once, the most important are first.

Tests: tests/unit/scheduling/test_waits.py.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Generic, NamedTuple, TypeVar

from google.protobuf import duration_pb2

from trireme.cache import object_waits
from trireme.framework import status
from trireme.scheduling import bind_limits, item_batches, ports
from trireme.v1 import bind_pb2, cycle_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import golang

log = logging.getLogger(__name__)

# PreBind runs again after so long even if no change was seen: a plugin may read objects that are not watched.
LOOK_AGAIN_SECONDS = 10.0

# How soon it is tried again whether a plugin that the pod waits for, and that is not called for now, can be called.
NOT_CALLED_SECONDS = 1.0

# Pods of one profile in calls under way. Bind does not begin more than its rate limit lets through, so the bound is one
# of memory; a remote plugin may take its time for each, and its profile's other pods wait.
MAX_UNDER_WAY = 1000

# Kinds of what every wait depends on, beside the objects that its plugin names.
POD = "pod"
NODE = "node"
_CSI_NODE = "csi_node"

Result = TypeVar("Result")

_PASSED = (status.Code.SUCCESS, status.Code.SKIP)


class _CallsByProfile(Generic[Result]):
    """Calls to bind for pods: those of one profile share calls, and wait for no other profile's plugins."""

    def __init__(self, send: item_batches.SendBatch[ports.PreBindItem, Result]) -> None:
        self._send = send
        self._batches: dict[str, item_batches.ItemBatches[ports.PreBindItem, Result]] = {}

    async def execute(self, item: ports.PreBindItem, rank: item_batches.Rank) -> Result:
        """The item's result; those of the lowest rank are sent first."""
        batches = self._batches.get(item.cycle.profile)
        if batches is None:
            batches = self._batches[item.cycle.profile] = item_batches.ItemBatches(
                self._send, MAX_UNDER_WAY, bind_limits.MAX_CALLS_OF_PROFILE
            )
        (result,) = await batches.execute([item], rank)
        return result

    async def close(self) -> None:
        """Cancel the calls under way."""
        for batches in self._batches.values():
            await batches.close()


class PreBindWait(NamedTuple):
    """What a PreBind waits for: the objects, as kind and name, and the plugin's message.

    After `seconds_left` it ends at the latest.
    """

    plugin: str
    objects: Sequence[str]
    message: str
    seconds_left: float


class _Wait:
    """The wait of one pod in PreBind: since its plugin's first answer, for objects that each answer names anew."""

    def __init__(self, answer: status.Status, result: bind_pb2.PreBindResult, now: float) -> None:
        # The first wait sets the time for all of them.
        self.seconds = _in_seconds(result.timeout)
        self.ends = now + self.seconds
        self.answer, self.not_called, self.wait_for = answer, "", result.wait_for

    def goes_on(self, answer: status.Status) -> bool:
        """Whether the pod waits on though its plugin was not called, because calls about other pods have failed."""
        return status.NOT_CALLED in answer.reasons and answer.plugin == self.answer.plugin

    def update(self, answer: status.Status, result: bind_pb2.PreBindResult) -> None:
        """Take the answer to another call, or why it was not made."""
        if answer.code is status.Code.WAIT:
            self.answer, self.not_called, self.wait_for = answer, "", result.wait_for
        else:
            self.not_called = answer.message.removeprefix(running_text(answer.plugin))

    @property
    def keys(self) -> frozenset[object_waits.Key]:
        """The objects that the pod waits for."""
        return frozenset((key.kind, key.namespace, key.name) for key in self.wait_for)

    def shown(self, now: float) -> PreBindWait:
        """What is shown of it at this time."""
        message = self.answer.message
        parts = ["" if message.startswith(running_text(self.answer.plugin)) else message, self.not_called]
        return PreBindWait(
            self.answer.plugin, _texts_of_keys(self.wait_for), "; ".join(filter(None, parts)), max(0.0, self.ends - now)
        )

    def expired(self) -> status.Status:
        """The error of a pod whose time is over; in-tree plugins answer the whole text, in kube-scheduler's words."""
        plugin, running = self.answer.plugin, running_text(self.answer.plugin)
        waited = golang.format_duration(round(self.seconds * 1e9))
        reasons = (status.Reason.of("preBindTimedOut", {"after": waited}),)
        if self.answer.message.startswith(running):
            return status.error(plugin, self.answer.message, reasons=reasons)
        shown = self.shown(self.ends)
        detail = f": {shown.message}" if shown.message else ""
        text = f"{running}timed out after {waited} waiting for {', '.join(shown.objects)}{detail}"
        return status.error(plugin, text, reasons=reasons)


class PreBinding:
    """Has bind run PreBindPreFlight and PreBind, and waits for the objects that PreBind needs changed.

    `nominating`: before a PreBind that has work to do the pod's status names the node. `remote`: the profiles with
    remote plugins at PreBind; `until_published` waits until these can know what has changed, and returns that
    generation.
    """

    def __init__(
        self,
        binder: ports.Binder,
        waits: object_waits.ObjectWaits,
        clock: Callable[[], float],
        nominating: bool,
        remote: Set[str] = frozenset(),
        until_published: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._binder = binder
        self._remote = remote
        self._until_published = until_published
        self._waits = waits
        self._clock = clock
        self._nominating = nominating
        self._pre_flights = _CallsByProfile(self._send_pre_flights)
        self._calls = _CallsByProfile(self._send_pre_binds)
        self._actions = item_batches.ItemBatches(binder.apply)
        # By the pod's UID: the replica that runs its PreBind, which goes on there after a pod was cancelled here.
        self._addresses: dict[str, str] = {}
        # By the pod's UID, while a plugin has it wait.
        self._awaited: dict[str, _Wait] = {}

    def wait_of(self, uid: str) -> "PreBindWait | None":
        """What PreBind of the pod waits for; None: it does not wait."""
        wait = self._awaited.get(uid)
        return None if wait is None else wait.shown(self._clock())

    async def close(self) -> None:
        """Cancel the calls under way."""
        await self._pre_flights.close()
        await self._calls.close()
        await self._actions.close()

    async def has_work(
        self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem, rank: item_batches.Rank
    ) -> "bool | status.Status":
        """Whether PreBind has work to do for the pod; a status if that is not known."""
        result = await self._pre_flights.execute(ports.PreBindItem(cycle, item), rank)
        answer = wire_status.from_message(result)
        return answer.code is status.Code.SUCCESS if answer.code in _PASSED else answer

    async def write_nomination(self, item: bind_pb2.BindItem, rank: item_batches.Rank) -> bool:
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
                text = (
                    "what PreBind did for pod %s/%s is not undone: %s; it stays until the pod is scheduled or deleted"
                )
                log.warning(text, item.pod.namespace, item.pod.name, answer.message)

    async def run(
        self,
        cycle: cycle_pb2.Cycle,
        item: bind_pb2.BindItem,
        rank: item_batches.Rank,
        on_wait: Callable[[str, frozenset[object_waits.Key]], None],
        has_node: Callable[[str], bool],
    ) -> status.Status:
        """Run PreBind, again after each change that it waits for; SUCCESS once everything is done, else why not.

        The time-out of the first wait is that of all of them together; when it is over, the result is an error.
        `on_wait` is called once, with the plugin for which the pod waits, and the objects that it waits for. If the
        node is gone (`has_node`), the plugin is called again, for its own words; if it would wait on, the result
        is an error.
        """
        wait: _Wait | None = None
        node_gone = False
        # Changes of the pod itself and of its node count too.
        own = {
            (POD, item.pod.namespace, item.pod.name),
            (NODE, "", item.node_name),
            (_CSI_NODE, "", item.node_name),
        }
        with self._waits.record_changes() as recording:
            while True:
                recording.start_over()
                if wait is not None:
                    cycle = await self._with_present_generation(cycle)
                call = ports.PreBindItem(cycle, item)
                try:
                    result = await self._calls.execute(call, rank)
                except asyncio.CancelledError:
                    # Else a call that has to be repeated prepares the pod after that was undone.
                    call.cancelled = True
                    raise
                self._addresses.pop(item.pod.uid, None)
                answer = wire_status.from_message(result.status)
                if answer.code in _PASSED:
                    return status.SUCCESS
                if answer.code is not status.Code.WAIT and not (wait and wait.goes_on(answer)):
                    return answer
                # Called again with the state that it answered, once an object that it waits for has changed.
                item.state = result.state or item.state
                if wait is None:
                    wait = _Wait(answer, result, self._clock())
                    on_wait(answer.plugin, wait.keys)
                wait.update(answer, result)
                if node_gone:
                    text = f'{running_text(answer.plugin)}node "{item.node_name}" not found'
                    gone = status.Reason.of("nodeGone", {"node": item.node_name})
                    return status.error(answer.plugin, text, reasons=(gone,))
                if wait.ends <= self._clock():
                    return wait.expired()
                if node_gone := not has_node(item.node_name):
                    continue
                self._awaited[item.pod.uid] = wait
                try:
                    await self._wait_for_change(wait, recording, own)
                finally:
                    del self._awaited[item.pod.uid]
                node_gone = not has_node(item.node_name)

    async def _wait_for_change(
        self, wait: _Wait, recording: object_waits.Recording, own: Set[object_waits.Key]
    ) -> None:
        """Return once the pod's PreBind is to be called again: after a change, or after some time without one."""
        left = wait.ends - self._clock()
        if wait.not_called:
            # The change for which the plugin is to be called may have been seen already.
            await asyncio.sleep(min(left, NOT_CALLED_SECONDS))
            return
        with contextlib.suppress(TimeoutError):
            # Changes since before the call count, so that none is missed between the answer and the wait.
            async with asyncio.timeout(min(left, LOOK_AGAIN_SECONDS)):
                await recording.wait_for_change(own | wait.keys)

    async def _with_present_generation(self, cycle: cycle_pb2.Cycle) -> cycle_pb2.Cycle:
        """The cycle for another call: of the generation that has the change for which the pod waited.

        A remote plugin that follows the cluster would else answer by an older one.
        """
        if self._until_published is None or cycle.profile not in self._remote:
            return cycle
        present = cycle_pb2.Cycle()
        present.CopyFrom(cycle)
        present.generation = await self._until_published()
        return present

    async def _send_pre_flights(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
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


def running_text(plugin: str) -> str:
    """How kube-scheduler's messages of a PreBind plugin begin."""
    return f'running PreBind plugin "{plugin}": '


def _texts_of_keys(keys: Sequence[snapshot_pb2.ObjectKey]) -> list[str]:
    return [f"{key.kind} {f'{key.namespace}/' if key.namespace else ''}{key.name}" for key in keys]


def _in_seconds(timeout: duration_pb2.Duration) -> float:
    return timeout.seconds + timeout.nanos / 1e9
