"""What a profile runs: defaults, `multiPoint`, single points, weights, and what cannot be made."""

import pytest

from tests.helpers.config_starts import HEADER, feature_gates
from trireme.config import loading, profiles
from trireme.config.scheduler_configuration import CompletedProfile
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Registry
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.configuration_files import ConfigurationError

P = ExtensionPoint
_EVERYWHERE = frozenset(set(P) - {P.QUEUE_SORT})
REGISTRY: Registry = IN_TREE.with_remote(
    PluginSpec(name, _EVERYWHERE, remote=True, supports_signature=False) for name in ("A", "B")
).with_remote([PluginSpec("Sorter", frozenset({P.QUEUE_SORT}), remote=True)])


def _make(text: str, logs: list[str] | None = None, **asked: bool) -> tuple[CompletedProfile, ...]:
    enabled = feature_gates(**asked)
    config = loading.load((HEADER + text).encode(), enabled, lambda _line: None)
    return profiles.construct_profiles(config, REGISTRY, enabled, (logs if logs is not None else []).append).profiles


def _profile(plugins: str, logs: list[str] | None = None, **asked: bool) -> CompletedProfile:
    (profile,) = _make(f"profiles: [{{plugins: {plugins}}}]", logs, **asked)
    return profile


def _weights(profile: CompletedProfile) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in profile.plugins[P.SCORE]}


DEFAULT_SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def test_an_empty_profile_runs_the_default_plugins() -> None:
    (profile,) = _make("")
    assert _weights(profile) == DEFAULT_SCORES
    assert profile.names(P.QUEUE_SORT) == ("PrioritySort",)
    assert profile.names(P.BIND) == ("DefaultBinder",)
    assert profile.names(P.POST_FILTER) == ("DynamicResources", "DefaultPreemption")
    assert profile.names(P.FILTER)[:3] == ("NodeName", "NodeUnschedulable", "TaintToleration")


@pytest.mark.parametrize(
    ("plugins", "scores"),
    [
        pytest.param("{score: {disabled: [{name: '*'}]}}", {}, id="none"),
        pytest.param(
            "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}]}}",
            {"ImageLocality": 7},
            id="one",
        ),
        pytest.param(
            "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}}", {"ImageLocality": 1}, id="no-weight"
        ),
        pytest.param(
            "{score: {enabled: [{name: NodeAffinity, weight: 9}]}}",
            {**DEFAULT_SCORES, "NodeAffinity": 9},
            id="another-weight",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}",
            {**DEFAULT_SCORES, "NodeAffinity": 9},
            id="another-weight-at-all-points",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: A, weight: 4}]}, score: {enabled: [{name: A, weight: 5}]}}",
            {**DEFAULT_SCORES, "A": 5},
            id="the-point-wins",
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: A, weight: 4}]}}", {**DEFAULT_SCORES, "A": 4}, id="added-at-all-points"
        ),
        pytest.param(
            "{score: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 3}]}}",
            {**DEFAULT_SCORES, "NodeAffinity": 3},
            id="disabled-and-enabled",
        ),
        pytest.param(
            "{multiPoint: {disabled: [{name: TaintToleration}]}}",
            {name: weight for name, weight in DEFAULT_SCORES.items() if name != "TaintToleration"},
            id="disabled-at-all-points",
        ),
    ],
)
def test_weights_are_those_of_the_most_special_mention(plugins: str, scores: dict[str, int]) -> None:
    assert _weights(_profile(plugins)) == scores


@pytest.mark.parametrize(
    ("plugins", "order"),
    [
        pytest.param(
            "{postFilter: {enabled: [{name: A}]}}", ("DynamicResources", "DefaultPreemption", "A"), id="after"
        ),
        pytest.param(
            "{multiPoint: {enabled: [{name: A}]}, postFilter: {enabled: [{name: B}, {name: A}]}}",
            ("A", "DynamicResources", "DefaultPreemption", "B"),
            id="what-both-list-comes-first",
        ),
        pytest.param(
            "{postFilter: {enabled: [{name: DefaultPreemption}, {name: DynamicResources}]}}",
            ("DefaultPreemption", "DynamicResources"),
            id="the-point-orders",
        ),
        pytest.param(
            "{multiPoint: {disabled: [{name: '*'}], "
            "enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: A}]}}",
            ("A",),
            id="from-nothing",
        ),
    ],
)
def test_plugins_run_in_the_order_of_kube_scheduler(plugins: str, order: tuple[str, ...]) -> None:
    """The order decides, for one, whether a claim is released before preemption is tried."""
    assert _profile(plugins).names(P.POST_FILTER) == order


def test_a_plugin_listed_twice_over_is_logged() -> None:
    logs: list[str] = []
    _profile("{multiPoint: {enabled: [{name: A}]}, score: {enabled: [{name: A}]}}", logs)
    assert 'I "MultiPoint plugin is explicitly re-configured; overriding" plugin="A"' in logs


