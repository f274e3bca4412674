"""A plugin's own tests need no server: its methods are called with a Call and Nodes."""

import pytest
from maintenance import MAINTENANCE, PREFERENCE, Maintenance

from trireme import sdk
from trireme.v1 import core_pb2

CALL = sdk.Call(core_pb2.Pod(), "default-scheduler", config=MAINTENANCE)


def node(**labels: str) -> sdk.Node:
    """A node with these labels."""
    message = core_pb2.Node()
    message.metadata.labels.update(labels)
    return sdk.Node("node-1", message)


@pytest.mark.parametrize("value", ["", "disk"], ids=["without a value", "with one"])
def test_a_node_under_maintenance_is_refused(value: str) -> None:
    """If this fails, pods would be placed on nodes that are about to go."""
    verdict = Maintenance().filter(CALL, node(**{MAINTENANCE: value}))
    assert isinstance(verdict, sdk.Status)
    assert verdict.message == "node(s) were under maintenance"


def test_the_arguments_name_the_label() -> None:
    """If this fails, a profile cannot choose the label."""
    label = Maintenance().configure(sdk.Configuration("default-scheduler", {"maintenanceLabel": "down"}, {}))
    assert label == "down"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"maintenanceLabel": "no key"}, ("args.maintenanceLabel", "must be the key of a label")),
        ({"maintenanceLabel": 7}, ("args.maintenanceLabel", "must be the key of a label")),
        ({"label": "down"}, ("args.label", "unknown field")),
    ],
    ids=["no key", "a number", "unknown"],
)
def test_wrong_arguments_are_refused_with_their_path(args: dict[str, object], problem: tuple[str, str]) -> None:
    """If this fails, a mistake in the configuration shows as pods on nodes under maintenance."""
    with pytest.raises(sdk.InvalidArguments) as refused:
        Maintenance().configure(sdk.Configuration("default-scheduler", args, {}))
    assert refused.value.problems == (problem,)


def test_any_other_node_passes() -> None:
    """If this fails, the plugin would block the cluster."""
    assert Maintenance().filter(CALL, node(**{PREFERENCE: "5"})) is None


@pytest.mark.parametrize(
    ("label", "score"),
    [({}, 0), ({PREFERENCE: "7"}, 7), ({PREFERENCE: "101"}, 100), ({PREFERENCE: "-5"}, 0), ({PREFERENCE: "many"}, 0)],
    ids=["none", "a number", "too large", "negative", "a word"],
)
def test_the_score_is_the_preference(label: dict[str, str], score: int) -> None:
    """If this fails, what people write into labels would become an error of the plugin."""
    assert Maintenance().score(CALL, node(**label)) == score
