"""The report as one HTML page: no script, no request to any host, light and dark as the reader's system is.

Tests: tests/unit/shadow/test_report.py.
"""

import html
import time
from collections.abc import Callable

from trireme.shadow import decision_comparison, report, report_lines, svg_plots, time_series
from trireme.shadow.judgement import Outcome
from trireme.shadow.migration.finding import FindingKind

_STYLE = """
:root{color-scheme:light dark;--page:#fff;--text:#1d2330;--quiet:#5c6577;--line:#d9dee7;--card:#f6f8fb;--there:#b4540a;
--here:#0b62b8;--same:#1f7a3d;--tied:#6f9e2c;--different:#b3261e;--order:#b08900;--unknown:#7a7f8a}
@media(prefers-color-scheme:dark){:root{--page:#12161d;--text:#e4e8ef;--quiet:#a2abbb;--line:#303846;--card:#1a2029;
--there:#f0a060;--here:#6cb2f5;--same:#5cc27f;--tied:#a9cf6d;--different:#f28b82;--order:#e3c14e;--unknown:#9aa1ae}}
*{box-sizing:border-box}body{margin:0 auto;max-width:62rem;padding:1.5rem 1rem 4rem;background:var(--page);
color:var(--text);font:15px/1.5 system-ui,sans-serif}h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;
margin:2.2rem 0 .6rem}p{margin:.4rem 0}.quiet,.tick{color:var(--quiet);fill:var(--quiet)}.tick{font-size:11px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}
.single{max-width:31rem;margin:1rem 0}details details{margin-left:1rem}figure{margin:0;padding:.6rem;
background:var(--card);border:1px solid var(--line);border-radius:6px}figcaption{font-weight:600;font-size:.9rem}
svg{width:100%;height:auto;display:block}.grid{stroke:var(--line)}.line{fill:none;stroke-width:1.8}
.line.there{stroke:var(--there)}.line.here{stroke:var(--here)}.there{color:var(--there)}.here{color:var(--here)}
table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{text-align:left;padding:.3rem .6rem .3rem 0;
border-bottom:1px solid var(--line);vertical-align:top}td.number,th.number{text-align:right;
font-variant-numeric:tabular-nums}.wide{overflow-x:auto}.bar{display:flex;height:1.4rem;border-radius:4px;overflow:hidden;
margin:.6rem 0;background:var(--card)}.bar span{min-width:2px}.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}.notice{border-left:4px solid
var(--order);background:var(--card);padding:.4rem .8rem;margin:.5rem 0}details{border-bottom:1px solid var(--line);
padding:.35rem 0}summary{cursor:pointer}code{font-size:.92em;overflow-wrap:anywhere}.empty{color:var(--quiet)}
"""

_OUTCOMES = (
    (Outcome.SAME, "same", "Trireme chooses the same node"),
    (Outcome.TIED, "tied", "the node scores as high as Trireme's choice"),
    (Outcome.DIFFERENT, "different", "Trireme chooses another node, or refuses this one"),
    (Outcome.ORDER, "order", "different, but the best on a state that the scheduler may have seen"),
    (Outcome.UNKNOWN, "unknown", "not compared: the state of the moment is not known"),
    (Outcome.ERROR, "unknown", "not compared: the pod could not be evaluated"),
)


