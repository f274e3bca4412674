"""The report of a verification, for programs: a document for JSON, and JUnit's XML.

Also change: internal/trireme/cli/plugin_command.py,
internal/trireme/plugin_verification/verification.py (the report's JSON).
Also change: docs/plugin-verification.md.

Tests: tests/unit/cli/test_plugin_command.py.
"""

from typing import Any, Literal, NotRequired, TypedDict
from xml.etree import ElementTree

from trireme.plugin_verification.verification import Outcome, Result, Verification
from trireme.v1 import plugin_pb2


class Sentence(TypedDict):
    """A sentence of the contract, and where it is."""

    source: str
    text: str


class SpecificationReport(TypedDict):
    """How the check of one specification ended; of one that is violated also the call."""

    number: str
    group: str
    title: str
    outcome: Literal["met", "violated", "notApplicable", "notChecked"]
    text: str
    sentences: list[Sentence]
    request: NotRequired[str]
    answer: NotRequired[str]


class Measurement(TypedDict):
    """How long calls of an RPC took."""

    rpc: str
    nodes: int
    concurrent: int
    medianMs: float
    p99Ms: float
    callsPerSecond: int


class Recommendation(TypedDict):
    """Settings for the plugin."""

    deadlineMs: int
    maxConcurrentCalls: int


class LatencyReport(TypedDict):
    """Measured latencies, and what follows for the configuration."""

    measurements: list[Measurement]
    recommendation: Recommendation


class VerificationReport(TypedDict):
    """What `trireme plugin verify -o json` prints."""

    address: str
    plugin: str
    version: str
    extensionPoints: list[str]
    conformant: bool
    counts: dict[str, int]
    specifications: list[SpecificationReport]
    latency: NotRequired[LatencyReport]


def document(verification: Verification) -> dict[str, Any]:
    """The verification as a document of plain values."""
    info, profile = verification.info, verification.profile
    points = plugin_pb2.ExtensionPoint.values()
    out: dict[str, Any] = {
        "address": verification.address,
        "plugin": info.name,
        "version": info.version,
        "extensionPoints": [
            plugin_pb2.ExtensionPoint.Name(point) if point in points else str(point) for point in info.extension_points
        ],
        "conformant": verification.conformant,
        "counts": {outcome.value: len(verification.having(outcome)) for outcome in Outcome},
        "specifications": [_result(each) for each in verification.results],
    }
    if profile is not None:
        out["latency"] = {
            "measurements": [
                {
                    "rpc": each.rpc,
                    "nodes": each.nodes,
                    "concurrent": each.concurrent,
                    "medianMs": round(each.median * 1000, 2),
                    "p99Ms": round(each.p99 * 1000, 2),
                    "callsPerSecond": round(each.calls_per_second),
                }
                for each in profile.measurements
            ],
            "recommendation": {"deadlineMs": profile.deadline_ms, "maxConcurrentCalls": profile.max_concurrent_calls},
        }
    return out


def junit(report: dict[str, Any]) -> bytes:
    """The document as JUnit's XML: a case for each specification, skipped where it does not apply."""
    specifications, counts = report["specifications"], report["counts"]
    suite = ElementTree.Element(
        "testsuite",
        name=f"trireme plugin verify {report['plugin']}",
        tests=str(len(specifications)),
        failures=str(counts[Outcome.VIOLATED.value]),
        errors=str(counts[Outcome.NOT_CHECKED.value]),
        skipped=str(counts[Outcome.NOT_APPLICABLE.value]),
    )
    elements = {
        Outcome.VIOLATED.value: "failure",
        Outcome.NOT_CHECKED.value: "error",
        Outcome.NOT_APPLICABLE.value: "skipped",
    }
    for each in specifications:
        name = f"{each['number']} {each['title']}"
        case = ElementTree.SubElement(suite, "testcase", classname=each["group"], name=_printable(name))
        if each["outcome"] in elements:
            child = ElementTree.SubElement(case, elements[each["outcome"]], message=_printable(each["text"]))
            lines = [f"{sentence['source']}: {sentence['text']}" for sentence in each["sentences"]]
            lines += [f"{key}: {each[key]}" for key in ("request", "answer") if key in each]
            child.text = _printable("\n".join(lines))
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)


def _result(each: Result) -> dict[str, Any]:
    """One result as a document."""
    specification = each.specification
    out: dict[str, Any] = {
        "number": specification.number,
        "group": specification.group,
        "title": specification.title,
        "outcome": each.outcome.value,
        "text": each.text,
        "sentences": [{"source": sentence.source, "text": sentence.text} for sentence in each.sentences],
    }
    if each.exchange is not None:
        out["request"], out["answer"] = each.exchange.request_text(), each.exchange.answer_text()
    return out


def _printable(text: str) -> str:
    """The text without what XML cannot have: a plugin may answer anything."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
