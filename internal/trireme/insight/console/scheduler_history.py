"""The last quarter of an hour of the scheduler: rates, latencies and the queue, a sample a second.

And the last preemptions, and missed wake-ups of a recording.

The frontend sends counters and histograms since its start. A sample is the difference of two messages, so a lost
message costs detail and no truth. A counter that is smaller than before is one of another leader: it begins anew.

Also change: docs/console.md (how long it remembers).
Also change: internal/trireme/scheduling/preemption_history.py (as many are sent to a new stream).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trireme.v1 import scheduler_status_pb2

SAMPLES = 900
PREEMPTIONS = 256
MISSED_WAKE_UPS = 20
# Latencies are those of the pods bound within so many samples: a second has too few pods for a 99th percentile.
LATENCY_SAMPLES = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment: per second the pods bound, refused and failed; the queue. Units: at in ms since 1970."""

    at_ms: int
    bound: float
    unschedulable: float
    errors: float
    queue: scheduler_status_pb2.QueueCounts


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the durations of the last LATENCY_SAMPLES samples, in seconds, and how many there were."""

    count: int
    p50: float | None
    p99: float | None


class SchedulerHistory:
    """What the frontend has sent of itself; `take` gets each message."""

    def __init__(self) -> None:
        self.status: scheduler_status_pb2.SchedulerStatus | None = None
        #: How many messages there were.
        self.received = 0
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._preemptions: deque[scheduler_status_pb2.PreemptionRecord] = deque(maxlen=PREEMPTIONS)
        #: Those of a recording, the oldest first.
        self.missed_wake_ups: deque[scheduler_status_pb2.MissedWakeUp] = deque(maxlen=MISSED_WAKE_UPS)
        self._attempts: deque[Sequence[int]] = deque(maxlen=LATENCY_SAMPLES + 1)
        self._pods: deque[Sequence[int]] = deque(maxlen=LATENCY_SAMPLES + 1)

    def take(self, status: scheduler_status_pb2.SchedulerStatus) -> None:
        """Take a message over."""
        before, self.status = self.status, status
        self.received += 1
        if before is not None and (before.leader != status.leader or status.bound_total < before.bound_total):
            # Another leader numbers and counts anew.
            before = None
            self._attempts.clear()
            self._pods.clear()
            self._preemptions.clear()
        self._attempts.append(tuple(status.attempt_latency.counts))
        self._pods.append(tuple(status.pod_latency.counts))
        self._add_preemptions(status.preemptions)
        if before is not None and status.at_ms > before.at_ms:
            seconds = (status.at_ms - before.at_ms) / 1000
            self._samples.append(
                Sample(
                    status.at_ms,
                    max(status.bound_total - before.bound_total, 0) / seconds,
                    max(status.unschedulable_total - before.unschedulable_total, 0) / seconds,
                    max(status.error_total - before.error_total, 0) / seconds,
                    status.queue,
                )
            )

    def take_recorded(self, status: scheduler_status_pb2.SchedulerStatus) -> None:
        """Take over what a recording has of a message: preemptions and missed wake-ups."""
        self.received += 1
        self._add_preemptions(status.preemptions)
        last = self.missed_wake_ups[-1].number if self.missed_wake_ups else 0
        self.missed_wake_ups.extend(each for each in status.missed_wake_ups if each.number > last)

    def forget_recorded(self) -> None:
        """Another leader begins: it numbers them anew."""
        self.received += 1
        self._preemptions.clear()
        self.missed_wake_ups.clear()

    def samples_after(self, at_ms: int) -> list[Sample]:
        """The samples after that moment, the oldest first."""
        return [sample for sample in self._samples if sample.at_ms > at_ms]

    def preemptions(self) -> list[scheduler_status_pb2.PreemptionRecord]:
        """The last preemptions, the newest first."""
        return list(reversed(self._preemptions))

    def _add_preemptions(self, records: Iterable[scheduler_status_pb2.PreemptionRecord]) -> None:
        """Add those that are new: where a stream begins, the last ones come again."""
        last = self._preemptions[-1].number if self._preemptions else 0
        self._preemptions.extend(each for each in records if each.number > last)

    def attempt_latency(self) -> Latency:
        """From taking a pod from the queue to its being bound."""
        return self._latency(self._attempts, "attempt_latency")

    def pod_latency(self) -> Latency:
        """From when a pod could first be tried to its being bound."""
        return self._latency(self._pods, "pod_latency")

    def _latency(self, counts: "deque[Sequence[int]]", name: str) -> Latency:
        """Percentiles of what was counted between the first and the last of the samples."""
        if self.status is None or len(counts) < 2 or len(counts[0]) != len(counts[-1]):
            return Latency(0, None, None)
        within = [newest - oldest for newest, oldest in zip(counts[-1], counts[0], strict=True)]
        bounds = getattr(self.status, name).bounds_s
        return Latency(sum(within), quantile(bounds, within, 0.5), quantile(bounds, within, 0.99))


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """The duration that this share of all does not exceed, interpolated within its bucket; None: there are none.

    Beyond the last bound it is that bound. Source: Prometheus' histogram_quantile.
    """
    total = sum(counts)
    if total <= 0:
        return None
    rank, below, lower = share * total, 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= rank:
            return lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound
    return lower
