"""The plugin's own tests: no server, and an hour that stands."""

import json
import pathlib
from typing import Any

import cost_carbon
import market
import pytest

from trireme import sdk
from trireme.v1 import core_pb2

NOON = 12
PRICES = [
    {"instanceType": "large", "onDemand": 1.0, "spot": 0.25},
    {"instanceType": "large", "zone": "b", "onDemand": 0.5},
]
CARBON = {"a": [400.0] * 12 + [100.0] * 12, "b": [200.0] * 24}


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of prices."""
    out = tmp_path / "prices.json"
    out.write_text(json.dumps({"prices": PRICES, "carbonByZone": CARBON}))
    return out


def node(zone: str = "a", capacity: str = "on-demand", instance_type: str = "large") -> sdk.Node:
    """A node with these labels."""
    message = core_pb2.Node()
    labels = {cost_carbon.ZONE: zone, cost_carbon.INSTANCE_TYPE: instance_type, "karpenter.sh/capacity-type": capacity}
    message.metadata.labels.update(labels)
    return sdk.Node("n", message)


def scores(plugin: cost_carbon.CostAndCarbon, *nodes: sdk.Node, **args: Any) -> list[int]:
    """The scores of the nodes with these arguments."""
    settings = plugin.configure(sdk.Configuration("p", args, {}))
    return plugin.score_nodes(sdk.Call(core_pb2.Pod(), "p", config=settings), nodes)


def test_cheap_nodes_are_preferred(path: pathlib.Path) -> None:
    """If this fails, pods go to expensive nodes. A price of the zone counts before that of any zone."""
    plugin = cost_carbon.CostAndCarbon(market.MarketFile(path), lambda: NOON)
    nodes = (node(), node(capacity="spot"), node("b"), node(instance_type="unheard"))
    assert scores(plugin, *nodes, carbonWeight=0) == [0, 75, 50, 0]


def test_clean_power_is_preferred_by_the_hour(path: pathlib.Path) -> None:
    """If this fails, pods go where power is dirty at this hour."""
    now = [NOON]
    plugin = cost_carbon.CostAndCarbon(market.MarketFile(path), lambda: now[0])
    nodes = (node("a"), node("b"), node("nowhere"))
    assert scores(plugin, *nodes, costWeight=0) == [75, 50, 0]
    version = plugin.info.version
    now[0] = 0
    assert scores(plugin, *nodes, costWeight=0) == [0, 50, 0]
    assert plugin.info.version != version, "the scheduler would keep the scores of noon"


def test_the_weights_are_those_of_the_arguments(path: pathlib.Path) -> None:
    """If this fails, what a profile says has no effect."""
    plugin = cost_carbon.CostAndCarbon(market.MarketFile(path), lambda: NOON)
    assert scores(plugin, node(capacity="spot")) == [75]
    assert scores(plugin, node("b"), costWeight=3, carbonWeight=1) == [50]
    assert scores(plugin, node(), costWeight=3, carbonWeight=1) == [19]
    assert scores(plugin, node(capacity="cheap"), carbonWeight=0, spotValue="cheap") == [75]


def test_the_file_is_read_again_when_it_changes(path: pathlib.Path) -> None:
    """If this fails, new prices take a restart; or a slip in the file stops the plugin."""
    plugin = cost_carbon.CostAndCarbon(market.MarketFile(path), lambda: NOON)
    version = plugin.info.version
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"prices": [{"instanceType": "large", "onDemand": 1, "spot": 0.9}], "carbonByZone": {}}))
    new.replace(path)
    assert scores(plugin, node(capacity="spot"), carbonWeight=0) == [10]
    changed = plugin.info.version
    assert changed != version
    path.write_text("{")
    assert scores(plugin, node(capacity="spot"), carbonWeight=0) == [10]
    path.unlink()
    assert plugin.info.version == changed


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("[", "is no JSON"),
        ({"cost": []}, "must be an object with the fields prices and carbonByZone"),
        ({"prices": {}}, "prices: must be a list"),
        ({"prices": [{"onDemand": 1}]}, "prices[0].instanceType: must be a text"),
        ({"prices": [{"instanceType": "x", "spot": -1}]}, "prices[0].spot: must be a number of at least 0"),
        ({"prices": [{"instanceType": "x", "price": 1}]}, "prices[0].price: unknown field"),
        ({"carbonByZone": {"a": [1, 2]}}, "carbonByZone[a]: must have 24 numbers"),
        ({"carbonByZone": {"a": ["1"]}}, "carbonByZone[a][0]: must be a number of at least 0"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_field(document: Any, problem: str) -> None:
    """If this fails, the file's author has to guess."""
    data = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(market.MarketError) as refused:
        market.parse(data.encode())
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"costWeight": -1}, ("args.costWeight", "must be a number from 0 to 100")),
        ({"carbonWeight": "1"}, ("args.carbonWeight", "must be a number from 0 to 100")),
        ({"costWeight": 0, "carbonWeight": 0}, ("args.costWeight", "must be above 0, or carbonWeight must")),
        ({"spotLabel": ""}, ("args.spotLabel", "must be a text that is not empty")),
        ({"weight": 1}, ("args.weight", "unknown field")),
        ([], ("args", "must be an object")),
    ],
)
def test_wrong_arguments_are_refused_by_field(path: pathlib.Path, args: Any, problem: tuple[str, str]) -> None:
    """If this fails, a slip in the profile goes unseen."""
    plugin = cost_carbon.CostAndCarbon(market.MarketFile(path))
    with pytest.raises(sdk.InvalidArguments) as refused:
        plugin.configure(sdk.Configuration("p", args, {}))
    assert refused.value.problems == (problem,)


def test_without_a_file_it_does_not_start(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, it scores by nothing, or ends with a traceback."""
    assert cost_carbon.main(["--prices", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("Error: --prices: ")
