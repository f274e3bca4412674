"""The report in the terminal: a few lines of at most 80 columns.

Tests: tests/unit/shadow/test_report.py.
"""

import textwrap
import time

from trireme.shadow import report, time_series
from trireme.shadow.judgement import Outcome

WIDTH = 80


def lines(found: report.Report) -> list[str]:
    """The lines of one report, without trailing spaces."""
    moment = time.strftime("%H:%M:%S", time.gmtime(found.written))
    newest = found.newest
    out = []
    if newest is not None:
        measured = newest.there.measured
        out.append(f"{moment}  {measured.nodes:,} nodes, {measured.pods:,} pods on them")
    else:
        out.append(f"{moment}  nothing was measured yet")
    out += _comparison_lines(found)
    if newest is not None and newest.here is not None:
        out += _world_lines(newest.there, newest.here) + _simulated_cluster_asides(found)
    return [line[:WIDTH].rstrip() for line in out]


def notices(found: report.Report) -> list[str]:
    """The notices, each indented and wrapped; a word that is longer than a line stays whole."""
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return [line for text in found.notices for line in wrapper.wrap(text)]


def _comparison_lines(found: report.Report) -> list[str]:
    """How the bindings compare."""
    if not found.compared:
        out = ["  same state: no binding was compared yet"]
    else:
        shares = ", ".join(
            f"{outcome.value} {found.counts.get(outcome, 0):,}"
            for outcome in (Outcome.SAME, Outcome.TIED, Outcome.DIFFERENT, Outcome.ORDER)
        )
        out = [f"  same state: {found.compared:,} compared, {found.agreement:.2%} agree", f"    {shares}"]
    aside = {
        "unknown": found.counts.get(Outcome.UNKNOWN, 0),
        "errors": found.counts.get(Outcome.ERROR, 0),
        "not examined yet": found.waiting_for_order,
        "order not examined": found.unexamined,
    }
    texts = [f"{name} {count:,}" for name, count in aside.items() if count]
    return out + ([f"    {', '.join(texts)}"] if texts else [])


def _world_lines(there: time_series.WorldSample, here: time_series.WorldSample) -> list[str]:
    """Both clusters side by side."""
    rows = (
        ("pending pods", f"{there.pending:,}", f"{here.pending:,}"),
        ("wait, median / p99", _waits(there), _waits(here)),
        ("nodes in use", f"{there.measured.nodes_in_use:,}", f"{here.measured.nodes_in_use:,}"),
        ("cpu / memory requested", _requested(there), _requested(here)),
        ("free cpu in fragments", f"{there.measured.fragmentation:.1%}", f"{here.measured.fragmentation:.1%}"),
        ("spread, nodes / zones", _spread(there), _spread(here)),
        ("preempted pods", f"{there.preemptions:,}", f"{here.preemptions:,}"),
    )
    header = f"  {'simulated cluster':<26}{'other':>20}{'Trireme':>20}"
    return [header, *(f"    {name:<24}{left:>20}{right:>20}" for name, left, right in rows)]


def _simulated_cluster_asides(found: report.Report) -> list[str]:
    """In what the simulated cluster is not the cluster with other placements."""
    aside = {
        "placed anew after a loss of their node": found.node_losses,
        "missing after a preemption": found.missing,
    }
    return [f"    pods {name:<39}{count:>20,}" for name, count in aside.items() if count]


def seconds(value: float) -> str:
    """A duration with two digits that matter."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def _waits(sample: time_series.WorldSample) -> str:
    return f"{seconds(sample.wait_median)} / {seconds(sample.wait_p99)}"


def _requested(sample: time_series.WorldSample) -> str:
    return f"{sample.measured.cpu:.1%} / {sample.measured.memory:.1%}"


def _spread(sample: time_series.WorldSample) -> str:
    return f"{sample.measured.node_spread:.1%} / {sample.measured.zone_spread:.1%}"
