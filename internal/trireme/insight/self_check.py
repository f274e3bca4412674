"""SelfCheck: decides a sample of the recorded decisions again while they are made, and finds those that differ.

Replayed decisions are the same as the live ones, unless a replica's cached columns, a patch to an answer or a write of
the cluster went wrong: then pods are decided on a state that nobody has. A sample is a full state and the messages of
some seconds behind it. It is replayed in a thread, from nothing, as `trireme replay` does, and saved if it differs.

It takes a share of a processor: the next sample waits for what the last one took, on the event loop and in the thread.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).
Also change: docs/recording.md.

Tests: tests/unit/insight/test_self_check.py, tests/contract/test_self_check.py.
"""

import asyncio
import contextlib
import logging
import pathlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trireme.insight import captured_state, observed_cluster, self_check_sample
from trireme.insight.self_check_sample import Sample
from trireme.replay import decision_replay
from trireme.v1 import scheduler_status_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks, documents, supervision
from trireme_kube.componentbase.metrics.instruments import Counter

log = logging.getLogger(__name__)

#: The processor time that it may take.
CPU_SHARE = 0.01
#: What is saved up for a sample while there are no decisions. Units: seconds of processor time.
MAX_CREDIT = 0.5
#: At least so long from the end of a sample to the next one.
PERIOD_SECONDS = 10.0
#: A sample ends with the first of these: decisions, bytes of messages, seconds since its first decision.
MAX_DECISIONS, MAX_BYTES, MAX_SECONDS = 200, 4 << 20, 10.0
#: A larger cluster is not checked: while decisions are made again, insight has it in memory twice.
MAX_NODES, MAX_PODS = 20_000, 200_000
#: Of differences of one call, a sample is saved so often at most.
SAVE_SECONDS = 600.0


class Times(NamedTuple):
    """The wall clock in nanoseconds since 1970, a steady one, and the processor time of the thread, in seconds."""

    now_ns: Callable[[], int] = clocks.wall_ns
    steady: Callable[[], float] = time.monotonic
    cpu: Callable[[], float] = time.thread_time


