"""Counters, gauges and histograms, and the two formats in which they are shown."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from trireme_kube.apimachinery import golang
from trireme_kube.componentbase.metrics import exposition, instruments, protobuf_exposition


def _text(*made: instruments.Instrument) -> str:
    registry = instruments.Registry()
    registry.add(*made)
    return exposition.text(registry.families())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.000015000000000000002, "1.5000000000000002e-05"),
        (163.84, "163.84"),
        (604800, "604800"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (2592000.0, "2.592e+06"),
        (1.8446744073709552e19, "1.8446744073709552e+19"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
    ids=str,
)
def test_numbers_read_as_go_writes_them(value: float, text: str) -> None:
    """A query that names a bucket of kube-scheduler's would find none."""
    assert golang.format_float(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_itself(value: float) -> None:
    """A value would be shown as another one."""
    assert float(golang.format_float(value)) == value


def test_a_histogram_counts_what_a_slow_one_counts() -> None:
    """Quantiles would be computed from wrong buckets."""
    bounds = instruments.exponential(0.001, 2, 8)
    histogram = instruments.Histogram("h_seconds", "text", bounds)
    drawn = random.Random(7)
    seen: list[float] = []
    for _ in range(200):
        value, count = drawn.choice([*bounds, drawn.uniform(0, 0.3)]), drawn.randint(1, 5)
        histogram.observe(value, (), count)
        seen += [value] * count
    samples = {sample.labels.get("le", sample.name): sample.value for sample in histogram.family().samples}
    assert all(samples[golang.format_float(bound)] == sum(value <= bound for value in seen) for bound in bounds)
    assert samples["+Inf"] == samples["h_seconds_count"] == len(seen)
    assert samples["h_seconds_sum"] == pytest.approx(sum(seen))


def test_the_text_format() -> None:
    """A scraper could not read it, or would read other labels."""
    counter = instruments.Counter("made", "Of\nlines.", ("why",), instruments.STABLE)
    counter.add(('a "quoted" \\ one',), 2)
    assert _text(counter) == (
        '# HELP made [STABLE] Of\\nlines.\n# TYPE made counter\nmade{why="a \\"quoted\\" \\\\ one"} 2\n'
    )


def test_other_parsers_read_the_text() -> None:
    """Prometheus would refuse the page."""
    histogram = instruments.Histogram("h_seconds", "text", (0.1, 1), ("x",))
    histogram.observe(0.5, ("y",))
    (family,) = text_string_to_metric_families(_text(histogram))
    assert (family.name, family.type, len(family.samples)) == ("h_seconds", "histogram", 5)


def test_a_labelled_family_without_samples_is_not_exposed() -> None:
    """A page would be full of metrics that nothing moved, unlike kube-scheduler's."""
    assert _text(instruments.Counter("made_total", "text", ("why",))) == ""
    assert "made_total 0" in _text(instruments.Counter("made_total", "text"))


def test_a_gauge_shows_what_became_empty_as_zero() -> None:
    """A queue that ran empty would look as if it were not measured."""
    now = {("a",): 3.0}
    gauge = instruments.Gauge("queue", "text", lambda: now, ("name",))
    assert 'queue{name="a"} 3' in _text(gauge)
    now.clear()
    assert 'queue{name="a"} 0' in _text(gauge)


def test_a_removed_label_set_leaves_no_series() -> None:
    """Each rollout would add a series for each replica that it replaced, until the process ends."""
    now = {("10.0.0.1",): 3.0}
    gauge = instruments.Gauge("replica", "text", lambda: now, ("address",), transient=True)
    assert 'replica{address="10.0.0.1"} 3' in _text(gauge)
    now.clear()
    assert "10.0.0.1" not in _text(gauge)


def test_a_series_recreated_after_a_reset_counts_from_zero() -> None:
    """A counter would be negative."""
    counts = {("10.0.0.1",): 5.0}
    counter = instruments.CountedElsewhere("sent_total", "text", lambda: counts, ("address",))
    counter.reset()
    counts["10.0.0.1",] = 2.0
    assert 'sent_total{address="10.0.0.1"} 2' in _text(counter)


def test_a_reset_clears_all_samples() -> None:
    """A tool that resets and then measures would see what was before."""
    counts = {("a",): 5.0}
    counter = instruments.Counter("made_total", "text")
    elsewhere = instruments.CountedElsewhere("read_total", "text", lambda: counts, ("name",))
    counter.add((), 2)
    registry = instruments.Registry()
    registry.add(counter, elsewhere)
    registry.reset()
    counts["a",] = 7.0
    assert {s.name: s.value for f in registry.families() for s in f.samples} == {"made_total": 0, "read_total": 2}


def test_a_name_is_taken_once() -> None:
    """Two metrics of one name make a page that scrapers refuse."""
    registry = instruments.Registry()
    registry.add(instruments.Counter("made_total", "text"))
    with pytest.raises(ValueError, match="made_total"):
        registry.add(instruments.Counter("made_total", "text"))


def test_disallowed_label_values_are_summed_up() -> None:
    """Counts would be lost where label values are limited, or shown twice."""
    registry = instruments.Registry(allowed={("made_total", "why"): frozenset({"a"})})
    counter = instruments.Counter("made_total", "text", ("why",))
    for why in ("a", "b", "c"):
        counter.add((why,))
    registry.add(counter)
    shown = {s.labels["why"]: s.value for f in registry.families() for s in f.samples}
    assert shown == {"a": 1, instruments.UNEXPECTED: 2}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", exposition.TEXT),
        ("application/openmetrics-text", exposition.TEXT),
        ("text/plain, application/vnd.google.protobuf;encoding=delimited", exposition.TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", exposition.TEXT),
        ("application/vnd.google.protobuf; encoding=delimited;q=0.7, text/plain;q=0.3", exposition.PROTOBUF),
    ],
)
def test_the_first_acceptable_format_is_served(accept: str, kind: str) -> None:
    """A scraper would get a format that it did not ask for."""
    assert exposition.answer((), {"Accept": accept}).content_type == kind


