"""`trireme simulate`: the question that its flags make, and what it shows of the answer."""

import argparse
import pathlib
from typing import Any

import pytest

from trireme.cli import display, scenario_file, simulate_command, simulation_display

SCENARIO = "apiVersion: trireme.dev/v1alpha1\nkind: Scenario\nchanges:\n- drain: {nodeNames: [n1]}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"


def _options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    return parser.parse_args(["simulate", *arguments])


def _question(*arguments: str) -> dict[str, Any]:
    return simulate_command.make_question(_options(*arguments))


def test_flags_are_changes_in_their_order(tmp_path: pathlib.Path) -> None:
    """A drain before nodes are added would find less room."""
    (tmp_path / "s.yaml").write_text(SCENARIO)
    changes = _question(
        "--drain=n4,n5", "--add-nodes=3", "--like=n17", "--scale=deployment/web=200", "-n", "x", f"-f{tmp_path}/s.yaml"
    )["scenario"]["changes"]
    assert changes == [
        {"drain": {"nodeNames": ["n1"]}},
        {"addNodes": {"count": 3, "likeNode": "n17"}},
        {"scale": {"kind": "deployment", "namespace": "x", "name": "web", "replicas": 200}},
        {"drain": {"nodeNames": ["n4", "n5"]}},
    ]


def test_other_questions(tmp_path: pathlib.Path) -> None:
    """Each has a field of its own in the request."""
    (tmp_path / "pod.yaml").write_text(POD)
    assert _question("compact", "--max-nodes=2") == {"compaction": {"maxNodes": 2}}
    assert _question(f"--how-many={tmp_path}/pod.yaml")["howMany"]["manifest"]["metadata"] == {"name": "a"}
    assert _question("--without-pending-pods") == {"scenario": {"changes": [], "withoutPendingPods": True}}
    assert _question("--without-plugin=A") == {"scenario": {"changes": []}, "withoutPlugins": ["A"]}


def test_a_configuration_is_sent_as_profiles(tmp_path: pathlib.Path) -> None:
    """Insight cannot read the files of who asks."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}]\n"
    )
    (profile,) = _question(f"--config={path}")["profiles"]
    assert profile["schedulerName"] == "a"
    points = {point["extensionPoint"] for point in profile["pluginSets"]}
    assert "EXTENSION_POINT_FILTER" in points
    assert "EXTENSION_POINT_SCORE" not in points


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "nothing to simulate"),
        (["--add-nodes=3"], "--add-nodes and --like belong together"),
        (["--like=n1"], "--add-nodes and --like belong together"),
        (["--scale=web=3"], "--scale: 'web=3' is not of the form KIND/NAME=N"),
        (["--scale=deployment/web=x"], "is not of the form"),
        (["--scale=deployment/web=" + "9" * 5000], "--scale deployment/web: the number of replicas must be"),
        (["--scale=deployment/web=2147483648"], "--scale deployment/web: the number of replicas must be"),
        (["compact", "--drain=n1"], "compact and -f, --add-nodes, --drain, --scale are different questions"),
        (["-f/does/not/exist"], "/does/not/exist: No such file"),
    ],
)
def test_wrong_flags_are_named(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    """Nothing is asked that was not meant."""
    assert simulate_command.run(_options(*arguments)) == 1
    assert text in capsys.readouterr().err
    with pytest.raises((argparse.ArgumentTypeError, scenario_file.ScenarioFileError)):
        _question(*arguments)


def _pod(name: str) -> dict[str, str]:
    return {"namespace": "default", "name": name, "uid": ""}


def _usage(**more: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "allocatable": "4000", "requested": "1000"}]
    return {
        "nodeCount": 4, "usedNodes": 2, "placedPods": 7, "resources": resources, "referencePods": "3",
        "fragmentation": 0.25, "referenceRequests": {"cpu": "500"}, **more,
    }  # fmt: skip


def _report(**more: Any) -> dict[str, Any]:
    return {
        "placements": [], "pending": [], "evictions": [], "blocked": [], "moves": [], "cordoned": [],
        "notSimulated": [], "disconnectedMs": "0", "before": _usage(), "after": _usage(usedNodes=3), **more,
    }  # fmt: skip


@pytest.mark.parametrize("columns", [80, 120])
def test_an_answer_fits_the_terminal(columns: int) -> None:
    """Lines that the terminal breaks cannot be read as a table."""
    node = "worker-0001.eu-central-1.compute.internal"
    refusal = {
        "plugin": "NodeResourcesFit", "messages": ["Insufficient cpu"], "nodeCount": 40, "exampleNodes": [node] * 3,
    }  # fmt: skip
    report = _report(
        placements=[
            {
                "pod": _pod(f"web-{number}"),
                "nodeName": node,
                "origin": "POD_ORIGIN_REPLACEMENT",
                "replaces": _pod("old"),
            }
            for number in range(3)
        ],
        pending=[
            {"pods": [_pod("large")] * 5, "message": "0/40", "refusals": [refusal], "nominatedNode": node},
            {"pods": [_pod("gated")], "message": "", "refusals": [], "nominatedNode": ""},
        ],
        evictions=[
            {"pod": _pod("old"), "nodeName": node},
            {"pod": _pod("v"), "nodeName": node, "preemptor": _pod("p")},
        ],
        blocked=[{"pod": _pod("b"), "nodeName": node, "budgets": ["default/web"]}],
        notSimulated=["HTTP extenders: http://x"],
    )
    shown = display.as_text(simulation_display.render(report), columns)
    assert max(map(len, shown.splitlines())) <= columns
    for text in ("3 pods placed, 6 pending, 2 evicted", "in place of old", "Insufficient cpu", "held back", "drain",
                 "default/web", "nodes in use", "25.0%", "Not simulated: HTTP extenders"):  # fmt: skip
        assert text in shown, text


def test_many_placements_are_counted_by_node() -> None:
    """Two hundred rows are not read; the wide form has them."""
    report = _report(
        placements=[
            {"pod": _pod(f"p{number}"), "nodeName": f"n{number % 2}", "origin": "POD_ORIGIN_ADDED"}
            for number in range(30)
        ]
    )
    shown = display.as_text(simulation_display.render(report))
    assert "n0      15" in shown
    assert "p17" not in shown
    assert "p17" in display.as_text(simulation_display.render(report, wide=True))


def test_capacity_and_plan() -> None:
    """They have their own form."""
    capacity = {"pods": "7", "nodes": [{"nodeName": "n1", "pods": 7}]}
    assert "7 copies fit" in display.as_text(simulation_display.render(_report(capacity=capacity, after=None)))
    none = {"pods": "0", "nodes": []}
    assert "0 copies fit" in display.as_text(simulation_display.render(_report(capacity=none)))
    moves = [{"nodeName": "n1", "placements": [{"pod": _pod("new"), "nodeName": "n2", "replaces": _pod("old")}]}]
    shown = display.as_text(simulation_display.render(_report(moves=moves, cordoned=["n9"], disconnectedMs="5000")))
    assert "1 node can be emptied" in shown
    assert "First cordon the 1 node without pods" in shown
    assert "1. drain n1" in shown
    assert "as of 5 s ago" in shown
