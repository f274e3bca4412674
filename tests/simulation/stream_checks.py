"""What must hold of a leader's stream: each delta fits, and a replica answers by the snapshot that this leader sent.

A replica gets all that there is anew where a delta does not fit, so that nothing but time is lost.
"""

from __future__ import annotations

import weakref
from typing import Any

from tests.simulation import simulated_process
from trireme.rpc import follower as snapshot_follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2


class StreamChecks:
    """Observes the snapshot streams and calls of all replicas. `violations` are in the order in which they happened."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        # The epoch of the leader whose stream it is, and of the one whose full sync a replica applied last.
        self._epoch_of_stream: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._epoch_of_snapshot: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._observe()
        self._observe_deltas()

    def _observe(self) -> None:
        owner: Any = snapshot_follower.Follower
        accept, apply, wait = owner._accept_stream, owner._apply_request, owner.wait_until_synced

        async def accept_stream(follower: Any, hello: snapshot_pb2.Hello, stream: Any) -> None:
            await accept(follower, hello, stream)
            self._epoch_of_stream[stream] = hello.fence.epoch

        async def apply_request(follower: Any, request: snapshot_pb2.SyncRequest, stream: Any) -> None:
            await apply(follower, request, stream)
            if request.delta.reset:
                self._epoch_of_snapshot[follower] = self._epoch_of_stream[stream]

        async def wait_until_synced(follower: Any, cycle: cycle_pb2.Cycle, context: Any) -> None:
            await wait(follower, cycle, context)
            self._on_answer(self._epoch_of_snapshot.get(follower), cycle.fence.epoch)

        owner._accept_stream, owner._apply_request = accept_stream, apply_request
        owner.wait_until_synced = wait_until_synced

    def _observe_deltas(self) -> None:
        owner: Any = snapshot.Snapshot
        apply = owner.apply

        def observed(snap: Any, delta: snapshot_pb2.Delta) -> None:
            try:
                apply(snap, delta)
            except snapshot.OutOfStepError as error:
                process = simulated_process.current()
                self.violations.append(f"{'' if process is None else process.name} gets a wrong delta: {error}")
                raise

        owner.apply = observed

    def _on_answer(self, sent: int | None, called: int) -> None:
        if sent != called:
            process = simulated_process.current()
            name = "" if process is None else process.name
            self.violations.append(f"{name} answers the leader of epoch {called} by the snapshot of epoch {sent}")
