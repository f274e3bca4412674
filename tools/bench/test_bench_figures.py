"""Figures, processes, sides and reports: what is counted, and what is made of it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.driver import figures, plots, processes, report, sides

BENCH = Path(__file__).resolve().parent


def window(**changes: Any) -> figures.Window:
    """Ten pods created in the first second and bound one every half second from the start on."""
    plain = figures.Window(
        started=100.0,
        created=101.0,
        bound=[100.5 + index / 2 for index in range(10)],
        complete=106.0,
        event_lags=[0.1 * index for index in range(10)],
        events_behind=3,
        waits=[0.5 + index / 4 for index in range(10)],
        cpu_s={"frontend": 0.02, "filter": 0.01},
        pss_mb={"frontend": 100.0, "filter": 50.0},
        others_cpu_s={"API server": 0.05, "elsewhere": 0.6},
        capacity_s=12.0,
    )
    return dataclasses.replace(plain, **changes)


def test_rates_are_totals_over_totals() -> None:
    """A scheduler that pauses would look faster than it is."""
    found = figures.figures(window())
    assert found.pods_per_s == pytest.approx(10 / 5.0)
    assert found.after_create_pods_per_s == pytest.approx(8 / 4.0), "eight bound in the four seconds after creation"
    assert found.first_bind_s == pytest.approx(0.5)


def test_a_pod_is_complete_when_all_about_it_is_written() -> None:
    """A scheduler that puts its events off would look faster than one that does not."""
    found = figures.figures(window())
    assert found.complete_pods_per_s == pytest.approx(10 / 6.0)
    assert (found.events_behind, found.events_missing) == (3, 0)
    assert found.event_lag_p99_ms == pytest.approx(900.0)
    assert found.event_lag_max_ms == pytest.approx(900.0)


def test_events_that_are_dropped_are_not_written_sooner() -> None:
    """A scheduler that drops its events would be the fastest of all."""
    found = figures.figures(window(event_lags=[0.1] * 9))
    assert found.complete_pods_per_s is None
    assert found.events_missing == 1
    rows = report.rows([report.Run("trireme", "basic", "5000Nodes", 5000, 0, found, None, 1.0)])
    assert "| 1 events missing |" in report.table(rows)


def test_costs_are_added_over_processes() -> None:
    """A scheduler of four processes would be charged for one."""
    found = figures.figures(window())
    assert found.cpu_ms_per_pod == pytest.approx(3.0)
    assert found.pss_mb == pytest.approx(150.0)
    assert found.processes["filter"] == {"cpu_ms_per_pod": pytest.approx(1.0), "pss_mb": 50.0}
    assert found.others_cpu_ms_per_pod == {"API server": pytest.approx(5.0), "elsewhere": pytest.approx(60.0)}
    assert found.elsewhere_percent == pytest.approx(5.0)


def test_rate_after_creation_needs_pods_left() -> None:
    """One straggler would make a rate."""
    assert figures.figures(window(created=104.9)).after_create_pods_per_s is None


def test_rate_of_a_backlog_starts_with_the_first_binding() -> None:
    """The time a scheduler takes to start would be in both rates, and nowhere could one see how fast it binds."""
    found = figures.figures(window(created=100.0))
    assert found.pods_per_s == pytest.approx(10 / 5.0)
    assert found.after_create_pods_per_s == pytest.approx(9 / 4.5)


def test_waits() -> None:
    """Latency would be reported in the wrong unit or order."""
    found = figures.figures(window())
    assert (found.wait_p50_ms, found.wait_p99_ms, found.wait_max_ms) == (1500.0, 2750.0, 2750.0)
    assert figures.figures(window(waits=[])).wait_p50_ms is None


def test_idle_cpu_is_reported_where_it_was_measured() -> None:
    """What waits and costs nothing could not be told from what waits and spins."""
    assert figures.figures(window(idle_cpu_ms_per_s=2.5)).idle_cpu_ms_per_s == 2.5
    assert figures.figures(window()).idle_cpu_ms_per_s is None


def test_nothing_bound_is_an_error() -> None:
    """A scheduler that binds nothing would divide by zero, or be reported as infinitely fast."""
    with pytest.raises(ValueError, match="no pod"):
        figures.figures(window(bound=[]))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_percentile_is_a_value_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    """p99 would be a number that no pod waited, or one that more than a hundredth exceed."""
    ascending = sorted(values)
    found = figures.percentile(ascending, share)
    assert found in ascending
    assert sum(1 for each in ascending if each <= found) >= share * len(ascending) - 1e-9
    below = [each for each in ascending if each < found]
    assert len(below) < share * len(ascending) + 1e-9


def test_spread() -> None:
    """A round without a figure would count as zero."""
    assert figures.spread([3.0, None, 1.0, 2.0]) == figures.Spread(2.0, 1.0, 3.0)
    assert figures.spread([None]) is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(["/usr/bin/python3.11", "-X", "/repo/cmd/frontend", "--config=x"], "frontend", id="script"),
        pytest.param(["python", "-m", "trireme.filter.__main__", "--x"], "trireme.filter", id="module"),
        pytest.param(["python", "slow_plugin.py"], "slow_plugin", id="file"),
        pytest.param(["/b/controlplane", "kube-scheduler", "--config=x"], "kube-scheduler", id="controlplane"),
        pytest.param(["/usr/bin/trireme-bind"], "trireme-bind", id="program"),
        pytest.param([], "?", id="nothing"),
    ],
)
def test_process_labels(command: list[str], name: str) -> None:
    """Nobody could tell which of a scheduler's processes the time goes to."""
    assert processes.label(command) == name


