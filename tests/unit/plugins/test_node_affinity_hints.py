"""What wakes pods that NodeAffinity refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]


def _affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": required}


def _term(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SSD = pod(nodeSelector={"disk": "ssd"})
NAMED = pod(affinity=_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}))
EITHER = pod(affinity=_affinity(_term("disk", "In", "ssd"), _term("disk", "In", "nvme")))
UNREADABLE = pod(affinity=_affinity(_term("disk", "Near", "x"), _term("disk", "In", "ssd")))


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(SSD, None, node(labels={"disk": "ssd"}), QUEUE, id="new-and-right"),
        pytest.param(SSD, None, node(labels={"disk": "hdd"}), SKIP, id="new-and-wrong"),
        pytest.param(SSD, node(), node(labels={"disk": "ssd"}), QUEUE, id="becomes-right"),
        pytest.param(SSD, node(labels={"disk": "ssd"}), node(labels={"disk": "ssd", "a": "b"}), SKIP, id="was-right"),
        pytest.param(SSD, node(labels={"disk": "ssd"}), node(), SKIP, id="becomes-wrong"),
        pytest.param(NAMED, None, node("n"), QUEUE, id="its-name"),
        pytest.param(NAMED, None, node("m"), SKIP, id="another-name"),
        pytest.param(pod(affinity=_affinity(_term("n", "Gt", "5"))), None, node(labels={"n": "6"}), QUEUE, id="more"),
        pytest.param(pod(affinity=_affinity(_term("n", "Gt", "5"))), None, node(labels={"n": "5"}), SKIP, id="no-more"),
        pytest.param(
            pod(affinity=_affinity(_term("n", "Lt", "5"))), None, node(labels={"n": "x"}), SKIP, id="no-number"
        ),
        pytest.param(pod(affinity=_affinity(_term("a", "NotIn", "b"))), None, node(), QUEUE, id="absent-is-not-in"),
        pytest.param(pod(affinity=_affinity(_term("a", "Exists"))), None, node(), SKIP, id="absent"),
        pytest.param(pod(affinity=_affinity(_term("a", "DoesNotExist"))), None, node(), QUEUE, id="absent-as-asked"),
        pytest.param(EITHER, None, node(labels={"disk": "ssd"}), QUEUE, id="the-first-term-is-enough"),
        pytest.param(EITHER, None, node(labels={"disk": "nvme"}), QUEUE, id="the-second-term-is-enough"),
        pytest.param(UNREADABLE, None, node(labels={"disk": "ssd"}), QUEUE, id="one-term-is-enough"),
        pytest.param(UNREADABLE, None, node(), ERROR, id="a-term-that-cannot-be-read"),
        pytest.param(pod(affinity=_affinity()), None, node(), SKIP, id="no-terms"),
        pytest.param(pod(affinity=_affinity({})), None, node(), SKIP, id="an-empty-term"),
        pytest.param(
            pod(affinity=_affinity({}, _term("a", "Exists"))), None, node(labels={"a": ""}), QUEUE, id="other"
        ),
    ],
)
def test_node_affinity(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Only a change of labels that the affinity selects wakes the pod."""
    assert (
        Hints("NodeAffinity").about(waiting, "Node", "Add" if old is None else "UpdateNodeLabel", old, new) == expected
    )


@pytest.mark.parametrize("terms", [[], [{}]], ids=["no-terms", "an-empty-term"])
def test_affinity_of_the_profile_that_selects_nothing_wakes_no_pod(terms: list[Json]) -> None:
    args = {"addedAffinity": _affinity(*terms)["nodeAffinity"]}
    assert Hints("NodeAffinity", args=args).about(pod(), "Node", "Add", None, node()) == SKIP


@pytest.mark.parametrize(("zone", "expected"), [("z1", QUEUE), ("z2", SKIP)], ids=["as-the-profile-asks", "not"])
def test_node_affinity_of_the_profile(zone: str, expected: str) -> None:
    """A node that the profile's added affinity excludes wakes no pod."""
    args = {"addedAffinity": _affinity(_term("zone", "In", "z1"))["nodeAffinity"]}
    hints = Hints("NodeAffinity", args=args)
    assert hints.about(SSD, "Node", "Add", None, node(labels={"disk": "ssd", "zone": zone})) == expected
