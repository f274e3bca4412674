"""Counters and histograms that cost little where they are used.

prometheus_client's own take two to three microseconds an observation, once for each pod. Here a batch is one call: the
same value is observed `count` times. Nothing is shared between threads, so nothing is locked; each belongs to the event
loop of its process.

`families` are prometheus_client's, so that any of its collectors can be used beside these. A family without a sample is
not shown, as in Kubernetes' components; one without labels always has one.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Exemplar, Metric

from trireme_kube.apimachinery import golang

Values = tuple[str, ...]
# Returns values by label values, which are a tuple of as many texts as there are labels.
# Implementers: trireme.bind.metrics.reading_of, trireme.phases.phase_metrics.reading_of,
# trireme.frontend.serving.metrics_collector.by_replica.
Reading = Callable[[], Mapping[Any, float]]

STABLE = "STABLE"
BETA = "BETA"
ALPHA = "ALPHA"

# Replaces label values that are not allowed.
UNEXPECTED = "unexpected"


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket bounds, each the one before times `factor`: rounded as a loop of multiplications rounds."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Instrument:
    """What all kinds have in common. `name` is the whole name, `_total` included."""

    kind = ""

    def __init__(self, name: str, text: str, labels: Sequence[str] = (), stability: str = ALPHA) -> None:
        self.name = name
        self.labels = tuple(labels)
        self.stability = stability
        #: Its help text, without its stability.
        self.help = text
        # The process' own metrics are every program's, not Kubernetes': they have no stability.
        self._text = f"[{stability}] {text}" if stability else text

    def family(self) -> Metric:
        """The family with its samples, as of now."""
        metric = Metric(self.name, self._text, self.kind)
        self._add_samples(metric)
        return metric

    def reset(self) -> None:
        """Start from zero."""

    def _add_samples(self, metric: Metric) -> None:
        """Add the samples as of now; each kind has its own."""
        raise NotImplementedError

    def _label_values(self, values: Values) -> dict[str, str]:
        return dict(zip(self.labels, values, strict=True))


class Counter(Instrument):
    """Counts events."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = (), stability: str = ALPHA) -> None:
        super().__init__(name, text, labels, stability)
        self._counts: dict[Values, float] = {}
        self.reset()

    def add(self, values: Values = (), amount: float = 1) -> None:
        """Count `amount` more."""
        self._counts[values] = self._counts.get(values, 0) + amount

    def totals(self, label: str) -> dict[str, float]:
        """The counts by the values of one label, over those of all other labels."""
        position = self.labels.index(label)
        out: dict[str, float] = {}
        for values, count in self._counts.items():
            out[values[position]] = out.get(values[position], 0) + count
        return out

    def reset(self) -> None:
        """Start from zero."""
        self._counts.clear()
        if not self.labels:
            self._counts[()] = 0

    def _add_samples(self, metric: Metric) -> None:
        for values, count in self._counts.items():
            metric.add_sample(self.name, self._label_values(values), count)


class Histogram(Instrument):
    """Counts observations by their size. `bounds` ascend; larger values are counted too."""

    kind = "histogram"

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = (), stability: str = ALPHA
    ) -> None:
        super().__init__(name, text, labels, stability)
        self.bounds = tuple(bounds)
        #: The bounds as they are shown.
        self.bound_texts = (*(golang.format_float(bound) for bound in self.bounds), "+Inf")
        # One list for each set of label values: a count for each bucket, then the sum of all values.
        self._series: dict[Values, list[float]] = {}
        # The last observation that was given a trace, by label values and bucket.
        self._exemplars: dict[tuple[Values, int], Exemplar] = {}
        self.reset()

    def observe(self, value: float, values: Values = (), count: int = 1) -> None:
        """Count the value, `count` times."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = [0] * (len(self.bounds) + 2)
        series[bisect.bisect_left(self.bounds, value)] += count
        series[-1] += value * count

    def note_trace(self, value: float, values: Values, trace_id: str, at: float) -> None:
        """Name the trace (32 hexadecimal digits) of an observation as its bucket's exemplar; `at` in Unix seconds."""
        bucket = bisect.bisect_left(self.bounds, value)
        self._exemplars[values, bucket] = Exemplar({"trace_id": trace_id}, value, at)

    def bucket_counts(self, label: str = "", value: str = "") -> list[float]:
        """How many observations each bucket has that the ones before it have not; the last one is for all larger ones.

        With a label only those with this value of it.
        """
        position = self.labels.index(label) if label else -1
        found = [series for values, series in self._series.items() if not label or values[position] == value]
        return [sum(counts) for counts in zip(*(series[:-1] for series in found), strict=True)] or [0] * (
            len(self.bounds) + 1
        )

    def reset(self) -> None:
        """Start from zero."""
        self._series.clear()
        self._exemplars.clear()
        if not self.labels:
            self._series[()] = [0] * (len(self.bounds) + 2)

    def _add_samples(self, metric: Metric) -> None:
        for values, series in self._series.items():
            labels = self._label_values(values)
            total: float = 0
            for bucket, (text, count) in enumerate(zip(self.bound_texts, series[:-1], strict=True)):
                total += count
                exemplar = self._exemplars.get((values, bucket))
                metric.add_sample(f"{self.name}_bucket", {**labels, "le": text}, total, exemplar=exemplar)
            metric.add_sample(f"{self.name}_sum", labels, series[-1])
            metric.add_sample(f"{self.name}_count", labels, total)


