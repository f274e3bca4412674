"""PreBind of one placed pod: repeated until it is done, fails, or its time is over.

Bind does the work and says what it waits for; we watch. Before the work begins the pod's status names the node that it
is expected on, for others who look for room there meanwhile. Pods that come to the same step at the same time share a
call.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from google.protobuf import duration_pb2

from trireme.cache import object_waits
from trireme.framework import status
from trireme.scheduling import call_batches, ports
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

# Objects are asked about again after so long even where no change was seen: what a plugin reads is not all watched.
LOOK_AGAIN_SECONDS = 10.0

# Pods in calls under way. Bind does not begin more than its rate limit lets through, so the bound is one of memory; a
# remote plugin may take its time for each.
MAX_UNDER_WAY = 1000

POD = "pod"

_PASSED = (status.Code.SUCCESS, status.Code.SKIP)


class PreBinding:
    """Has bind prepare pods. `nominating`: before a PreBind that has work to do the pod's status names the node."""

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
        self._calls = call_batches.CallBatches(self._send, MAX_UNDER_WAY)
        self._actions = call_batches.CallBatches(binder.apply)
        # By the pod's UID: the replica that runs its PreBind, which goes on there after a pod was cancelled here.
        self._addresses: dict[str, str] = {}

    async def close(self) -> None:
        """Give up the calls under way."""
        await self._calls.close()
        await self._actions.close()

    async def has_work(self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem) -> "bool | status.Status":
        """Whether PreBind will do something for the pod; a status where that cannot be told."""
        said = await self._call(cycle, item, preflight=True)
        answer = wire_status.from_message(said.status)
        return answer.code is status.Code.SUCCESS if answer.code in _PASSED else answer

    async def nominate(self, item: bind_pb2.BindItem) -> bool:
        """Write into the pod's status where it is expected; binding goes on where that fails. Whether it was tried."""
        if not self._nominating:
            return False
        action = bind_pb2.Action(pod=item.pod, nominate=bind_pb2.Nominate(node_name=item.node_name))
        for result in await self._actions.execute([action]):
            said = wire_status.from_message(result.status)
            if said.code is not status.Code.SUCCESS:
                log.info("nomination of pod %s/%s: %s", item.pod.namespace, item.pod.name, said.message)
        return True

    async def release(self, item: bind_pb2.BindItem) -> None:
        """Have given back what PreBind wrote for a pod that is not bound after all. The replica that ran PreBind does
        it: one that still runs it ends that first.
        """
        action = bind_pb2.Action(pod=item.pod, release=bind_pb2.Release(state=item.state))
        for result in await self._binder.apply([action], address=self._addresses.pop(item.pod.uid, "")):
            said = wire_status.from_message(result.status)
            if said.code is not status.Code.SUCCESS:
                log.warning("release of pod %s/%s: %s", item.pod.namespace, item.pod.name, said.message)

    async def run(
        self,
        cycle: cycle_pb2.Cycle,
        item: bind_pb2.BindItem,
        on_wait: Callable[[str, frozenset[object_waits.Key]], None],
    ) -> status.Status:
        """SUCCESS once everything is done; else why not. `on_wait` hears once which plugin has the pod wait, and for
        which objects.
        """
        ends: float | None = None
        # What happens to the pod itself matters too.
        own = (POD, item.pod.namespace, item.pod.name)
        with self._waits.recording():
            while True:
                started = self._waits.now()
                result = await self._call(cycle, item)
                self._addresses.pop(item.pod.uid, None)
                said = wire_status.from_message(result.status)
                if said.code in _PASSED:
                    return status.SUCCESS
                if said.code is not status.Code.WAIT:
                    return said
                item.state = result.state or item.state
                keys = frozenset((key.kind, key.namespace, key.name) for key in result.wait_for)
                if ends is None:
                    ends = self._clock() + _seconds(result.timeout)
                    on_wait(said.plugin, keys)
                left = ends - self._clock()
                if left <= 0:
                    text = said.message or f'running PreBind plugin "{said.plugin}": timed out'
                    return status.error(said.plugin, text)
                try:
                    async with asyncio.timeout(min(left, LOOK_AGAIN_SECONDS)):
                        await self._waits.wait_for_change({own, *keys}, started)
                except TimeoutError:
                    continue

    async def _call(
        self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem, preflight: bool = False
    ) -> bind_pb2.PreBindResult:
        return (await self._calls.execute([ports.PreBindItem(cycle, item, preflight)]))[0]

    async def _send(
        self,
        items: Sequence[ports.PreBindItem],
        tell: Callable[[int, bind_pb2.PreBindResult], None],
    ) -> None:
        def started(index: int, address: str) -> None:
            # Without a state nothing is written that would have to be released.
            if items[index].item.state and not items[index].preflight:
                self._addresses[items[index].item.pod.uid] = address

        await self._binder.pre_bind(items, tell, started)


def _seconds(timeout: duration_pb2.Duration) -> float:
    return timeout.seconds + timeout.nanos / 1e9
