"""NodeLabel: nodes with some labels and without others, as arguments of a profile demand or prefer them."""

import json
from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, pod
from tests.helpers.phase_calls import PROFILE, configuration
from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.config import gates, loading, profiles, scheduler_configuration
from trireme.evaluation import engine
from trireme.framework import fit_reasons, status
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.in_process import in_process_evaluators
from trireme.plugins.node_label import args, score
from trireme.plugins.node_label import filter as label_filter
from trireme.registry import filter_profiles, reason_texts, score_profiles
from trireme.registry.in_tree import IN_TREE

LABELS = {"both": {"foo": "1", "bar": "1"}, "foo": {"foo": "any"}, "empty": {"foo": ""}, "none": {"other": "1"}}
REASON = ("node(s) didn't have the requested labels",)


def _cluster() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name, labels in LABELS.items():
        builder.set_node(name, labels=labels)
    return builder


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        ({"presentLabels": ["foo"]}, {"none": "labelMissing"}),
        ({"presentLabels": ["foo", "bar"]}, dict.fromkeys(("foo", "empty", "none"), "labelMissing")),
        ({"absentLabels": ["foo"]}, dict.fromkeys(("both", "foo", "empty"), "labelForbidden")),
        ({"presentLabels": ["foo"], "absentLabels": ["bar"]}, {"none": "labelMissing", "both": "labelForbidden"}),
        ({"presentLabels": ["unheard"]}, dict.fromkeys(LABELS, "labelMissing")),
        ({"absentLabels": ["unheard"]}, {}),
    ],
    ids=["present", "all-present", "absent", "both", "present-nowhere", "absent-everywhere"],
)
def test_nodes_are_refused_by_their_labels_whatever_the_values(stated: Any, refused: dict[str, str]) -> None:
    found = Answers(_cluster(), label_filter.NodeLabelFilter(args.read(stated)), pod_of()).refusals()
    assert {name: refusal.reasons[0].code for name, refusal in found.items()} == refused
    assert {refusal.code for refusal in found.values()} <= {status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    assert {refusal.messages for refusal in found.values()} <= {REASON}


def test_refusals_for_different_labels_are_counted_as_one() -> None:
    """The event's text is the original's, which names no label."""
    plugin = label_filter.NodeLabelFilter(args.Args(present=("foo",), absent=("bar",)))
    refusals = Answers(_cluster(), plugin, pod_of()).refusals()
    text = fit_reasons.reasons_sentence(4, [(refusal, 1) for refusal in refusals.values()])
    assert text == "0/4 nodes are available: 2 node(s) didn't have the requested labels."


def test_without_demands_and_preferences_the_plugin_does_nothing() -> None:
    """A profile may use it to filter alone, or to score alone."""
    assert Answers(_cluster(), label_filter.NodeLabelFilter(args.Args()), pod_of()).pre_filter.skip
    assert Answers(_cluster(), score.NodeLabelScore(args.Args()), pod_of()).scores() is None


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"presentLabelsPreference": ["foo"]}, {"both": 100, "foo": 100, "empty": 100, "none": 0}),
        ({"absentLabelsPreference": ["foo"]}, {"both": 0, "foo": 0, "empty": 0, "none": 100}),
        ({"presentLabelsPreference": ["foo", "bar"]}, {"both": 100, "foo": 50, "empty": 50, "none": 0}),
        (
            {"presentLabelsPreference": ["foo", "bar"], "absentLabelsPreference": ["other"]},
            {"both": 100, "foo": 66, "empty": 66, "none": 0},
        ),
        ({"presentLabelsPreference": ["foo", "foo", "bar"]}, {"both": 100, "foo": 66, "empty": 66, "none": 0}),
    ],
    ids=["present", "absent", "several", "both", "twice"],
)
def test_scores_are_the_share_of_preferences_that_a_node_meets(stated: Any, expected: dict[str, int]) -> None:
    """As the original: rounded down, and a label that is listed twice counts twice."""
    assert Answers(_cluster(), score.NodeLabelScore(args.read(stated)), pod_of()).scores() == expected