_TIMES = Times()


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a sample: how many decisions were made again, and those that differ, by call."""

    made: int
    differences: Mapping[str, Sequence[decision_replay.Difference]]
    cpu_seconds: float
    #: Where it was saved; empty: it was not, for the problem, or because another one was lately.
    recording: str
    problem: str


Run = Callable[[Coroutine[Any, Any, Checked]], Awaitable[Checked]]


class SelfCheckStatistics(NamedTuple):
    """How many decisions were made again, how many samples could not be, and the processor time in seconds."""

    made: int = 0
    failures: int = 0
    cpu_seconds: float = 0.0


def differences_counter() -> Counter:
    """The metric of decisions that come out differently, by call."""
    return Counter(
        "trireme_insight_self_check_differences_total",
        "Recorded decisions that came out differently when insight made them again, by call.",
        ("call",),
    )


async def in_thread(check: Coroutine[Any, Any, Checked]) -> Checked:
    """Run a check, which waits for nothing, in a thread, so that others are answered meanwhile."""
    return await asyncio.to_thread(asyncio.run, check)


class SelfCheck:
    """Checks what one insight records. `take` is given each message that was applied to the cluster."""

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        folder: pathlib.Path,
        instance: str,
        differences: Counter,
        quiet: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        *,
        run: Run = in_thread,
        times: Times = _TIMES,
    ) -> None:
        """`folder` is for samples that differ; `quiet` is entered while decisions are made, for what they log."""
        self._cluster = cluster
        self._folder = folder
        self._instance = instance
        self._differences = differences
        self._quiet = quiet
        self._run = run
        self._now_ns, self._steady, self._cpu = times
        self._hello: snapshot_pb2.Hello | None = None
        self._enabled = self._running = False
        # The sample that is being collected, and when its first decision came; the one that is to be decided again.
        self._sample: Sample | None = None
        self._first_decision_at = 0.0
        self._collected: Sample | None = None
        self._ready = asyncio.Event()
        # In seconds of processor time, as of a moment; negative after a sample that took more.
        self._credit, self._credited_at = 0.0, self._steady()
        self._ended_at = self._steady()
        self._saved_at: dict[str, float] = {}
        self._made = self._failures = 0
        self._cpu_seconds = 0.0
        self._status = scheduler_status_pb2.SelfCheck()

    def statistics(self) -> SelfCheckStatistics:
        """What was decided again so far."""
        return SelfCheckStatistics(self._made, self._failures, self._cpu_seconds)

    def status(self) -> scheduler_status_pb2.SelfCheck | None:
        """What `trireme status` shows of it; None: the configuration turns it off."""
        return self._status if self._enabled else None

    @contextlib.asynccontextmanager
    async def running(self, supervisor: supervision.Supervisor) -> AsyncIterator[None]:
        """Collect samples and decide them again within the block."""
        self._running = True
        checking = supervisor.keep("self-check", self._check_forever)
        try:
            yield
        finally:
            self._running = False
            await supervisor.stop(checking)

    # Collecting

    def take(self, request: snapshot_pb2.SyncRequest) -> None:
        """Add the message to the sample, or begin one behind it if it is time for it."""
        if not self._running:
            return
        began = self._cpu()
        if request.WhichOneof("message") == "hello":
            self._end_sample()
            self._hello = request.hello
            self._enabled = not request.hello.configuration.self_check_off
        elif self._sample is not None:
            self._extend(self._sample, request)
        elif self._enabled and self._is_due():
            assert self._hello is not None
            state = captured_state.capture(self._cluster, self._hello, self._now_ns())
            self._sample = Sample(self._instance, state)
        self._charge(self._cpu() - began)

    def _extend(self, sample: Sample, request: snapshot_pb2.SyncRequest) -> None:
        """Add the message to the sample, and end it if it has enough. A full sync belongs to the next one."""
        if request.delta.reset:
            self._end_sample()
            return
        now = self._steady()
        if request.decisions and not sample.decisions:
            self._first_decision_at = now
        sample.add(self._now_ns(), request.SerializeToString(), len(request.decisions))
        # In a quiet cluster the first decision may be long in coming.
        elapsed = now - self._first_decision_at if sample.decisions else 0.0
        if sample.decisions >= MAX_DECISIONS or sample.size >= MAX_BYTES or elapsed >= MAX_SECONDS:
            self._end_sample()

    def _end_sample(self) -> None:
        """Have the sample decided again, if there are decisions in it."""
        sample, self._sample = self._sample, None
        if sample is None:
            return
        self._ended_at = self._steady()
        if sample.decisions:
            self._collected = sample
            self._ready.set()

    def _is_due(self) -> bool:
        """Whether a sample may begin: there is processor time for it, the last one is done, and a state is there."""
        now = self._steady()
        self._credit = min(self._credit + CPU_SHARE * (now - self._credited_at), MAX_CREDIT)
        self._credited_at = now
        snap = self._cluster.snap
        if snap.nodes.count > MAX_NODES or snap.pods.count > MAX_PODS:
            self._status.problem = f"the cluster has more than {MAX_NODES} nodes or {MAX_PODS} pods"
            return False
        waited = now - self._ended_at >= PERIOD_SECONDS
        return waited and self._credit > 0 and self._collected is None and self._cluster.synced

    def _charge(self, seconds: float) -> None:
        self._credit -= seconds
        self._cpu_seconds += seconds

    # Deciding again

    async def _check_forever(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            await self.check_collected()

    async def check_collected(self) -> None:
        """Decide the collected sample again, if there is one. No failure of it stops insight."""
        sample = self._collected
        if sample is None:
            return
        began = self._steady()
        try:
            with self._quiet():
                checked = await self._run(self._check(sample))
        except Exception as error:
            self._failures += 1
            self._status.problem = str(error) or type(error).__name__
            log.warning(
                "self-check: recorded decisions cannot be made again: %s; another sample is tried", self._status.problem
            )
            # It is not known for how much of the time it ran.
            self._charge(self._steady() - began)
        else:
            self._status.problem = checked.problem
            self._charge(checked.cpu_seconds)
            self._made += checked.made
            self._report(checked)
        finally:
            self._collected = None
            self._ended_at = self._steady()
        self._status.checked_at_ms = self._now_ns() // 1_000_000
        self._status.checked = self._made

    async def _check(self, sample: Sample) -> Checked:
        """Decide the sample again, and save it if a decision differs; in the thread, while nothing else does.

        Raises: ValueError: something in it cannot be used.
        """
        began = self._cpu()
        made, found = await self_check_sample.decide_again(sample, lambda: not self._running, self._cpu)
        by_call: dict[str, list[decision_replay.Difference]] = {}
        for each in found:
            by_call.setdefault(each.call, []).append(each)
        now, path, problem = self._steady(), "", ""
        lately = {call for call, at in self._saved_at.items() if now - at < SAVE_SECONDS}
        if by_call.keys() - lately:
            try:
                path = str(self_check_sample.save(sample, self._folder, found[0]))
                self._saved_at |= dict.fromkeys(by_call, now)
            except OSError as error:
                problem = f"a recording of the difference is not saved: {error}"
        return Checked(made, by_call, self._cpu() - began, path, problem)

    def _report(self, checked: Checked) -> None:
        """Count and log the differences, by call."""
        last = self._status.last_difference
        for call, differences in checked.differences.items():
            first = differences[0]
            self._differences.add((call,), len(differences))
            self._status.different += len(differences)
            last.at_ms, last.call, last.pods = first.time_ns // 1_000_000, call, first.pods
            last.recording = checked.recording or last.recording
            log.error(
                "self-check: decision %d, %s of %s, comes out differently when it is made again (%d of %d decisions); "
                "%s; do as the runbook says (%s)",
                first.number,
                call,
                first.pods,
                len(differences),
                checked.made,
                f"`trireme replay {checked.recording}` shows it"
                if checked.recording
                else checked.problem or "another one was saved in the last ten minutes",
                documents.DECISIONS_DIFFER,
            )
