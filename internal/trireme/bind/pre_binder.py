"""PreBindPreFlight and PreBind of many pods: one job a pod, so that each result is sent as it is known.

Invariants: of one pod there is one job under way; another one begins when all earlier ones have ended, also those whose
callers are gone. A job ends with the call that wants it, and all of a pod's jobs before anything that they wrote is
released (`cancel`). Each plugin that writes takes a turn
(`write_turns`) and begins only while the calling leader is in office, so jobs wait here for the rate limit rather
than in the client, where they would reach their deadlines.

Also change: internal/trireme/bind/action_executor.py, internal/trireme/bind/binding_writer.py (limits of waiting work).

Tests: tests/contract/test_bind_service.py, tests/unit/bind/test_waiting_for_rate_limit.py.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trireme.bind import binding_retries, profile_plugins
from trireme.bind.call_results import CallResults, check_not_busy
from trireme.bind.work_in_flight import WorkInFlight
from trireme.bind.write_turns import WriteTurns
from trireme.framework import status
from trireme.rpc.fencing import Tenure
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2
from trireme.wire.status import to_message

log = logging.getLogger(__name__)


class _NotBegun(Exception):
    """The calling leader's tenure ended before a plugin was called."""


@dataclass(frozen=True, slots=True)
class PodsOfClass:
    """Items of one class, the plugins of its profile, and until when work may begin for the calling leader."""

    plugins: profile_plugins.ProfilePlugins
    cycle: cycle_pb2.Cycle
    items: Sequence[bind_pb2.BindItem]
    tenure: Tenure


Result = TypeVar("Result", bind_pb2.PreBindResult, status_pb2.Status)


@dataclass(frozen=True, slots=True)
class _Step(Generic[Result]):
    """PreBindPreFlight or PreBind, as a job runs it. `running` begins error texts, before the plugin's name."""

    name: str
    running: str
    call: Callable[[PodsOfClass, bind_pb2.BindItem, profile_plugins.PluginCallContext], Awaitable[Result]]
    failed: Callable[[str, str, tuple[status.Reason, ...]], Result]


