"""The history of a run: samples of both clusters, as many as a plot can show, however long the run is.

Tests: tests/unit/shadow/test_report.py.
"""

from dataclasses import dataclass

from trireme.shadow import measures

# At twice as many samples every second one is dropped, and samples are taken half as often from then on.
_FEWEST = 300


@dataclass(frozen=True, slots=True)
class WorldSample:
    """One cluster at one moment. Units: pods, cumulative for preemptions, and seconds for the quantiles of waits."""

    measured: measures.Measures
    pending: int
    preemptions: int
    wait_median: float
    wait_p99: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Both clusters at one moment; `here` is Trireme's, None if it is turned off. Units: at in seconds since the start.

    Bindings are cumulative: those that were compared, and of them the same or tied ones.
    """

    at: float
    there: WorldSample
    here: WorldSample | None
    compared: int
    agreed: int


class History:
    """The samples, evenly spaced."""

    def __init__(self, interval: float) -> None:
        """`interval`: the least time between two samples, in seconds. It doubles as the run goes on."""
        self._interval = interval
        self.samples: list[Sample] = []

    def is_due(self, at: float) -> bool:
        """Whether a sample should be taken at this time."""
        return not self.samples or at - self.samples[-1].at >= self._interval

    def add(self, sample: Sample) -> None:
        """Add the newest sample."""
        self.samples.append(sample)
        if len(self.samples) >= 2 * _FEWEST:
            self.samples = self.samples[::2]
            self._interval *= 2