def _profile(stated: Any = None, plugins: Any = None) -> scheduler_configuration.SchedulerConfiguration:
    config = [] if stated is None else [{"name": "NodeLabel", "args": stated}]
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
        ({"presentLabels": ["a", "b"], "absentLabels": ["c"]}, []),
        (
            {"presentLabels": ["a", "b"], "absentLabels": ["c", "b"]},
            [f'{_ARGS}.presentLabels[1]: Invalid value: "b": conflict with {_ARGS}.absentLabels[1]'],
        ),
        (
            {"presentLabelsPreference": ["a"], "absentLabelsPreference": ["a"]},
            [
                f'{_ARGS}.presentLabelsPreference[0]: Invalid value: "a": '
                f"conflict with {_ARGS}.absentLabelsPreference[0]"
            ],
        ),
        ({"presentLabels": ["a"], "absentLabelsPreference": ["a"]}, []),
    ],
    ids=["valid", "demands", "preferences", "demand-and-preference"],
)
def test_a_label_may_not_be_both_present_and_absent(stated: Any, problems: list[str]) -> None:
    """No node would do, and the pods would wait forever."""
    assert scheduler_configuration.validate(_profile(stated), gates.FeatureGates()) == problems


def test_no_profile_has_it_unless_it_names_it() -> None:
    """kube-scheduler's default profile does not; where it is named it filters and scores."""

    def completed(plugins: Any) -> scheduler_configuration.CompletedProfile:
        config = _profile({"presentLabels": ["a"]}, plugins)
        return profiles.construct_profiles(config, IN_TREE, gates.FeatureGates(), lambda line: None).profiles[0]

    assert "NodeLabel" not in completed(None).all_names()
    named = completed({"multiPoint": {"enabled": [{"name": "NodeLabel", "weight": 2}]}})
    assert named.names(ExtensionPoint.FILTER)[-1] == named.names(ExtensionPoint.SCORE)[-1] == "NodeLabel"
    assert named.args("NodeLabel")["presentLabels"] == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, {"foo": "1"}, True),
        (None, {"bar": "1"}, False),
        ({}, {"foo": ""}, True),
        ({"foo": "1"}, {"foo": "2"}, False),
        ({"foo": "1", "bar": "1"}, {"foo": "1"}, True),
        ({"foo": "1"}, {"foo": "1", "bar": "1"}, False),
    ],
    ids=["new-and-right", "new-and-wrong", "becomes-right", "was-right", "loses-what-is-forbidden", "becomes-wrong"],
)
def test_pods_are_woken_by_nodes_that_pass_now(old: Any, new: Any, helps: bool) -> None:
    """A refused pod is not tried again for a node that still refuses it, nor for one that did not."""
    hints = Hints("NodeLabel", args={"presentLabels": ["foo"], "absentLabels": ["bar"]})
    action, before = ("Add", None) if old is None else ("UpdateNodeLabel", node(labels=old))
    assert hints.about(pod(), "Node", action, before, node(labels=new)) == (QUEUE if helps else SKIP)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("labelMissing", "has no label foo"), ("labelForbidden", "has the label foo")],
    ids=["missing", "forbidden"],
)
def test_a_refusal_names_the_label(code: str, expected: str) -> None:
    """The event does not; `trireme explain` does."""
    assert reason_texts.reason_text("NodeLabel", code, {"label": "foo"}) == expected


async def test_a_profile_with_the_plugin_places_pods_by_it() -> None:
    """From the configuration that the phases get to a decision: both sides are found, with their arguments."""
    builder = _cluster()
    builder.add_class(1, pod_of())
    message = configuration(("NodeLabel",), (("NodeLabel", 1),))
    stated = {"presentLabels": ["foo"], "presentLabelsPreference": ["bar"]}
    message.profiles[0].plugin_args.add(name="NodeLabel", args_json=json.dumps(stated).encode())
    evaluators = in_process_evaluators.InProcessEvaluators(
        engine.Engine(
            builder.snap,
            filter_profiles.make_profiles(message),
            score_profiles.make_profiles(message),
        )
    )
    filtered = await evaluators.filter(PROFILE, 1, 1, builder.snap.generation)
    placed = await evaluators.place(PROFILE, 1, 1, filtered)
    assert [builder.snap.nodes.names[slot] for slot in placed.slots] == ["both"]


@pytest.mark.parametrize(
    ("labels", "helps"),
    [("ab", True), ("a", False), ("b", False), ("abx", False), ("aby", False)],
    ids=["all", "one is missing", "the other is missing", "one forbidden", "the other forbidden"],
)
def test_a_node_wakes_pods_with_all_labels_and_no_forbidden_one(labels: str, helps: bool) -> None:
    hints = Hints("NodeLabel", args={"presentLabels": ["a", "b"], "absentLabels": ["x", "y"]})
    added = node(labels=dict.fromkeys(labels, ""))
    assert hints.about(pod(), "Node", "Add", None, added) == (QUEUE if helps else SKIP)
