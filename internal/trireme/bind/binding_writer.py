"""Writes bindings to the API server, many concurrently and each at most once at a time.

I/O around `trireme.bind.binding_retries`. Invariants: a pod never has more than one binding under way (a second call
for the same node joins it and gets the same outcome, one for another node is refused); a POST begins only while the
tenure of the calling leader is active and a caller still waits for the outcome; and a binding that has begun is carried
to its outcome even if its caller goes away, so that a repeated call finds it.

A job costs a dict entry and a turn of a worker; there is no task, lock or timer per pod, because this is the hot path.

Also change: internal/trireme/bind/action_executor.py, internal/trireme/bind/pre_binder.py (limits of waiting work).
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.bind import binding_retries
from trireme.bind.binding_retries import BindingRetries, ReadStep
from trireme.bind.call_results import CallResults, check_not_busy
from trireme.bind.work_in_flight import Work, WorkInFlight, end_tasks
from trireme.bind.write_turns import CONCURRENCY, UNLIMITED, RateLimit
from trireme.framework import status
from trireme.framework.status import Reason
from trireme.plugin_kit.pod_binder import BindOutcome, BindTarget
from trireme.rpc.fencing import Tenure
from trireme_kube.apimachinery import api_writes

log = logging.getLogger(__name__)


class BindingClient(Protocol):
    """What BindingWriter needs of the API server. Deadlines in seconds.

    Implementers: trireme_kube.client.writes.Writer, tools.fuzz.fuzzed_services.ApiServer.
    """

    async def bind(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.Outcome:
        """POSTs the binding, with the repetitions that are safe."""
        ...

    async def settle_binding(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.SettledBinding:
        """Reads the pod to find what became of its binding. Unbound: it was read, and has no node."""
        ...


@dataclass(frozen=True, slots=True)
class BindingWriterStatistics:
    """The counters of a BindingWriter since its start."""

    bound: int  # pods bound, those that were found bound included
    failed: int  # pods that were certainly not bound
    unknown: int  # pods with an unknown result
    posts: int  # POSTs sent, without the repetitions of those that certainly had no effect
    conflicts: int  # POSTs answered with 409
    read_back: int  # pods found bound by reading them after an answer in doubt
    joined: int  # requests that joined a binding under way
    in_flight: int  # bindings under way
    waiting: int  # bindings that wait for a turn


class _BindingJob:
    """One pod to bind, and the calls that wait for its outcome; calls for the same pod and node share a job."""

    __slots__ = ("attempt", "target", "tenure", "waiting")

    def __init__(self, target: BindTarget, tenure: Tenure) -> None:
        self.target = target
        self.tenure = tenure
        self.attempt: BindingRetries | None = None  # since it began
        self.waiting: list[tuple[CallResults[BindOutcome], int]] = []

    @property
    def abandoned(self) -> bool:
        """No call waits for it any more."""
        return all(results.gone for results, _ in self.waiting)

    @property
    def active(self) -> bool:
        """Whether a POST may begin: some call waits, and its leader's tenure is not over."""
        return self.tenure.active and not self.abandoned

    @property
    def ended_because(self) -> str:
        """Why no POST may begin: no call waits any more, or the leader's tenure has ended."""
        return "the caller has gone" if self.tenure.active else self.tenure.ended_because