def page(found: report.Report) -> str:
    """The whole page."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name=viewport content="width=device-width,initial-scale=1"><title>Trireme shadow report</title>',
        f"<style>{_STYLE}</style></head><body><h1>Trireme shadow report</h1>",
        _heading(found),
        "".join(f"<p class=notice>{html.escape(text)}</p>" for text in found.notices),
        "<main><h2>On the same state</h2>",
        _comparison(found),
        "<h2>In a simulated cluster</h2>",
        _worlds(found),
        "<h2>Migration</h2>",
        _migration(found),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _heading(found: report.Report) -> str:
    """What was observed, and when."""
    state = "final" if found.is_final else "the run goes on"
    first = f"; the first report came after {report_lines.seconds(found.first_report)}" if found.first_report else ""
    configuration = found.configuration or "the default configuration"
    return (
        f"<p class=quiet>{html.escape(found.server)} · {_moment(found.began)} to {_moment(found.written)} UTC, "
        f"{state}{first}<br>Decisions with {html.escape(configuration)}, profiles "
        f"{html.escape(', '.join(found.profiles))}. Nothing was written to the cluster.</p>"
    )


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _comparison(found: report.Report) -> str:
    """How each binding compares, with examples."""
    total = sum(found.counts.values())
    if not total:
        return "<p class=empty>No pod was bound since the start.</p>"
    bar = "".join(
        f'<span style="flex:{count};background:var(--{style})" title="{outcome.value}: {count:,}"></span>'
        for outcome, style, _ in _OUTCOMES
        if (count := found.counts.get(outcome, 0))
    )
    rows = "".join(
        f'<tr><td><span class=key style="background:var(--{style})"></span>{outcome.value}'
        f"<td class=number>{found.counts.get(outcome, 0):,}<td class=number>"
        f"{found.counts.get(outcome, 0) / total:.2%}<td>{text}"
        for outcome, style, text in _OUTCOMES
    )
    return (
        f"<p>{_agreement(found)}</p>"
        f"<div class=bar aria-hidden=true>{bar}</div><div class=wide><table><tr><th>outcome<th class=number>bindings"
        f"<th class=number>share<th>meaning{rows}</table></div>"
        f"{_asides(found)}{_agreement_plot(found)}{_examples(found)}"
    )


def _agreement(found: report.Report) -> str:
    """The share of the compared bindings that agree, as a sentence."""
    if not found.compared:
        return "None of these bindings could be compared."
    return f"<b>{found.agreement:.2%}</b> of {found.compared:,} compared bindings are the same or tied."


def _asides(found: report.Report) -> str:
    """Counts beside the outcomes."""
    texts = [
        (found.born_bound, "pods were created with a node, and are not compared"),
        (found.waiting_for_order, "different bindings still wait for those after them, and are not counted yet"),
        (
            found.unexamined,
            "of the different bindings were too many at once to examine whether the order explains them",
        ),
    ]
    return "".join(f"<p class=quiet>{count:,} {text}.</p>" for count, text in texts if count)


def _agreement_plot(found: report.Report) -> str:
    """The share of agreement over time."""
    samples = [each for each in found.samples if each.compared]
    values = [each.agreed / each.compared for each in samples]
    series = [svg_plots.Series("here", "same or tied", values)]
    times = [each.at for each in samples]
    return f"<div class=single>{svg_plots.plot('Same or tied, of all so far', times, series, _percent)}</div>"


def _examples(found: report.Report) -> str:
    """The latest bindings that differ, each to be opened."""
    if not found.examples:
        return ""
    shown = "".join(map(_example, found.examples))
    return f"<details><summary>The latest {len(found.examples)} that differ, with scores</summary>{shown}</details>"


def _example(pod: decision_comparison.ComparedPod) -> str:
    """One binding with the scores of both nodes."""
    found = pod.found
    rows = "".join(
        f"<tr><td>{html.escape(each.plugin)}<td class=number>{each.weight}<td class=number>{each.chosen}"
        f"<td class=number>{each.preferred}<td class=number>{each.preferred - each.chosen:+}"
        for each in found.plugins
    )
    table = (
        f"<div class=wide><table><tr><th>weighted scores<th class=number>weight<th class=number>"
        f"{html.escape(found.chosen)}<th class=number>{html.escape(found.preferred)}<th class=number>difference{rows}"
        f"<tr><td>total<td><td class=number>{found.chosen_total}<td class=number>{found.preferred_total}"
        f"<td class=number>{found.preferred_total - found.chosen_total:+}</table></div>"
        if rows
        else ""
    )
    return (
        f"<details><summary><code>{html.escape(pod.key)}</code> on {html.escape(found.chosen)}: "
        f"{found.outcome.value}</summary><p>{html.escape(found.detail)}.</p><p class=quiet>Profile "
        f"{html.escape(pod.profile)}, bound {_moment(pod.wall)} UTC, {found.feasible:,} feasible nodes.</p>{table}"
        "</details>"
    )


_Read = Callable[[time_series.WorldSample], float]


def _worlds(found: report.Report) -> str:
    """Both clusters over time."""
    samples = [each for each in found.samples if each.here is not None]
    if not samples:
        return "<p class=empty>Trireme's simulated cluster is not run.</p>"
    plots: tuple[tuple[str, _Read, Callable[[float], str]], ...] = (
        ("Pending pods", lambda each: each.pending, _count),
        ("Wait for a node, median", lambda each: each.wait_median, report_lines.seconds),
        ("Wait for a node, p99", lambda each: each.wait_p99, report_lines.seconds),
        ("Nodes in use", lambda each: each.measured.nodes_in_use, _count),
        ("CPU requested", lambda each: each.measured.cpu, _percent),
        ("Memory requested", lambda each: each.measured.memory, _percent),
        ("Free CPU where no large pod fits", lambda each: each.measured.fragmentation, _percent),
        ("Spread over nodes", lambda each: each.measured.node_spread, _percent),
        ("Spread over zones", lambda each: each.measured.zone_spread, _percent),
        ("Preempted pods", lambda each: each.preemptions, _count),
    )
    times = [each.at for each in samples]
    asides = _simulated_cluster_asides(found)
    figures = "".join(_world_plot(title, times, samples, read, label) for title, read, label in plots)
    return (
        "<p>The same arrivals and departures: <span class=there>● the cluster</span>, "
        f"<span class=here>● Trireme</span>. Trireme's pods wait for no write of a binding.</p>{asides}"
        f"<div class=plots>{figures}</div>"
    )


def _simulated_cluster_asides(found: report.Report) -> str:
    """In what the simulated cluster is not the cluster with other placements."""
    texts = [
        (found.followed, "pods with claims to volumes or devices were placed as in the cluster"),
        (
            found.node_losses,
            "times a pod lost its node in the simulated cluster alone, because the cluster removed, drained or tainted "
            "the node, and was placed anew",
        ),
        (
            found.missing,
            "pods of the cluster are not in the simulated cluster: it preempted them, and no controller makes them "
            "again",
        ),
    ]
    return "".join(f"<p class=quiet>{count:,} {text}.</p>" for count, text in texts if count)


def _world_plot(
    title: str,
    times: list[float],
    samples: list[time_series.Sample],
    read: _Read,
    label: Callable[[float], str],
) -> str:
    """One figure of both clusters over time."""
    there = [read(each.there) for each in samples]
    here = [read(each.here) for each in samples if each.here is not None]
    series = [svg_plots.Series("there", "the cluster", there), svg_plots.Series("here", "Trireme", here)]
    return svg_plots.plot(title, times, series, label)


def _migration(found: report.Report) -> str:
    """The findings of the migration check."""
    if not found.findings:
        return "<p class=empty>Nothing of the cluster's scheduler is visible yet.</p>"
    rows = "".join(
        f"<tr><td>{kind.value}<td><code>{html.escape(each.subject)}</code><td>{html.escape(each.text)}"
        for kind in FindingKind
        for each in found.findings
        if each.kind is kind
    )
    return f"<div class=wide><table><tr><th>finding<th>about<th>what it means{rows}</table></div>"


def _percent(share: float) -> str:
    return f"{share:.4g}" if share and abs(share) < 1e-4 else f"{100 * share:.4g} %"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
