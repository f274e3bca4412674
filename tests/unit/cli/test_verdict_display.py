"""What `trireme simulate -f` prints about manifests."""

from typing import Any

import pytest

from trireme.cli import display, simulation_display

Json = dict[str, Any]


def shown(*verdicts: Json, columns: int = 100, wide: bool = False, **answer: Any) -> str:
    named = [{"kind": "Job", "namespace": "default", "name": "a", **verdict} for verdict in verdicts]
    return display.as_text(simulation_display.render({"verdicts": named, **answer}, wide), columns)


def nodes(count: int, pods: int = 1) -> list[Json]:
    return [{"nodeName": f"n{number}", "pods": pods} for number in range(count)]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            {"verdict": "VERDICT_FITS", "podCount": 3, "placedCount": 3, "nodes": [*nodes(1, 2), *nodes(2)[1:]]},
            "Job default/a: fits: 3 pods on n0 (2), n1",
        ),
        (
            {"verdict": "VERDICT_FITS", "podCount": 7, "placedCount": 7, "nodes": nodes(7)},
            "Job default/a: fits: 7 pods on n0, n1, n2, n3, n4 and 2 more nodes (-o wide shows them)",
        ),
        (
            {
                "verdict": "VERDICT_FITS_AFTER_EVICTIONS",
                "podCount": 1,
                "placedCount": 1,
                "nodes": nodes(1),
                "evictions": [{"pod": {"namespace": "default", "name": "old"}, "nodeName": "n0"}],
            },
            "Job default/a: fits after evicting 1 pod: 1 pod on n0\n  EVICTED      NODE\n  default/old  n0",
        ),
        (
            {"verdict": "VERDICT_NO_PODS", "notes": ["it is suspended (spec.suspend)"]},
            "Job default/a: makes no pods: it is suspended (spec.suspend)",
        ),
        (
            {
                "verdict": "VERDICT_HELD_BACK",
                "podCount": 1,
                "notes": ["scheduling gates hold it back: q"],
                "unplaced": [{"pending": {"pods": [{"namespace": "default", "name": "a"}]}}],
            },
            "Job default/a: is held back: 1 of 1 pod would not be tried\n  scheduling gates hold it back: q",
        ),
    ],
)
def test_a_verdict_is_a_line_and_what_belongs_to_it(verdict: Json, text: str) -> None:
    assert shown(verdict) == text


UNPLACED = {
    "pending": {
        "pods": [{"namespace": "default", "name": f"a-{number}"} for number in range(4)],
        "message": "0/3 nodes are available",
        "refusals": [
            {
                "plugin": "NodeResourcesFit",
                "messages": ["Insufficient cpu"],
                "nodeCount": 3,
                "exampleNodes": ["n0", "n1", "n2"],
            }
        ],
    },
    "proposals": [{"addNode": {"likeNode": "n0"}, "feasibleCount": 1}],
}


@pytest.mark.parametrize("columns", [80, 120])
def test_pods_without_a_node_have_reasons_and_what_would_help(columns: int) -> None:
    verdict = {"verdict": "VERDICT_DOES_NOT_FIT", "podCount": 5, "placedCount": 1, "nodes": nodes(1)}
    assert shown({**verdict, "unplaced": [UNPLACED]}, columns=columns) == "\n".join(
        [
            "Job default/a: does not fit: 1 of 5 pods fits, on n0",
            "  4 pods without a node: default/a-0, default/a-1, default/a-2 …",
            "  NODES  REFUSED BY        REASON            EXAMPLES",
            "      3  NodeResourcesFit  Insufficient cpu  n0, n1, n2",
            "  What would help",
            "    NODES  CHANGE                          EXAMPLES",
            "        1  1 more node of the shape of n0",
        ]
    )


def test_pods_that_are_pending_now_are_named_beside_the_manifests() -> None:
    pods = [{"namespace": "default", "name": "waits"}]
    text = shown(
        {"verdict": "VERDICT_FITS", "podCount": 1, "placedCount": 1, "nodes": nodes(1)},
        placements=[
            {"pod": {"namespace": "default", "name": "luck"}, "nodeName": "n1", "origin": "POD_ORIGIN_QUEUED"},
            {"pod": {"namespace": "default", "name": "a"}, "nodeName": "n0", "origin": "POD_ORIGIN_ADDED"},
        ],
        pending=[{"pods": pods, "origins": ["POD_ORIGIN_QUEUED"], "message": "no"}],
    )
    assert "Beside them 1 other pod would get a node: default/luck" in text
    assert "Still pending: 1 other pod: default/waits" in text