class BindingWriter:
    """Writes bindings for DefaultBinder (a `PodBinder`), some at once, and finds out what became of doubtful ones."""

    def __init__(
        self,
        pods: BindingClient,
        in_flight: WorkInFlight,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        limit: RateLimit = UNLIMITED,
        concurrency: int = CONCURRENCY,
    ) -> None:
        """`jitter` answers numbers from 0 up to 1. `limit` is the rate limit of the client of `pods`."""
        self._pods = pods
        self._in_flight = in_flight
        self._clock = clock
        self._jitter = jitter
        self._limit = limit
        self._concurrency = concurrency
        self._jobs: dict[str, _BindingJob] = {}  # by UID: those waiting and those under way
        self._turns: deque[_BindingJob] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._busy = 0  # workers that will look for a turn again; a task that has ended is in the set a moment longer
        self._bound = self._failed = self._unknown = self._posts = self._conflicts = self._read_back = self._joined = 0

    def statistics(self) -> BindingWriterStatistics:
        """A snapshot of the counters."""
        return BindingWriterStatistics(
            bound=self._bound,
            failed=self._failed,
            unknown=self._unknown,
            posts=self._posts,
            conflicts=self._conflicts,
            read_back=self._read_back,
            joined=self._joined,
            in_flight=len(self._jobs) - len(self._turns),
            waiting=len(self._turns),
        )

    async def bind(
        self, targets: Sequence[BindTarget], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, BindOutcome]], None]:
        """Bind pods, and yield the outcomes as they come, by index.

        A pod that another call is binding already is not posted twice. If the caller goes away, bindings that nobody
        waits for are not begun; those under way go on.

        Raises:
            BusyError: too many bindings wait already.
        """
        check_not_busy(len(self._turns), "{} bindings wait")
        results: CallResults[BindOutcome] = CallResults()
        try:
            for index, target in enumerate(targets):
                self._queue_or_join_job(target, tenure, results, index)
            self._start_workers()
            async for batch in results.batches(len(targets)):
                yield batch
        finally:
            results.gone = True

    async def close(self, patience: float) -> None:
        """Wait `patience` seconds for the bindings under way, then cancel the rest, and return once they have ended.

        Those that did not begin are dropped when no call waits for them.
        """
        await end_tasks(self._workers, patience)

    def _queue_or_join_job(
        self, target: BindTarget, tenure: Tenure, results: CallResults[BindOutcome], index: int
    ) -> None:
        """Have a call wait for its pod's binding: queue a new job, or join the one under way.

        A job for another node refuses the call. A joining call with a longer tenure extends the time in which a POST
        may begin.
        """
        job = self._jobs.get(target.pod.uid)
        if job is None:
            job = self._jobs[target.pod.uid] = _BindingJob(target, tenure)
            self._turns.append(job)
        elif job.target.node != target.node:
            message = f"pod {target.pod.name} is being bound to node {job.target.node} by another call"
            results.put(
                index,
                binding_retries.status_of_not_bound(message, Reason.of("alreadyBinding", {"node": job.target.node})),
            )
            return
        else:
            self._joined += 1
            if target.outcome_unknown:
                job.target = target
                if job.attempt is not None:
                    job.attempt.note_post_by_other_replica()
            if tenure.active and (not job.tenure.active or tenure.valid_until > job.tenure.valid_until):
                job.tenure = tenure  # a POST may begin as long as the later of the two tenures lasts
        job.waiting.append((results, index))

    def _start_workers(self) -> None:
        """Start workers for the jobs in the queue, as many as may run at once."""
        for _ in range(min(self._concurrency - self._busy, len(self._turns))):
            self._busy += 1
            worker = asyncio.get_running_loop().create_task(self._work_through_queue())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work_through_queue(self) -> None:
        """Run as a worker: finish queued jobs, each when the rate limit allows, until none is left."""
        try:
            while self._turns:
                await self._limit.wait()
                if self._turns:  # others may have taken them meanwhile
                    await self._finish_job(self._turns.popleft())
        finally:
            self._busy -= 1

    async def _finish_job(self, job: _BindingJob) -> None:
        """Bind one pod and give the outcome to all calls that wait; an exception is an unknown outcome."""
        outcome: BindOutcome = api_writes.Uncertain("the binding was interrupted")
        try:
            outcome = await self._post_until_decided(job)
        except Exception:
            # Whatever it is, it must not take the worker with it, nor let the pod pass for unbound.
            log.exception(
                "binding pod %s/%s failed; it is tried again, report this defect",
                job.target.pod.namespace,
                job.target.pod.name,
            )
        finally:
            del self._jobs[job.target.pod.uid]
            self._count_outcome(outcome)
            for results, index in job.waiting:
                results.put(index, outcome)

    async def _post_until_decided(self, job: _BindingJob) -> BindOutcome:
        """POST the binding and read the pod back until the outcome is certain, or reading fails for too long.

        Nothing is sent for a job that no call waits for at its beginning.
        """
        if job.abandoned:
            return binding_retries.status_of_not_bound(f"not bound: {job.ended_because}", Reason("notBegun"))
        attempt = job.attempt = BindingRetries(job.target, self._jitter)
        with self._in_flight.track(job.tenure.leader, 0.0) as work:
            if job.active:
                step = await self._post(job, attempt, work)
            else:
                step = attempt.on_posting_ended(f"not bound: {job.ended_because}", self._clock())
            while not isinstance(step, BindOutcome):
                await asyncio.sleep(step.after)
                if isinstance(step, ReadStep):
                    step = await self._read_pod_back(job, attempt)
                elif job.active:
                    step = await self._post(job, attempt, work)
                else:
                    step = attempt.on_posting_ended(f"not bound: {job.ended_because}", self._clock())
            return step

    async def _post(self, job: _BindingJob, attempt: BindingRetries, work: Work) -> binding_retries.Step:
        """POST the binding once, before the tenure ends, and return the next step."""
        self._posts += 1
        now = self._clock()
        # Nothing is sent after the tenure: the deadline covers the wait for the client's rate limit.
        deadline = min(binding_retries.POST_DEADLINE_SECONDS, job.tenure.valid_until - now)
        work.until = now + deadline + binding_retries.SETTLE_SECONDS
        outcome = await self._pods.bind(job.target.pod, job.target.node, deadline)
        if isinstance(outcome, api_writes.Conflict):
            self._conflicts += 1
        return attempt.on_post(outcome, self._clock())

    async def _read_pod_back(self, job: _BindingJob, attempt: BindingRetries) -> binding_retries.Step:
        """Read the pod to see whether it was bound, and return the next step."""
        outcome = await self._pods.settle_binding(
            job.target.pod, job.target.node, binding_retries.READ_DEADLINE_SECONDS
        )
        return attempt.on_read(outcome, self._clock(), job.active)

    def _count_outcome(self, outcome: BindOutcome) -> None:
        """Count the outcome as bound (and whether that was only read back), failed or unknown."""
        if isinstance(outcome, api_writes.Uncertain):
            self._unknown += 1
        elif outcome.code is status.Code.SUCCESS:
            self._bound += 1
            self._read_back += outcome is binding_retries.READ_BACK
        else:
            self._failed += 1