@pytest.mark.parametrize(
    ("gate", "point", "name"),
    [
        ("GenericWorkload", P.PLACEMENT_FEASIBLE, "GangScheduling"),
        ("GenericWorkload", P.RESERVE, "DefaultPreemption"),
        ("InPlacePodVerticalScalingSchedulerPreemption", P.FILTER, "DeferredPodScheduling"),
    ],
)
def test_gates_add_plugins(gate: str, point: P, name: str) -> None:
    """Enabling a gate adds the default plugins that need it."""
    assert name not in _profile("{}").names(point)
    assert name in _profile("{}", **{gate: True}).names(point)


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        pytest.param(
            "{filter: {enabled: [{name: Bogus}]}}",
            'creating profile for scheduler name default-scheduler: FilterPlugin "Bogus" does not exist',
            id="unknown",
        ),
        pytest.param(
            "{bind: {enabled: [{name: ImageLocality}]}}",
            'creating profile for scheduler name default-scheduler: plugin "ImageLocality" does not extend BindPlugin '
            "plugin",
            id="at-a-point-that-it-has-not",
        ),
        pytest.param(
            "{filter: {enabled: [{name: A}, {name: A}]}}",
            'creating profile for scheduler name default-scheduler: plugin "A" already registered as "FilterPlugin"',
            id="twice",
        ),
        pytest.param(
            "{bind: {disabled: [{name: '*'}]}}",
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
            id="nothing-binds",
        ),
        pytest.param(
            "{queueSort: {enabled: [{name: Sorter}]}}",
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 2',
            id="two-orders",
        ),
    ],
)
def test_a_profile_that_cannot_be_made_is_refused(plugins: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _profile(plugins)
    assert message in str(caught.value)
    assert str(caught.value).startswith("initializing profiles: ")


def test_a_negative_weight_before_others_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="score plugins: total score of Score plugins could overflow"):
        _profile("{score: {enabled: [{name: A, weight: -1}]}}")


def test_every_profile_has_its_own_plugins_and_arguments() -> None:
    text = """
percentageOfNodesToScore: 40
profiles:
- schedulerName: one
  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]
- schedulerName: two
  percentageOfNodesToScore: 70
  plugins: {score: {disabled: [{name: '*'}]}}
"""
    one, two = _make(text)
    assert (one.scheduler_name, two.scheduler_name) == ("one", "two")
    assert (one.percentage_of_nodes_to_score, two.percentage_of_nodes_to_score) == (40, 70)
    assert (one.args("InterPodAffinity")["hardPodAffinityWeight"], len(_weights(one))) == (5, len(DEFAULT_SCORES))
    assert (two.args("InterPodAffinity")["hardPodAffinityWeight"], _weights(two)) == (1, {})


def test_arguments_go_over_the_wire_in_one_form() -> None:
    written = "{name: NodeResourcesFit, args: {ignoredResources: [b, a], scoringStrategy: {type: MostAllocated}}}"
    turned = "{args: {scoringStrategy: {type: MostAllocated}, ignoredResources: [b, a]}, name: NodeResourcesFit}"
    left, right = (_make(f"profiles: [{{pluginConfig: [{text}]}}]")[0] for text in (written, turned))
    assert left.args_json("NodeResourcesFit") == right.args_json("NodeResourcesFit")
    assert b'"ignoredResources":["b","a"]' in left.args_json("NodeResourcesFit")
    assert b'"type":"MostAllocated"' in left.args_json("NodeResourcesFit")


def test_resources_of_an_extender_are_ignored_by_noderesourcesfit() -> None:
    (profile,) = _make(
        "extenders: [{urlPrefix: 'http://x', filterVerb: f, "
        "managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/b}]}]"
    )
    assert profile.args("NodeResourcesFit")["ignoredResources"] == ["example.com/a"]


def test_extenders_are_logged_one_by_one_where_much_is_logged() -> None:
    text = (
        "extenders:\n"
        "- {urlPrefix: 'http://a', filterVerb: f, weight: 5, httpTimeout: 3s, managedResources: [{name: a.io/x}]}\n"
        "- {urlPrefix: 'https://b', prioritizeVerb: p, weight: 1, tlsConfig: {keyData: YQ==, insecure: true}}\n"
    )
    enabled = feature_gates()
    config = loading.load((HEADER + text).encode(), enabled, lambda _line: None)
    logs: list[str] = []
    profiles.construct_profiles(config, REGISTRY, enabled, logs.append)
    assert not any("extender=" in line for line in logs)
    profiles.construct_profiles(config, REGISTRY, enabled, logs.append, verbose=True)
    assert [line for line in logs if "extender=" in line] == [
        'I "Creating extender" extender={"URLPrefix":"http://a","FilterVerb":"f","PreemptVerb":"","PrioritizeVerb":"",'
        '"Weight":5,"BindVerb":"","EnableHTTPS":false,"TLSConfig":null,"HTTPTimeout":"3s","NodeCacheCapable":false,'
        '"ManagedResources":[{"Name":"a.io/x","IgnoredByScheduler":false}],"Ignorable":false}',
        'I "Creating extender" extender={"URLPrefix":"https://b","FilterVerb":"","PreemptVerb":"","PrioritizeVerb":"p",'
        '"Weight":1,"BindVerb":"","EnableHTTPS":false,"TLSConfig":{"Insecure":true,"ServerName":"","CertFile":"",'
        '"KeyFile":"","CAFile":"","CertData":null,"KeyData":"REDACTED","CAData":null},"HTTPTimeout":"0s",'
        '"NodeCacheCapable":false,"ManagedResources":null,"Ignorable":false}',
    ]
