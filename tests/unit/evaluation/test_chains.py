"""FilterChain and ScoreChain: which plugins share answers, are called ahead, or have pods placed one by one."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.fake_remote_filter import FakeRemoteFilter
from trireme.evaluation.filtering import filter_chain
from trireme.evaluation.scoring import score_chain
from trireme.plugin_api import interfaces, scorers
from trireme.plugins.node_affinity import filter as node_affinity
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.plugins.node_resources_fit import score as fit_score
from trireme.plugins.taint_toleration import filter as taint_toleration
from trireme.plugins.taint_toleration import score as taint_score
from trireme.remote import remote_score

NODE, NODE_PODS, CLUSTER = (
    interfaces.Dependency.NODE,
    interfaces.Dependency.NODE_PODS,
    interfaces.Dependency.CLUSTER,
)
NONE, CUSTOM = scorers.Normalization.NONE, scorers.Normalization.CUSTOM


class _Remote(FakeRemoteFilter):
    """Lets each node take pods."""

    def passes(self, *_: object) -> bool:
        return True


def _filters() -> list[Any]:
    return [
        taint_toleration.TaintTolerationFilter(comparing=False),
        node_affinity.NodeAffinityFilter(),
        node_resources_fit.NodeResourcesFitFilter(fit_args.Args()),
    ]


def test_classes_of_a_family_share_the_answers_of_plugins_that_read_no_requests() -> None:
    chain = filter_chain.FilterChain(_filters())
    assert chain.ignoring_requests == ("TaintToleration", "NodeAffinity")
    assert [each.name for each in chain.reading_requests] == ["NodeResourcesFit"]
    assert [each.name for each in chain.reading_node_affinity] == ["NodeAffinity"]
    assert chain.demanding is not None
    assert chain.demanding.name == "NodeResourcesFit"
    assert (chain.asynchronous, chain.depending_on_pods, chain.places_one_by_one) == ((), (), False)


@pytest.mark.parametrize("depends_on", [NODE, NODE_PODS, CLUSTER])
def test_beside_a_service_no_answers_are_shared(depends_on: interfaces.Dependency) -> None:
    remote = _Remote("Far", depends_on)
    chain = filter_chain.FilterChain([*_filters(), remote])
    assert (chain.ignoring_requests, chain.asynchronous) == ((), (remote,))
    assert [each.name for each in chain.reading_requests] == ["TaintToleration", "NodeAffinity", "NodeResourcesFit"]
    assert chain.depending_on_pods == (() if depends_on is NODE else ("Far",))
    assert chain.places_one_by_one is (depends_on is CLUSTER)


@pytest.mark.parametrize("deferred", [False, True])
def test_only_pods_whose_resize_is_deferred_are_passed_over(deferred: bool) -> None:
    chain = filter_chain.FilterChain(_filters(), frozenset({"NodeAffinity"}))
    pod_class: Any = SimpleNamespace(resize_deferred=deferred)
    assert chain.skips_class("NodeAffinity", pod_class) is deferred
    assert not chain.skips_class("TaintToleration", pod_class)


def _remote_score(
    depends_on: interfaces.Dependency, normalization: scorers.Normalization = NONE, *, copies: bool = False
) -> Any:
    client: Any = SimpleNamespace(
        name="Far",
        depends_on=depends_on,
        normalization=normalization,
        info=SimpleNamespace(score_copies=copies),
        connection=SimpleNamespace(comparisons=None),
    )
    return remote_score.RemoteScorePlugin(client, "p")


@pytest.mark.parametrize(
    ("plugin", "percentage", "expected"),
    [
        (None, 0, False),
        (None, 50, True),
        (_remote_score(NODE), 0, False),
        (_remote_score(NODE, CUSTOM), 0, True),
        (_remote_score(NODE_PODS), 0, True),
        (_remote_score(NODE_PODS, copies=True), 0, False),
        (_remote_score(NODE_PODS, CUSTOM, copies=True), 0, True),
        (_remote_score(CLUSTER), 0, True),
        (_remote_score(CLUSTER, copies=True), 0, True),
    ],
)
def test_pods_are_placed_one_by_one_where_a_placement_changes_scores_that_only_a_call_brings(
    plugin: Any, percentage: int, expected: bool
) -> None:
    plugins = [taint_score.TaintTolerationScore(comparing=False), *([plugin] if plugin else [])]
    chain = score_chain.ScoreChain({each.name: 1 for each in plugins}, plugins, percentage)
    assert chain.places_one_by_one is expected
    assert list(chain.asynchronous) == (["Far"] if plugin else [])
    assert (list(chain.plain), chain.ignoring_requests) == (["TaintToleration"], ("TaintToleration",))


def test_what_scores_by_usage_reads_requests_in_no_other_way() -> None:
    plugins: list[Any] = [
        taint_score.TaintTolerationScore(comparing=False),
        fit_score.make_scorer(fit_args.Args()),
    ]
    chain = score_chain.ScoreChain({each.name: 1 for each in plugins}, plugins)
    assert list(chain.by_usage) == list(chain.own_node) == ["NodeResourcesFit"]
    assert (chain.reading_requests, chain.by_pods, chain.joint) == ((), (), {})


def test_classes_that_state_the_same_about_nodes_share_scores_that_follow_from_nothing_else() -> None:
    """Not those that also follow from something else of a class, or from the pods of a node."""
    by_pods: Any = taint_score.TaintTolerationScore(comparing=False)
    by_pods.name, by_pods.depends_on = "ByPods", NODE_PODS
    other: Any = SimpleNamespace(
        name="Other", depends_on=NODE, reads=(), normalization=NONE, pre_score=lambda *_: None, score=lambda *_: None
    )
    plugins: list[Any] = [taint_score.TaintTolerationScore(comparing=False), other, by_pods]
    chain = score_chain.ScoreChain({each.name: 1 for each in plugins}, plugins)
    assert chain.by_node_terms == {"TaintToleration"}
    assert set(chain.plain) == {"TaintToleration", "Other", "ByPods"}
    assert "ByPods" in chain.by_pods
