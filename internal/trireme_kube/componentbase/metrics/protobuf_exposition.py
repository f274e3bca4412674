"""Metric families in Prometheus' protobuf format (io.prometheus.client.MetricFamily, each with its length before it).

The message type is declared here, field by field, because no package that we depend on has it; the numbers are those of
the public metrics.proto. Only the kinds that we have are declared.

Tests: tests/unit/componentbase/metrics/test_instruments.py.
"""

import io
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto
from prometheus_client.core import Metric

_Kind = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "io.prometheus.client"
_TYPES = {"counter": 0, "gauge": 1, "histogram": 4}

# message → (field, number, type or message, repeated)
_MESSAGES: dict[str, tuple[tuple[str, int, Any, bool], ...]] = {
    "LabelPair": (("name", 1, _Kind.TYPE_STRING, False), ("value", 2, _Kind.TYPE_STRING, False)),
    "Gauge": (("value", 1, _Kind.TYPE_DOUBLE, False),),
    "Counter": (("value", 1, _Kind.TYPE_DOUBLE, False),),
    "Bucket": (("cumulative_count", 1, _Kind.TYPE_UINT64, False), ("upper_bound", 2, _Kind.TYPE_DOUBLE, False)),
    "Histogram": (
        ("sample_count", 1, _Kind.TYPE_UINT64, False),
        ("sample_sum", 2, _Kind.TYPE_DOUBLE, False),
        ("bucket", 3, "Bucket", True),
    ),
    "Metric": (
        ("label", 1, "LabelPair", True),
        ("gauge", 2, "Gauge", False),
        ("counter", 3, "Counter", False),
        ("histogram", 7, "Histogram", False),
    ),
    "MetricFamily": (
        ("name", 1, _Kind.TYPE_STRING, False),
        ("help", 2, _Kind.TYPE_STRING, False),
        ("type", 3, _Kind.TYPE_INT32, False),  # an enum's number is written as an int32's
        ("metric", 4, "Metric", True),
    ),
}


def _family_class() -> Any:
    """Make the class of MetricFamily messages, whose definition is written here, field by field."""
    file = descriptor_pb2.FileDescriptorProto(name="trireme/exposition.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = _Kind.LABEL_REPEATED if repeated else _Kind.LABEL_OPTIONAL
            if isinstance(kind, str):
                message.field.add(
                    name=field,
                    number=number,
                    label=label,
                    type=_Kind.TYPE_MESSAGE,
                    type_name=f".{_PACKAGE}.{kind}",
                )
            else:
                message.field.add(name=field, number=number, label=label, type=kind)
    # A separate pool, so that a program that has the real definition can load both.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


_MetricFamily = _family_class()


def encode(families: Iterable[Metric]) -> bytes:
    """Encode all families, each with its length before it."""
    out = io.BytesIO()
    for family in families:
        proto.serialize_length_prefixed(family_message(family), out)
    return out.getvalue()


def family_message(family: Metric) -> Any:
    """Return one family as a message."""
    out = _MetricFamily(name=family.name, help=family.documentation, type=_TYPES[family.type])
    if family.type == "histogram":
        _add_histograms(out, family)
        return out
    for sample in family.samples:
        metric = out.metric.add()
        _add_labels(metric, sample.labels)
        getattr(metric, family.type).value = sample.value
    return out


def _add_histograms(out: Any, family: Metric) -> None:
    """Gather the samples of a histogram into one metric per set of labels.

    The format has no +Inf bucket: the count says the same.
    """
    found: dict[tuple[tuple[str, str], ...], Any] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        key = tuple(labels.items())
        metric = found.get(key)
        if metric is None:
            metric = found[key] = out.metric.add()
            _add_labels(metric, labels)
        if sample.name.endswith("_sum"):
            metric.histogram.sample_sum = sample.value
        elif sample.name.endswith("_count"):
            metric.histogram.sample_count = int(sample.value)
        elif sample.labels["le"] != "+Inf":
            bound = float(sample.labels["le"])
            metric.histogram.bucket.add(cumulative_count=int(sample.value), upper_bound=bound)


def _add_labels(metric: Any, labels: dict[str, str]) -> None:
    """Add the labels, sorted by name."""
    for name, value in sorted(labels.items()):
        metric.label.add(name=name, value=value)
