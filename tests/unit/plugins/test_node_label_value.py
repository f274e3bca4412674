"""NodeLabelValue: nodes with low or high integers in a label first, as arguments of a profile say."""

import json
from typing import Any

import pytest

from tests.helpers.phase_calls import PROFILE, configuration
from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.config import gates, loading, profiles, scheduler_configuration
from trireme.evaluation import engine
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.in_process import in_process_evaluators
from trireme.plugins.node_label_value import args, score
from trireme.registry import filter_profiles, score_profiles
from trireme.registry.in_tree import IN_TREE

KEY = "example.com/price"


def _cluster(**values: str | None) -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name, value in values.items():
        builder.set_node(name, labels={} if value is None else {KEY: value})
    return builder


def _scores(order: str, **values: str | None) -> dict[str, int] | None:
    plugin = score.NodeLabelValueScore(args.read({"labelKey": KEY, "order": order}))
    return Answers(_cluster(**values), plugin, pod_of()).scores()


@pytest.mark.parametrize(
    ("order", "expected"),
    [("Lowest", {"a": 100, "b": 66, "c": 0}), ("Highest", {"a": 0, "b": 33, "c": 100})],
)
def test_scores_go_from_the_worst_value_to_the_best(order: str, expected: dict[str, int]) -> None:
    """Rounded down; the worst value need not be 0."""
    assert _scores(order, a="-10", b="0", c="20") == expected


@pytest.mark.parametrize("order", ["Lowest", "Highest"])
@pytest.mark.parametrize("value", [None, "", "cheap", "1.5", str(2**63)])
def test_nodes_without_an_integer_score_lowest(order: str, value: str | None) -> None:
    found = _scores(order, a="1", b="2", c="3", other=value)
    assert found is not None
    assert (found["other"], found["b"]) == (0, 50)


@pytest.mark.parametrize("order", ["Lowest", "Highest"])
def test_nodes_with_the_same_value_score_highest(order: str) -> None:
    assert _scores(order, a="7", b="7", other=None) == {"a": 100, "b": 100, "other": 0}


def test_values_may_be_as_far_apart_as_64_bits_allow() -> None:
    assert _scores("Highest", a=str(1 - 2**63), b="0", c=str(2**63 - 1)) == {"a": 0, "b": 50, "c": 100}


def test_without_any_integer_the_plugin_does_nothing() -> None:
    assert _scores("Lowest", a=None, b="cheap") is None


def _profile(config: Any, plugins: Any = None) -> scheduler_configuration.SchedulerConfiguration:
    profile = {"pluginConfig": config, **({"plugins": plugins} if plugins else {})}
    document = {
        "apiVersion": scheduler_configuration.API_VERSION,
        "kind": scheduler_configuration.KIND,
        "profiles": [profile],
    }
    return loading.load(json.dumps(document).encode(), gates.FeatureGates(), lambda line: None)


_ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("stated", "problems"),
    [
        ({"labelKey": KEY}, []),
        ({"labelKey": KEY, "order": "Highest"}, []),
        ({"order": "Lowest"}, [f"{_ARGS}.labelKey: Required value: can not be empty"]),
        (
            {"labelKey": KEY, "order": "lowest"},
            [f'{_ARGS}.order: Unsupported value: "lowest": supported values: "Lowest", "Highest"'],
        ),
    ],
    ids=["default-order", "valid", "no-label", "wrong-order"],
)
def test_wrong_arguments_are_named_by_their_field(stated: Any, problems: list[str]) -> None:
    config = _profile([{"name": "NodeLabelValue", "args": stated}])
    assert scheduler_configuration.validate(config, gates.FeatureGates()) == problems


def test_a_key_that_no_label_can_have_is_wrong() -> None:
    config = _profile([{"name": "NodeLabelValue", "args": {"labelKey": "a b"}}])
    (problem,) = scheduler_configuration.validate(config, gates.FeatureGates())
    assert problem.startswith(f'{_ARGS}.labelKey: Invalid value: "a b": name part must consist of')


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(Exception, match='unknown field "label"'):
        _profile([{"name": "NodeLabelValue", "args": {"label": KEY}}])


def test_no_profile_has_it_unless_it_names_it() -> None:
    def completed(plugins: Any) -> scheduler_configuration.CompletedProfile:
        config = _profile([{"name": "NodeLabelValue", "args": {"labelKey": KEY}}], plugins)
        return profiles.construct_profiles(config, IN_TREE, gates.FeatureGates(), lambda line: None).profiles[0]

    assert "NodeLabelValue" not in completed(None).all_names()
    named = completed({"score": {"enabled": [{"name": "NodeLabelValue", "weight": 2}]}})
    assert named.names(ExtensionPoint.SCORE)[-1] == "NodeLabelValue"
    assert named.args("NodeLabelValue")["order"] == "Lowest"


async def test_a_profile_with_the_plugin_places_pods_by_it() -> None:
    """From the configuration to a decision, and to the next after another node's label changed the range."""
    builder = _cluster(a="30", b="20")
    builder.add_class(1, pod_of())
    message = configuration((), (("NodeLabelValue", 1),))
    message.profiles[0].plugin_args.add(name="NodeLabelValue", args_json=json.dumps({"labelKey": KEY}).encode())
    evaluators = in_process_evaluators.InProcessEvaluators(
        engine.Engine(
            builder.snap,
            filter_profiles.make_profiles(message),
            score_profiles.make_profiles(message),
        )
    )

    async def place() -> list[str]:
        filtered = await evaluators.filter(PROFILE, 1, 1, builder.snap.generation)
        placed = await evaluators.place(PROFILE, 1, 1, filtered)
        return [builder.snap.nodes.names[slot] for slot in placed.slots]

    assert await place() == ["b"]
    builder.set_node("a", labels={KEY: "10"})
    assert await place() == ["a"]