class FakeProc:
    """A /proc with processes that the test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, pid: int, parent: int, name: str, ticks: int, pss_kb: int | None) -> None:
        """Adds or changes a process; without memory it is a zombie."""
        entry = self.root / str(pid)
        entry.mkdir(exist_ok=True)
        fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "7000", "7000", *["0"] * 5]
        (entry / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")
        (entry / "smaps_rollup").write_text(f"Rss: 99999 kB\nPss: {pss_kb} kB\n" if pss_kb is not None else "")
        (entry / "cmdline").write_bytes(name.encode() + b"\0")

    def remove(self, pid: int) -> None:
        """Ends a process."""
        for file in (self.root / str(pid)).iterdir():
            file.unlink()
        (self.root / str(pid)).rmdir()


def by_label(samples: Mapping[int, processes.Sample]) -> dict[str, tuple[float, float]]:
    """Processor ticks and megabytes by process."""
    return {each.label: (round(each.cpu_s / processes.TICK), each.pss_mb) for each in samples.values()}


def test_process_tree_counts_children_and_the_time_of_those_that_ended(tmp_path: Path) -> None:
    """A scheduler's children, or the time of one that was replaced, would be free; memory that is gone would count."""
    proc = FakeProc(tmp_path)
    proc.put(10, 1, "frontend", 50, 2048)
    proc.put(12, 11, "grandchild", 7, 1024)
    proc.put(11, 10, "filter", 30, 1024)
    proc.put(20, 1, "stranger", 999, 4096)
    tree = processes.ProcessTree([10], tmp_path)
    assert by_label(tree.sample()) == {"frontend": (50, 2.0), "filter": (30, 1.0), "grandchild": (7, 1.0)}
    proc.remove(11)
    proc.put(13, 10, "bind", 5, 512)
    proc.put(12, 11, "grandchild", 9, None)
    expected = {"frontend": (50, 2.0), "filter": (30, 0.0), "grandchild": (7, 0.0), "bind": (5, 0.5)}
    assert by_label(tree.sample()) == expected


def test_process_tree_has_this_process_and_its_children_only() -> None:
    """The driver would be charged for the API server that it started, or /proc be read in the wrong places."""
    samples = processes.ProcessTree([os.getpid()], descend=False).sample()
    assert list(samples) == [os.getpid()]
    assert 1 < samples[os.getpid()].pss_mb < 10_000
    assert samples[os.getpid()].cpu_s > 0


def test_machine_cpu_leaves_idle_time_out(tmp_path: Path) -> None:
    """An idle machine would be reported as busy with others, or one that its host keeps waiting as idle."""
    (tmp_path / "stat").write_text("cpu  100 1 20 9999 888 3 4 5 0 0\ncpu0 1 2 3\n")
    assert round(processes.machine_cpu_s(tmp_path) / processes.TICK) == 133


@pytest.mark.parametrize(
    ("busy_shares", "patience", "idle_after"),
    [
        pytest.param([0, 0, 0], 10, 3, id="at-once"),
        pytest.param([0, 0, 1, 0, 0, 0], 10, 6, id="begins-again-after-a-busy-second"),
        pytest.param([1] * 10, 5, None, id="never"),
    ],
)
def test_wait_until_idle(busy_shares: list[float], patience: float, idle_after: int | None) -> None:
    """Runs would start while others use the machine, or a benchmark on a busy one never begin."""
    slept: list[float] = []
    busy = [sum(busy_shares[:second]) * processes.CPUS for second in range(len(busy_shares) + 1)]
    reached = processes.wait_until_idle(patience, busy_s=lambda: busy[len(slept)], sleep=slept.append)
    assert reached == (idle_after is not None)
    assert len(slept) == (patience if idle_after is None else idle_after)


