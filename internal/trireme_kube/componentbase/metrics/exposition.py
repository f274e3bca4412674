"""Metric families in the formats that a scraper reads: text, or protobuf on request.

Not prometheus_client's own writer, because that appends `_total` to every counter (Kubernetes has some without), and
prints whole numbers as `3.0`.

Tests: tests/unit/componentbase/metrics/test_instruments.py.
"""

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric

from trireme_kube.componentbase.metrics import protobuf_exposition
from trireme_kube.componentbase.metrics.number_text import number_text

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
PROTOBUF = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores"
)

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
    if _wants_protobuf(headers.get("Accept", "")):
        body, content_type = protobuf_exposition.encode(families), PROTOBUF
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
        for sample in family.samples:
            labels = ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in sample.labels.items())
            braces = f"{{{labels}}}" if labels else ""
            lines.append(f"{sample.name}{braces} {number_text(sample.value)}")
    return "\n".join(lines) + "\n" if lines else ""


def _wants_protobuf(accept: str) -> bool:
    """Whether the first supported type is protobuf."""
    for entry in accept.split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        if media in ("text/plain", "*/*"):
            return False
        if media == "application/vnd.google.protobuf" and "encoding=delimited" in parameters:
            return True
    return False
