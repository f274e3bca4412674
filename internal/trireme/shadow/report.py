"""What a report says: the values, from which the page, the lines of the terminal and the JSON are made.

`shadow_run` makes it. `make docs` writes the schema of the JSON from the types here.

Also change: docs/shadow.md.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from trireme.shadow import decision_comparison, time_series
from trireme.shadow.judgement import Outcome
from trireme.shadow.migration import finding


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """One report. Units: Unix seconds for `began` and `written`, seconds for `first_report` (0: this is the first)."""

    server: str
    configuration: str
    profiles: tuple[str, ...]
    began: float
    written: float
    first_report: float
    is_final: bool
    #: What did not take part or went wrong, as sentences.
    notices: tuple[str, ...]
    counts: Mapping[Outcome, int]
    compared: int
    agreement: float
    waiting_for_order: int
    unexamined: int
    born_bound: int
    examples: Sequence[decision_comparison.ComparedPod]
    samples: Sequence[time_series.Sample]
    #: Of the simulated cluster: pods with claims, pods that lost their node, and pods that only the cluster still has.
    followed: int
    node_losses: int
    missing: int
    findings: Sequence[finding.Finding]

    @property
    def newest(self) -> time_series.Sample | None:
        """The newest sample; None before the first."""
        return self.samples[-1] if self.samples else None


class PluginScores(TypedDict):
    """One plugin's weighted scores of the chosen node and of the preferred one."""

    plugin: str
    weight: int
    node: int
    preferred: int


class ComparedPodReport(TypedDict):
    """A compared pod: where it went, and which node Trireme prefers."""

    pod: str
    profile: str
    outcome: str
    node: str
    preferred: str
    total: int
    preferredTotal: int
    plugins: list[PluginScores]
    detail: str


class ComparisonReport(TypedDict):
    """How many bindings are the same, tied, different and so on; `agreement` null: none was compared."""

    compared: int
    agreement: float | None
    same: int
    tied: int
    different: int
    order: int
    unknown: int
    error: int
    waiting: int
    unexamined: int
    bornBound: int
    examples: list[ComparedPodReport]


class ClusterReport(TypedDict):
    """One cluster: shares are 0 to 1, waits in seconds. The last three are of the simulated one."""

    nodes: int
    pods: int
    nodes_in_use: int
    cpu: float
    memory: float
    fragmentation: float
    node_spread: float
    zone_spread: float
    pending: int
    preemptions: int
    waitMedian: float
    waitP99: float
    followed: NotRequired[int]
    nodeLosses: NotRequired[int]
    missing: NotRequired[int]


class ClusterReports(TypedDict):
    """The cluster as it is, and as Trireme would have it."""

    other: NotRequired[ClusterReport]
    trireme: NotRequired[ClusterReport]


class FindingReport(TypedDict):
    """A finding about the migration."""

    kind: str
    subject: str
    text: str
    refused: bool


class ShadowReport(TypedDict):
    """What `trireme shadow -o json` prints on a line for each report. Times are Unix seconds."""

    server: str
    began: float
    written: float
    firstReportSeconds: float
    final: bool
    notices: list[str]
    comparison: ComparisonReport
    worlds: ClusterReports
    migration: list[FindingReport]


def to_json(report: Report) -> dict[str, Any]:
    """The report without its history, for programs. Keys are stable; shares are 0 to 1, times in seconds.

    The agreement is None where no binding was compared.
    """
    newest = report.newest
    return {
        "server": report.server,
        "began": report.began,
        "written": report.written,
        "firstReportSeconds": report.first_report,
        "final": report.is_final,
        "notices": list(report.notices),
        "comparison": {
            "compared": report.compared,
            "agreement": report.agreement if report.compared else None,
            **{outcome.value: report.counts.get(outcome, 0) for outcome in Outcome},
            "waiting": report.waiting_for_order,
            "unexamined": report.unexamined,
            "bornBound": report.born_bound,
            "examples": [_example(each) for each in report.examples],
        },
        "worlds": {}
        if newest is None
        else {
            "other": _world(newest.there),
            **({} if newest.here is None else {"trireme": _simulated_cluster(newest.here, report)}),
        },
        "migration": [dataclasses.asdict(each) | {"kind": each.kind.value} for each in report.findings],
    }


def _example(pod: decision_comparison.ComparedPod) -> dict[str, Any]:
    """One compared pod."""
    found = pod.found
    return {
        "pod": pod.key,
        "profile": pod.profile,
        "outcome": found.outcome.value,
        "node": found.chosen,
        "preferred": found.preferred,
        "total": found.chosen_total,
        "preferredTotal": found.preferred_total,
        "plugins": [
            {"plugin": each.plugin, "weight": each.weight, "node": each.chosen, "preferred": each.preferred}
            for each in found.plugins
        ],
        "detail": found.detail,
    }


def _simulated_cluster(sample: time_series.WorldSample, report: Report) -> dict[str, Any]:
    """The simulated cluster as of its newest sample."""
    return {
        **_world(sample),
        "followed": report.followed,
        "nodeLosses": report.node_losses,
        "missing": report.missing,
    }


def _world(sample: time_series.WorldSample) -> dict[str, Any]:
    """One cluster as of its newest sample."""
    return {
        **dataclasses.asdict(sample.measured),
        "pending": sample.pending,
        "preemptions": sample.preemptions,
        "waitMedian": sample.wait_median,
        "waitP99": sample.wait_p99,
    }