SIDES = """
pair:
  files:
    own.yaml: {filter: ["unix:{directory}/0.sock"], batch: 4}
  featureGates: true
  configuration: {percentageOfNodesToScore: 100}
  processes:
    - {replicas: 2, command: [phase, "--listen={directory}/{index}.sock"]}
    - {command: [frontend, "--port={port}"]}
"""


def test_side_commands() -> None:
    """Replicas would share a socket, or a scheduler run without the gates that its workload needs."""
    side = sides.read(SIDES)["pair"]
    assert sides.processes(side) == 3
    plain = sides.commands(side, {"directory": "/d"}, [1, 2, 3], {})
    assert plain == [["phase", "--listen=/d/0.sock"], ["phase", "--listen=/d/1.sock"], ["frontend", "--port=3"]]
    gated = sides.commands(side, {"directory": "/d"}, [1, 2, 3], {"A": True, "B": False})
    assert {command[-1] for command in gated} == {"--feature-gates=A=true,B=false"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: {processes: [{command: ['{nothing}']}]}", "nothing", id="unknown-name"),
        pytest.param("a: {}", "processes are missing", id="no-processes"),
        pytest.param("a: {processes: [{command: [x]}], replicas: 2}", "unknown replicas", id="unknown-field"),
    ],
)
def test_sides_refused(text: str, message: str) -> None:
    """A typing error in sides.yaml would start something else, or nothing."""
    with pytest.raises(sides.SideError, match=message):
        sides.commands(sides.read(text)["a"], {}, [1], {})


def test_side_files_are_filled_in() -> None:
    """A scheduler whose phases run apart would look for them in another folder."""
    side = sides.read(SIDES)["pair"]
    assert sides.filled(side, side.files, {"directory": "/d"}) == {
        "own.yaml": {"filter": ["unix:/d/0.sock"], "batch": 4}
    }


def test_our_sides_are_complete() -> None:
    """A side would fail to start when the benchmark has been running for a while."""
    known = sides.read((BENCH / "sides.yaml").read_text())
    places = "python", "controlplane", "repository", "bench", "kubeconfig", "config", "directory"
    names = {**dict.fromkeys(places, "x"), "first_port": "1"}
    for side in sides.select(known, list(known)):
        assert all(sides.commands(side, names, [1] * sides.processes(side), {}))
        sides.filled(side, side.configuration, names)
    assert known["limit"].undecided
    with pytest.raises(sides.SideError, match="no side is called 'limits'"):
        sides.select(known, ["limits"])


def test_configuration_lifts_client_limits_and_takes_overrides() -> None:
    """Both schedulers would be measured at their default of 50 requests a second."""
    parsed = yaml.safe_load(sides.configuration(Path("/k"), {"percentageOfNodesToScore": 100}))
    assert parsed["clientConnection"] == {"kubeconfig": "/k", "qps": 5000, "burst": 5000}
    assert parsed["leaderElection"] == {"leaderElect": False}
    assert parsed["percentageOfNodesToScore"] == 100
    parsed = yaml.safe_load(sides.configuration(Path("/k"), {"clientConnection": {"qps": 50}}))
    assert parsed["clientConnection"] == {"kubeconfig": "/k", "qps": 50, "burst": 5000}


def runs() -> list[report.Run]:
    """Two rounds of two sides, one of them failed."""
    fast = figures.figures(window())
    slow = figures.figures(window(bound=[100.5 + index for index in range(10)], complete=112.0))
    return [
        report.Run("limit", "basic", "5000Nodes", 5000, 0, fast, None, 1.0),
        report.Run("kube-scheduler", "basic", "5000Nodes", 5000, 0, slow, None, 1.0),
        report.Run("kube-scheduler", "basic", "5000Nodes", 5000, 1, None, "TimeoutError: stuck", 1.0),
    ]


def test_rows_have_the_documented_columns() -> None:
    """A reader of build/bench.json would miss a column, or take one failed round for a figure."""
    limit, kube = report.rows(runs())
    promised = {
        "side",
        "workload",
        "nodes",
        "complete_pods_per_s",
        "events_behind",
        "pods_per_s",
        "after_create_pods_per_s",
        "cpu_ms_per_pod",
        "pss_mb",
    }
    assert promised <= limit.keys()
    assert (limit["side"], limit["nodes"], limit["pods_per_s"], limit["pods_per_s_range"]) == (
        "limit",
        5000,
        2.0,
        [2, 2],
    )
    assert (kube["rounds"], kube["errors"]) == (1, ["TimeoutError: stuck"])
    assert json.loads(json.dumps([limit, kube])) == [limit, kube]


