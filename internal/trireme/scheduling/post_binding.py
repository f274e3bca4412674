"""PostBind of bound pods, beside the binding of others: a notification, whose failure changes nothing.

Pods of a class that are bound while a call is under way share the next one.

Tests: tests/unit/scheduling/test_post_binding.py, tests/unit/scheduling/test_binding_cycle.py.
"""

import logging
from collections.abc import Callable, Coroutine, Set
from typing import Any

from trireme.framework import status
from trireme.scheduling import bind_limits, ports
from trireme.v1 import bind_pb2, cycle_pb2

log = logging.getLogger(__name__)


class PostBinding:
    """Has bind call the PostBind plugins of `profiles`; other profiles have none."""

    def __init__(
        self,
        binder: ports.Binder,
        observer: ports.Observer,
        profiles: Set[str],
        start: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`start` starts a task."""
        self._binder = binder
        self._observer = observer
        self._profiles = profiles
        self._start = start
        # By profile and class, while a call is under way: the pods of the next one.
        self._pending: dict[tuple[str, int], list[bind_pb2.BindItem]] = {}
        self._turns = bind_limits.CallTurns()

    def on_bound(self, cycle: cycle_pb2.Cycle, item: bind_pb2.BindItem) -> None:
        """The pod is bound: have the plugins notified."""
        if cycle.profile not in self._profiles:
            self._observer.record_skipped_extension_points(("PostBind",), status.Code.SUCCESS, cycle.profile, 1)
            return
        key = (cycle.profile, cycle.pod_class)
        pending = self._pending.get(key)
        if pending is None:
            self._pending[key] = [item]
            self._start(self._call_post_bind(key, cycle))
        else:
            pending.append(item)

    async def _call_post_bind(self, key: tuple[str, int], cycle: cycle_pb2.Cycle) -> None:
        """Call PostBind for pods of this profile and class until none is left; those bound meanwhile share a call.

        A failed call is logged and not repeated: the pods are bound.
        """
        try:
            while self._pending[key]:
                async with self._turns.turn_for(cycle.profile):
                    items, self._pending[key] = self._pending[key], []
                    started = self._observer.clock()
                    try:
                        await self._binder.post_bind(bind_pb2.PostBindRequest(cycle=cycle, items=items))
                    except ports.PhaseFault as error:
                        log.info("PostBind of %d pods: %s", len(items), error)
                    seconds = self._observer.clock() - started
                self._observer.on_extension_point_run(
                    "PostBind", status.Code.SUCCESS, cycle.profile, seconds, len(items)
                )
        finally:
            del self._pending[key]
