"""Metric families in the formats that a scraper reads: text, or on request protobuf, or OpenMetrics for exemplars.

Exemplars name traces. Without one OpenMetrics is not served, as Kubernetes' components do not serve it; label values,
those of `le` too, are the same in all formats, so that series go on.

Not prometheus_client's own writer, because that appends `_total` to every counter (Kubernetes has some without), and
prints whole numbers as `3.0`.

Tests: tests/unit/componentbase/metrics/test_instruments.py.
"""

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric

from trireme_kube.apimachinery import golang
from trireme_kube.componentbase.metrics import protobuf_exposition

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
PROTOBUF = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores"
)
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"

_OPENMETRICS_MEDIA = "application/openmetrics-text"
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response body and its headers."""

    body: bytes
    content_type: str
    content_encoding: str = ""


def answer(families: Iterable[Metric], headers: Mapping[str, str]) -> Answer:
    """Return the response to a scraper, in the format and compression that its request headers accept."""
    accepted = headers.get("Accept", "")
    if _wants_protobuf(accepted):
        body, content_type = protobuf_exposition.encode(families), PROTOBUF
    elif _OPENMETRICS_MEDIA in accepted and _has_exemplars(families := list(families)):
        body, content_type = openmetrics(families).encode(), OPENMETRICS
    else:
        body, content_type = text(families).encode(), TEXT
    codings = [entry.partition(";")[0].strip() for entry in headers.get("Accept-Encoding", "").split(",")]
    if "gzip" in codings:
        return Answer(gzip.compress(body, 1), content_type, "gzip")
    return Answer(body, content_type)


def text(families: Iterable[Metric]) -> str:
    """Return the families in the text format, version 0.0.4."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.documentation.translate(_HELP_ESCAPES)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        lines += [
            f"{each.name}{_labels_text(each.labels)} {golang.format_float(each.value)}" for each in family.samples
        ]
    return "\n".join(lines) + "\n" if lines else ""


def openmetrics(families: Iterable[Metric]) -> str:
    """Return the families in OpenMetrics' text format, version 1.0, with exemplars.

    There a counter's samples end in `_total`: one that is named otherwise is of unknown type.
    """
    lines: list[str] = []
    for family in families:
        name, kind = family.name, family.type
        if kind == "counter":
            name, kind = (name.removesuffix("_total"), kind) if name.endswith("_total") else (name, "unknown")
        lines.append(f"# HELP {name} {family.documentation.translate(_LABEL_ESCAPES)}")
        lines.append(f"# TYPE {name} {kind}")
        for sample in family.samples:
            line = f"{sample.name}{_labels_text(sample.labels)} {golang.format_float(sample.value)}"
            if sample.exemplar is not None:
                given = sample.exemplar
                line += f" # {_labels_text(given.labels)} {golang.format_float(given.value)} {given.timestamp:.3f}"
            lines.append(line)
    return "\n".join([*lines, "# EOF\n"])


def _labels_text(labels: Mapping[str, str]) -> str:
    """The labels in braces; empty without labels."""
    entries = ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in labels.items())
    return f"{{{entries}}}" if entries else ""


def _has_exemplars(families: Iterable[Metric]) -> bool:
    return any(sample.exemplar is not None for family in families for sample in family.samples)


def _wants_protobuf(accept: str) -> bool:
    """Whether the first supported type is protobuf."""
    for entry in accept.split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        if media in ("text/plain", "*/*"):
            return False
        if media == "application/vnd.google.protobuf" and "encoding=delimited" in parameters:
            return True
    return False