def test_ratios() -> None:
    """The table would say how fast a side is compared with itself."""
    rows = report.rows(runs())
    limit, kube = rows
    assert report.ratio(kube, limit, "complete_pods_per_s") == pytest.approx(6.0 / 12.0, abs=1e-3)
    assert report.ratio(kube, None, "complete_pods_per_s") is None
    *_, line = report.table(rows).splitlines()
    assert re.sub(r"\s+", "", line).startswith("|basic|5000|kube-scheduler|1|1–1|0.50|3|900|1|")


def test_rows_of_a_workload_stand_together() -> None:
    """Runs that are added to a result would stand far from what they are compared with."""
    told = [("start", 5000, "trireme"), ("basic", 5000, "limit"), ("start", 5000, "limit"), ("basic", 500, "trireme")]
    rows = [{"workload": name, "nodes": nodes, "variant": str(nodes), "side": side} for name, nodes, side in told]
    found = [(row["workload"], row["nodes"], row["side"]) for row in report.grouped(rows)]
    assert found == [told[2], told[0], told[3], told[1]]


def test_trireme_stands_beside_kube_scheduler_with_the_ratio() -> None:
    """A workload that one of them did not run would have a ratio of nothing."""
    theirs, ours = (
        {**row, "side": side} for row, side in zip(report.rows(runs()), ["kube-scheduler", "trireme"], strict=True)
    )
    alone = {**ours, "workload": "mix"}
    _, _, *lines = report.comparison_table([theirs, ours, alone]).splitlines()
    (cells,) = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert cells[:3] == ["`basic`, 10 pods", "1, 2", "0.50"]


def test_document_is_rendered_between_its_markers() -> None:
    """Rendering twice would leave two tables, or eat the text around them."""
    text = f"before\n\n{report.BEGIN}\nold\n{report.END}\n\nafter\n"
    bench = {
        "commit": "0123456789abcdef",
        "date": "2026-01-01",
        "rounds": 3,
        "machine": {"cpu": "a processor", "cpus": 2, "memory_gb": 24, "kernel": "6.1"},
        "versions": {"kubernetes": "v1.37.0"},
        "rows": report.rows(runs()),
    }
    once = report.document(text, bench)
    assert once.startswith("before\n\n")
    assert once.endswith("\n\nafter\n")
    assert "old" not in once
    assert "2 × a processor" in once
    assert report.document(once, bench) == once
    with pytest.raises(ValueError, match="no '<!--"):
        report.document("plain", bench)


def _cpu(side: str, workload: str, variant: str, cpu_ms: float | None) -> dict[str, Any]:
    return {"side": side, "workload": workload, "variant": variant, "cpu_ms_per_pod": cpu_ms}


def test_a_plot_has_the_sizes_that_both_sides_ran() -> None:
    rows = [
        _cpu("trireme", "kinds", "100Kinds", 1.5),
        _cpu("kube-scheduler", "kinds", "100Kinds", 3.0),
        _cpu("trireme", "kinds", "1Kinds", 1.0),
        _cpu("kube-scheduler", "kinds", "1Kinds", 2.0),
        _cpu("trireme", "kinds", "1000Kinds", 1.7),
        _cpu("trireme", "kinds", "10Kinds", 1.2),
        _cpu("kube-scheduler", "kinds", "10Kinds", None),
        _cpu("trireme", "kinds", "50Nodes", 9.0),
        _cpu("kube-scheduler", "kinds", "50Nodes", 9.0),
    ]
    assert plots.points(rows, "kinds", "Kinds") == [(1, 1.0, 2.0), (100, 1.5, 3.0)]


def test_plots_are_written_where_each_has_two_sizes(tmp_path: Path) -> None:
    file = tmp_path / "plots.svg"
    rows = [_cpu(side, "kinds", f"{size}Kinds", 1.5) for side in ("trireme", "kube-scheduler") for size in (1, 10)]
    assert not plots.write(rows, file), "nothing by the number of nodes"
    assert not file.exists()
    sizes = [(side, size) for side in ("trireme", "kube-scheduler") for size in (500, 5000)]
    assert plots.write([*rows, *(_cpu(side, "distinct", f"{size}Nodes", 2.5) for side, size in sizes)], file)
    assert "<svg" in file.read_text()
