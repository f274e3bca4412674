"""PreBind of one placed pod: asked until it is done, fails, or its time is over.

Bind does the work and says what it waits for; we watch. That some of it is going on is told beforehand: the pod's
status names the node that it is expected on, for others who look for room there meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable

from google.protobuf import duration_pb2
from grpc import aio

from trireme.framework import status
from trireme.frontend.cluster import object_waits
from trireme.frontend.replicas import bind_replicas
from trireme.v1 import bind_pb2, cycle_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

# A replica that cannot be asked is not the pod's fault: the next one is asked, so often and after such a pause.
TRIES = 5
PAUSE_SECONDS = 0.5

# Objects are asked about again after so long even where no change was seen: what a plugin reads is not all watched.
LOOK_AGAIN_SECONDS = 10.0

POD = "pod"

_PASSED = (status.Code.SUCCESS, status.Code.SKIP)


class PreBinding:
    """Asks bind. `nominating`: pods are told of before a PreBind that has work to do."""

    def __init__(
        self,
        binders: bind_replicas.BindReplicas,
        waits: object_waits.ObjectWaits,
        clock: Callable[[], float],
        nominating: bool,
    ) -> None:
        self._binders = binders
        self._waits = waits
        self._clock = clock
        self._nominating = nominating

    async def has_work(self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem) -> "bool | status.Status":
        """Whether PreBind will do something for the pod; a status where that cannot be told."""
        said = await self._ask(cycle, item, preflight=True)
        answer = wire_status.from_message(said.status)
        return answer.code is status.Code.SUCCESS if answer.code in _PASSED else answer

    async def nominate(self, item: bind_pb2.BindItem) -> bool:
        """Write into the pod's status where it is expected; binding goes on where that fails. Whether it was tried."""
        if not self._nominating:
            return False
        action = bind_pb2.Action(pod=item.pod, nominate=bind_pb2.Nominate(node_name=item.node_name))
        for result in await self._binders.apply([action]):
            said = wire_status.from_message(result.status)
            if said.code is not status.Code.SUCCESS:
                log.info("nomination of pod %s/%s: %s", item.pod.namespace, item.pod.name, said.message)
        return True

    async def release(self, item: bind_pb2.BindItem) -> None:
        """Have given back what PreBind wrote for a pod that is not bound after all."""
        action = bind_pb2.Action(pod=item.pod, release=bind_pb2.Release(state=item.state))
        for result in await self._binders.apply([action]):
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
        with self._waits.interested():
            while True:
                asked_at = self._waits.now()
                result = await self._ask(cycle, item)
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
                        await self._waits.changed({own, *keys}, asked_at)
                except TimeoutError:
                    continue

    async def _ask(
        self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem, preflight: bool = False
    ) -> bind_pb2.PreBindResult:
        request = bind_pb2.PreBindRequest(cycle=cycle, items=[item], preflight=preflight)
        text = ""
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(PAUSE_SECONDS)
            try:
                response = await self._binders.pre_bind(request)
                if response.results:
                    return response.results[0]
                text = "running PreBind plugins: bind answered nothing about the pod"
            except aio.AioRpcError as error:
                text = f"running PreBind plugins: {error.code().name}: {error.details()}"
        return bind_pb2.PreBindResult(status=wire_status.to_message(status.error("", text)))


def _seconds(timeout: duration_pb2.Duration) -> float:
    return timeout.seconds + timeout.nanos / 1e9