class Gauge(Instrument):
    """A value that is read at each scrape: `read` returns it by label values.

    A label value that existed once stays, with 0: a graph should show that a queue ran empty, not that it vanished.
    With `transient` it does not stay: the values name things that come and go, such as replicas, without a bound.

    Subclasses: trireme_kube.componentbase.metrics.process_metrics._GaugeWithoutStability.
    """

    kind = "gauge"

    def __init__(
        self,
        name: str,
        text: str,
        read: Reading,
        labels: Sequence[str] = (),
        stability: str = ALPHA,
        *,
        transient: bool = False,
    ) -> None:
        super().__init__(name, text, labels, stability)
        self._read = read
        self._transient = transient
        self._known_values: dict[Values, None] = {}

    def reset(self) -> None:
        """Forget label values that do not exist now."""
        self._known_values.clear()

    def _add_samples(self, metric: Metric) -> None:
        now = self._read()
        if self._transient:
            self._known_values.clear()
        for values in now:
            self._known_values.setdefault(values)
        for values in self._known_values:
            metric.add_sample(self.name, self._label_values(values), now.get(values, 0))


class CountedElsewhere(Gauge):
    """A counter whose counts are read at each scrape."""

    kind = "counter"

    def __init__(
        self,
        name: str,
        text: str,
        read: Reading,
        labels: Sequence[str] = (),
        stability: str = ALPHA,
    ) -> None:
        super().__init__(name, text, read, labels, stability)
        self._before: Mapping[Any, float] = {}

    def reset(self) -> None:
        """Count from here."""
        super().reset()
        self._before = dict(self._read())

    def _add_samples(self, metric: Metric) -> None:
        for values, count in self._read().items():
            before = self._before.get(values, 0)
            # A count that disappeared and returned starts from 0 again.
            since = count - before if count >= before else count
            if since or not self.labels or values not in self._before:
                metric.add_sample(self.name, self._label_values(values), since)


class Registry:
    """All instruments of a process, in the order of their names.

    `disabled` are names that are not shown because an operator disabled them; `hidden` those that are not shown because
    they are deprecated. `allowed` lists, by (metric, label), the values that are shown unchanged; all others of that
    label become `unexpected`, so that no label can grow without bound.
    """

    def __init__(
        self,
        disabled: Iterable[str] = (),
        allowed: Mapping[tuple[str, str], frozenset[str]] | None = None,
        hidden: Iterable[str] = (),
    ) -> None:
        self._instruments: dict[str, Instrument] = {}
        self._disabled = frozenset(disabled)
        self._hidden = frozenset(hidden)
        self._allowed = allowed or {}

    def add(self, *instruments: Instrument) -> None:
        """Add instruments. Raises: ValueError for a name that is taken."""
        for instrument in instruments:
            if instrument.name in self._instruments:
                raise ValueError(f"a metric named {instrument.name} is there already")
            self._instruments[instrument.name] = instrument

    def __iter__(self) -> Iterator[Instrument]:
        return iter(self._instruments.values())

    def disabled_count(self) -> int:
        """How many of the metrics that exist are not shown."""
        return sum(name in self._disabled for name in self._instruments)

    def hidden_count(self) -> int:
        """How many of the metrics that exist are hidden."""
        return sum(name in self._hidden for name in self._instruments)

    def families(self) -> Iterator[Metric]:
        """The families that are shown and have samples."""
        for name in sorted(self._instruments):
            if name in self._disabled or name in self._hidden:
                continue
            family = self._instruments[name].family()
            if family.samples:
                yield self._with_allowed_labels(family)

    def reset(self) -> None:
        """Start from zero with all of them."""
        for instrument in self._instruments.values():
            instrument.reset()

    def _with_allowed_labels(self, family: Metric) -> Metric:
        """The family with label values that are not allowed replaced, and equal samples added up."""
        limits = {label: values for (name, label), values in self._allowed.items() if name == family.name}
        if not limits:
            return family
        sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in family.samples:
            labels = tuple(
                (label, value if label not in limits or value in limits[label] else UNEXPECTED)
                for label, value in sample.labels.items()
            )
            sums[sample.name, labels] = sums.get((sample.name, labels), 0) + sample.value
        out = Metric(family.name, family.documentation, family.type)
        for (name, labels), value in sums.items():
            out.add_sample(name, dict(labels), value)
        return out