def test_protobuf_and_text_expose_the_same_samples() -> None:
    """A scraper of protobuf would see other numbers."""
    counter = instruments.Counter("made_total", "text", ("why",))
    counter.add(("b",), 2)
    histogram = instruments.Histogram("h_seconds", "text", (0.1, 1), ("x",))
    histogram.observe(0.5, ("y",), 3)
    made = protobuf_exposition.family_message(counter.family())
    assert (made.name, made.type, made.metric[0].label[0].value, made.metric[0].counter.value) == (
        "made_total",
        0,
        "b",
        2,
    )
    (metric,) = protobuf_exposition.family_message(histogram.family()).metric
    assert (metric.histogram.sample_count, metric.histogram.sample_sum) == (3, 1.5)
    assert [(b.upper_bound, b.cumulative_count) for b in metric.histogram.bucket] == [(0.1, 0), (1.0, 3)]


def test_protobuf_families_have_their_length_before_them() -> None:
    """A scraper could not tell where one family ends."""
    counter = instruments.Counter("made_total", "x" * 300)
    data = protobuf_exposition.encode([counter.family()])
    size = protobuf_exposition.family_message(counter.family()).ByteSize()
    assert data[:2] == bytes((size & 0x7F | 0x80, size >> 7))
    assert len(data) == size + 2


def test_counts_are_read_by_one_label_and_by_bucket() -> None:
    """Throughput and latency of all profiles together would miss one of them, or be those of refused pods."""
    attempts = instruments.Counter("attempts_total", "text", ("result", "profile"))
    histogram = instruments.Histogram("h_seconds", "text", (0.1, 1), ("result", "profile"))
    assert (attempts.totals("result"), histogram.bucket_counts("result", "scheduled")) == ({}, [0, 0, 0])
    for profile in ("one", "two"):
        attempts.add(("scheduled", profile), 2)
        attempts.add(("error", profile))
        histogram.observe(0.05, ("scheduled", profile), 2)
        histogram.observe(0.5, ("error", profile))
    histogram.observe(7, ("scheduled", "one"))
    assert attempts.totals("result") == {"scheduled": 4, "error": 2}
    assert histogram.bucket_counts("result", "scheduled") == [4, 0, 1]
    assert histogram.bucket_counts() == [4, 2, 1]


def test_a_trace_is_an_exemplar_where_openmetrics_is_asked_for() -> None:
    """As Prometheus' own parser reads it; others get the text format, whose parsers would stumble."""
    histogram = instruments.Histogram("s_seconds", 'It "took"', (0.5, 1.0), ("result",))
    counter = instruments.Counter("c", "Counts")
    histogram.observe(0.75, ("ok",))
    asking = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}

    def families() -> list[Metric]:
        return [histogram.family(), counter.family()]

    assert exposition.answer(families(), asking).content_type == exposition.TEXT  # there is none yet
    histogram.note_trace(0.75, ("ok",), "ab" * 16, 1_700_000_000.25)
    found = exposition.answer(families(), asking)
    assert found.content_type == exposition.OPENMETRICS
    read = list(openmetrics_parser.text_string_to_metric_families(found.body.decode()))
    assert [(family.name, family.type) for family in read] == [("s_seconds", "histogram"), ("c", "unknown")]
    (sample,) = (each for each in read[0].samples if each.exemplar is not None)
    assert (sample.labels["le"], sample.exemplar.labels, sample.exemplar.value) == (
        "1",
        {"trace_id": "ab" * 16},
        0.75,
    )
    assert exposition.answer(families(), {}).content_type == exposition.TEXT
    assert "#" not in [line for line in exposition.text(families()).splitlines() if "le=" in line][1]
    histogram.reset()
    assert exposition.answer(families(), asking).content_type == exposition.TEXT
