"""How often a metric was recorded, by its label values."""

from trireme_kube.componentbase.metrics.instruments import Instrument


def counts(instrument: Instrument) -> dict[str, float]:
    """The counts that are not zero, of a counter or of a histogram's observations; label values joined by spaces."""
    return {
        " ".join(sample.labels.values()): sample.value
        for sample in instrument.family().samples
        if sample.value and sample.name in (instrument.name, f"{instrument.name}_count")
    }


def sums(histogram: Instrument) -> dict[str, tuple[float, float]]:
    """How many observations a histogram has, and their sum, by label values as in `counts`."""
    found = counts(histogram)
    totals = {
        " ".join(sample.labels.values()): sample.value
        for sample in histogram.family().samples
        if sample.name == f"{histogram.name}_sum"
    }
    return {labels: (count, totals[labels]) for labels, count in found.items()}