class PreBinder:
    """Runs PreBindPreFlight and PreBind of pods; the steps of one pod go one after the other."""

    def __init__(self, turns: WriteTurns, in_flight: WorkInFlight, clock: Callable[[], float]) -> None:
        self._turns = turns
        self._in_flight = in_flight
        self._clock = clock
        # By the pod's UID: its jobs that have not ended, in the order of their calls; only the first can be under way.
        self._jobs: dict[str, list[asyncio.Task[Any]]] = {}

    def run(
        self, classes: Sequence[PodsOfClass], timeout: float
    ) -> AsyncGenerator[list[tuple[int, bind_pb2.PreBindResult]], None]:
        """Runs PreBind for all items, and yields results as they are known, by index over all classes.

        `timeout`: seconds that each plugin may take over one pod, without the wait for a turn.

        Raises:
            BusyError: too many jobs wait already.
        """
        return self._run_step(_PRE_BIND, classes, timeout)

    def run_pre_flight(
        self, classes: Sequence[PodsOfClass], timeout: float
    ) -> AsyncGenerator[list[tuple[int, status_pb2.Status]], None]:
        """Run PreBindPreFlight for all items; yields results as `run` does, but waits for no turn to write."""
        return self._run_step(_PRE_FLIGHT, classes, timeout)

    async def _run_step(
        self, step: _Step[Result], classes: Sequence[PodsOfClass], timeout: float
    ) -> AsyncGenerator[list[tuple[int, Result]], None]:
        """Run a step for each pod, concurrently, and yield the results by index. Raises: BusyError.

        If the caller goes away, the steps are cancelled.
        """
        check_not_busy(len(self._jobs), "{} pods are in PreBind")
        results: CallResults[Result] = CallResults()
        tasks: list[asyncio.Task[Result]] = []
        for pods in classes:
            for item in pods.items:
                tasks.append(self._start_job(step, pods, item, len(tasks), results, timeout))
        try:
            async for batch in results.batches(len(tasks)):
                yield batch
        finally:
            for task in tasks:
                task.cancel()

    async def cancel(self, uid: str) -> None:
        """Ends the pod's jobs, those that come meanwhile too; returns when all have ended."""
        while jobs := self._jobs.get(uid):
            for task in jobs:
                task.cancel()
            await asyncio.wait(tuple(jobs))

    def _start_job(
        self,
        step: _Step[Result],
        pods: PodsOfClass,
        item: bind_pb2.BindItem,
        index: int,
        results: CallResults[Result],
        timeout: float,
    ) -> asyncio.Task[Result]:
        """Start a step for one pod, after its jobs that are under way. `results` gets the result, however it ends."""
        uid = item.pod.uid
        jobs = self._jobs.setdefault(uid, [])
        before = tuple(jobs)

        async def run_after_earlier_jobs() -> Result:
            if before:
                await asyncio.wait(before)
            return await self._execute_job(step, pods, item, timeout)

        def on_job_ended(task: asyncio.Task[Result]) -> None:
            jobs.remove(task)
            if not jobs:
                del self._jobs[uid]
            if task.cancelled():
                results.put(index, step.failed("", f"{step.name} was interrupted", ()))
            elif (error := task.exception()) is not None:
                text = "%s of pod %s/%s failed; the pod is scheduled again, report this defect"
                log.error(text, step.name, item.pod.namespace, item.pod.name, exc_info=error)
                results.put(index, step.failed("", f"internal error: {error!r}", ()))
            else:
                results.put(index, task.result())

        task = asyncio.get_running_loop().create_task(run_after_earlier_jobs())
        jobs.append(task)
        task.add_done_callback(on_job_ended)
        return task

    async def _execute_job(
        self, step: _Step[Result], pods: PodsOfClass, item: bind_pb2.BindItem, timeout: float
    ) -> Result:
        """Run the plugins of one step for one pod; each call of a plugin may take `timeout` seconds.

        A plugin that writes waits for its turn if the pod has state for it, and does not begin once the caller's tenure
        is over. Both that and a time-out are results that name the plugin, not exceptions.
        """
        states = bind_phase_pb2.PluginStates.FromString(item.state).plugin_states
        running = ""

        @asynccontextmanager
        async def call_context(plugin: str, writes: bool) -> AsyncIterator[None]:
            nonlocal running
            running = plugin
            async with self._turns if writes and plugin in states else nullcontext():
                if not pods.tenure.active:
                    raise _NotBegun(pods.tenure.ended_because)
                until = self._clock() + timeout + binding_retries.SETTLE_SECONDS
                with self._in_flight.track(pods.tenure.leader, until, binding_retries.SETTLE_SECONDS):
                    async with asyncio.timeout(timeout):
                        yield

        try:
            return await step.call(pods, item, call_context)
        except _NotBegun as why:
            text = f'{step.running} "{running}": not begun: {why}'
            return step.failed(running, text, (status.Reason("notBegun"),))
        except TimeoutError:
            text = f'{step.running} "{running}": context deadline exceeded'
            return step.failed(running, text, (status.Reason("deadlineExceeded"),))


async def _pre_bind(
    pods: PodsOfClass, item: bind_pb2.BindItem, call_context: profile_plugins.PluginCallContext
) -> bind_pb2.PreBindResult:
    """Run PreBind of all plugins for one pod; `call_context` is entered around each plugin's call."""
    request = bind_pb2.PreBindRequest(cycle=pods.cycle, items=[item])
    return (await profile_plugins.pre_bind(pods.plugins, request, call_context)).results[0]


async def _pre_flight(
    pods: PodsOfClass, item: bind_pb2.BindItem, call_context: profile_plugins.PluginCallContext
) -> status_pb2.Status:
    """Run PreBindPreFlight of all plugins for one pod; `call_context` is entered around each plugin's call."""
    request = bind_pb2.PreBindPreFlightRequest(cycle=pods.cycle, items=[item])
    return (await profile_plugins.pre_bind_pre_flight(pods.plugins, request, call_context)).statuses[0]


def _failed_status(plugin: str, text: str, reasons: tuple[status.Reason, ...]) -> status_pb2.Status:
    return to_message(status.error(plugin, text, reasons=reasons))


def _failed_result(plugin: str, text: str, reasons: tuple[status.Reason, ...]) -> bind_pb2.PreBindResult:
    return bind_pb2.PreBindResult(status=_failed_status(plugin, text, reasons))


_PRE_BIND = _Step("PreBind", "running PreBind plugin", _pre_bind, _failed_result)
_PRE_FLIGHT = _Step("PreBindPreFlight", "running PreBindPreFlight", _pre_flight, _failed_status)
