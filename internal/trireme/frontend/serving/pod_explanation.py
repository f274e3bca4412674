"""What insight adds to the explanation of a pod: its evaluation while it waits, else the decision about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving import decision_report, insight_report

Json = dict[str, Any]


class BadQuery(ValueError):
    """The query asks for what is not there; the text names the field."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the query of /trireme/v1/explain asks insight for."""

    nodes: Sequence[str]
    proposals: bool
    preemption: bool
    all_nodes: bool

    @staticmethod
    def from_query(query: Mapping[str, Sequence[str]]) -> "Wanted":
        """Read `nodes` (names with commas), and `proposals`, `preemption` and `allNodes` (`true`)."""

        def is_true(name: str) -> bool:
            return list(query.get(name, ()))[:1] == ["true"]

        nodes = [name for name in (query.get("nodes") or [""])[0].split(",") if name]
        return Wanted(nodes, is_true("proposals"), is_true("preemption"), is_true("allNodes"))


async def add_insight(
    report: Json,
    key: str,
    wanted: Wanted,
    insight: insight_replicas.InsightReplicas | None,
    extenders: Sequence[str],
) -> None:
    """Add `evaluation` to the report of a pod (namespace/name) that is tried, `decision` to that of a bound one.

    If insight does not answer, its error is in their place. `extenders` are the URLs of HTTP extenders. Raises:
    BadQuery.
    """
    if insight is None:
        requested = [name for name in ("nodes", "proposals", "all_nodes") if getattr(wanted, name)]
        if requested:
            field = "allNodes" if requested[0] == "all_nodes" else requested[0]
            raise BadQuery(f"{field}: this takes insight, and insight.endpoints names none")
        return
    if "attempts" not in report and report["place"] != "bound":
        return
    part = "evaluation" if "attempts" in report else "decision"
    found: Json | None
    try:
        if part == "evaluation":
            found = await insight_report.evaluate_pod(
                insight,
                key,
                report["uid"],
                wanted.nodes,
                extenders,
                proposals=wanted.proposals,
                preemption=wanted.preemption,
            )
        else:
            found = await decision_report.explain_decision(
                insight, key, report["uid"], wanted.nodes, all_nodes=wanted.all_nodes
            )
    except (insight_replicas.InsightRefusal, insight_replicas.InsightUnavailable) as error:
        if str(error).startswith("nodes:"):
            raise BadQuery(str(error)) from error
        found = {"error": str(error)}
    if found is not None:
        report[part] = found
