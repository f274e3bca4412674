"""Old versions of the configuration do as `v1` what they did: what runs, its weights and arguments."""

from typing import Any

import pytest
import yaml

from tests.helpers.config_conversions import GROUP, OLD_SCORES, P, from_file, named, versioned, with_plugins
from trireme.config_convert import writing
from trireme.config_convert.drafts import Sources
from trireme.registry import legacy


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_the_old_default_weights_are_converted(version: str) -> None:
    assert versioned(version).scores() == OLD_SCORES


@pytest.mark.parametrize("version", ["v1beta3", "v1"])
def test_the_newer_versions_have_todays_weights(version: str) -> None:
    today = {**OLD_SCORES, "TaintToleration": 3, "NodeAffinity": 2, "InterPodAffinity": 2}
    assert versioned(version).scores() == today
    assert "profiles" not in yaml.safe_load(versioned(version).text)


def test_settings_that_did_not_change_are_taken_over() -> None:
    config = versioned(
        "v1beta2",
        parallelism=4,
        percentageOfNodesToScore=30,
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        enableProfiling=False,
        clientConnection={"kubeconfig": "/k", "qps": 9, "burst": 8},
        leaderElection={"leaderElect": False, "leaseDuration": "30s", "resourceName": "n"},
        extenders=[{"urlPrefix": "http://x", "filterVerb": "f", "httpTimeout": "2s", "enableHTTPS": True}],
        profiles=[{"schedulerName": "s"}],
    ).configuration
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (4, 30)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (2, 20)
    assert not config.enable_profiling
    assert (config.client_connection.kubeconfig, config.client_connection.qps) == ("/k", 9.0)
    assert (config.leader_election.leader_elect, config.leader_election.resource_name) == (False, "n")
    assert (config.extenders[0].http_timeout.seconds, config.extenders[0].enable_https) == (2.0, True)
    assert config.profiles[0].scheduler_name == "s"


@pytest.mark.parametrize(
    ("old", "strategy", "resources"),
    [
        ("NodeResourcesMostAllocated", "MostAllocated", [{"name": "cpu", "weight": 3}]),
        ("NodeResourcesLeastAllocated", "LeastAllocated", [{"name": "cpu", "weight": 3}]),
        ("RequestedToCapacityRatio", "RequestedToCapacityRatio", [{"name": "cpu", "weight": 3}]),
    ],
)
def test_plugins_that_became_strategies_keep_weight_and_arguments(old: str, strategy: str, resources: Any) -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    args = {"apiVersion": f"{GROUP}/v1beta1", "kind": f"{old}Args", "resources": resources}
    if old == "RequestedToCapacityRatio":
        args["shape"] = shape
    converted = with_plugins(
        "v1beta1",
        {"score": {"disabled": named("NodeResourcesLeastAllocated"), "enabled": [{"name": old, "weight": 5}]}},
        [{"name": old, "args": args}],
    )
    assert converted.scores() == {**OLD_SCORES, "NodeResourcesFit": 5}
    found = converted.profile.args("NodeResourcesFit")["scoringStrategy"]
    assert (found["type"], found["resources"]) == (strategy, resources)
    if "shape" in args:
        assert found["requestedToCapacityRatio"]["shape"] == shape


def test_scoring_by_resources_that_was_off_stays_off() -> None:
    converted = with_plugins("v1beta1", {"score": {"disabled": named("NodeResourcesLeastAllocated")}})
    assert converted.scores() == {name: weight for name, weight in OLD_SCORES.items() if name != "NodeResourcesFit"}
    assert "NodeResourcesFit" in converted.profile.names(P.FILTER)


def test_two_strategies_cannot_be_converted_and_a_note_says_so() -> None:
    converted = with_plugins("v1beta1", {"score": {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 2}]}})
    assert converted.profile.args("NodeResourcesFit")["scoringStrategy"]["type"] == "MostAllocated"
    assert "NodeResourcesLeastAllocated: cannot be combined with NodeResourcesMostAllocated" in converted.notes


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2"])
def test_a_list_from_nothing_is_the_same_list(version: str) -> None:
    converted = with_plugins(
        version,
        {
            "score": {"disabled": named("*"), "enabled": [{"name": "ImageLocality", "weight": 4}, {"name": "Mine"}]},
            "filter": {"disabled": named("*"), "enabled": named("NodeName", "Mine")},
        },
    )
    assert converted.scores() == {"ImageLocality": 4, "Mine": 1}
    assert converted.profile.names(P.FILTER) == ("NodeName", "Mine")
    assert "Mine: is no plugin of Kubernetes" in converted.notes


@pytest.mark.parametrize("name", sorted(legacy.REMOVED_PLUGINS))
def test_a_plugin_that_is_gone_is_named_with_what_to_do(name: str) -> None:
    converted = with_plugins(
        "v1beta1",
        {"score": {"enabled": [{"name": name, "weight": 2}]}},
        [{"name": name, "args": {"presentLabelsPreference": ["x"], "affinityLabels": ["x"]}}],
    )
    assert name in converted.notes
    assert name not in converted.profile.all_names()


@pytest.mark.parametrize("name", sorted(legacy.VOLUME_LIMITS))
@pytest.mark.parametrize("version", ["v1beta2", "v1"])
def test_limits_of_volumes_become_the_one_limit(version: str, name: str) -> None:
    converted = with_plugins(version, {"filter": {"disabled": named("*"), "enabled": named(name)}})
    assert converted.profile.names(P.FILTER) == ("NodeVolumeLimits",)
    assert name in converted.notes
    disabled = with_plugins(version, {"filter": {"disabled": named(name)}})
    assert "NodeVolumeLimits" in disabled.profile.names(P.FILTER)


def test_labels_that_nodes_need_become_an_affinity() -> None:
    converted = with_plugins(
        "v1beta1",
        {"filter": {"enabled": named("NodeLabel")}, "score": {"enabled": [{"name": "NodeLabel", "weight": 3}]}},
        [
            {
                "name": "NodeLabel",
                "args": {"presentLabels": ["a"], "absentLabels": ["b"], "presentLabelsPreference": ["c"]},
            },
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
                                {"matchExpressions": [{"key": "y", "operator": "Exists"}]},
                            ]
                        }
                    }
                },
            },
        ],
    )
    added = converted.profile.args("NodeAffinity")["addedAffinity"]
    terms = added["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = [("a", "Exists"), ("b", "DoesNotExist")]
    for first, term in zip("xy", terms, strict=True):
        assert [(each["key"], each["operator"]) for each in term["matchExpressions"]] == [(first, "Exists"), *wanted]
    (preferred,) = added["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"][0]["key"] == "c"


@pytest.mark.parametrize(
    ("plugins", "weight", "defaulting"),
    [
        ({}, 2, "System"),
        ({"score": {"disabled": named("SelectorSpread")}}, 2, "List"),
        ({"score": {"enabled": [{"name": "SelectorSpread", "weight": 7}]}}, 2, "System"),
        ({"score": {"disabled": named("*"), "enabled": [{"name": "SelectorSpread", "weight": 7}]}}, 7, "System"),
        (
            {"score": {"disabled": named("*"), "enabled": [{"name": "DefaultPodTopologySpread", "weight": 7}]}},
            7,
            "System",
        ),
    ],
    ids=["default", "off", "beside", "alone", "alone-by-its-first-name"],
)
def test_spreading_by_services_is_topology_spreading(plugins: Any, weight: int, defaulting: str) -> None:
    converted = with_plugins("v1alpha2", plugins)
    assert converted.scores()["PodTopologySpread"] == weight
    assert converted.profile.args("PodTopologySpread")["defaultingType"] == defaulting


def test_default_constraints_are_used() -> None:
    """Default constraints of the old kind are converted to `defaultingType: List`."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    config = [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]
    assert with_plugins("v1beta1", {}, config).profile.args("PodTopologySpread")["defaultingType"] == "List"


def test_extension_points_that_were_renamed_or_merged() -> None:
    alpha1 = versioned("v1alpha1", plugins={"postFilter": {"enabled": named("Mine")}})
    assert "Mine" in alpha1.profile.names(P.PRE_SCORE)
    assert "Mine" not in alpha1.profile.names(P.POST_FILTER)
    alpha2 = with_plugins("v1alpha2", {"unreserve": {"enabled": named("Mine", "VolumeBinding")}})
    assert alpha2.profile.names(P.RESERVE).count("VolumeBinding") == 1
    assert "Mine" in alpha2.profile.names(P.RESERVE)
    assert "unreserve" in alpha2.notes
    gone = with_plugins("v1alpha2", {"postBind": {"enabled": named("VolumeBinding", "Mine")}})
    assert gone.profile.names(P.POST_BIND) == ("Mine",)


def test_settings_that_became_arguments() -> None:
    converted = versioned(
        "v1alpha1",
        schedulerName="s",
        hardPodAffinitySymmetricWeight=20,
        bindTimeoutSeconds=30,
        disablePreemption=True,
        algorithmSource={"provider": "ClusterAutoscalerProvider"},
        leaderElection={"lockObjectName": "n", "lockObjectNamespace": "ns", "resourceLock": "endpoints"},
        healthzBindAddress="0.0.0.0:10251",
        metricsBindAddress="0",
    )
    profile, election = converted.profile, converted.configuration.leader_election
    assert profile.scheduler_name == "s"
    assert profile.args("InterPodAffinity")["hardPodAffinityWeight"] == 20
    assert profile.args("VolumeBinding")["bindTimeoutSeconds"] == 30
    assert "DefaultPreemption" not in profile.names(P.POST_FILTER)
    assert profile.args("NodeResourcesFit")["scoringStrategy"]["type"] == "MostAllocated"
    assert (election.resource_name, election.resource_namespace) == ("n", "ns")
    assert election.resource_lock == "leases"
    assert "leaderElection.resourceLock: endpoints was removed" in converted.notes
    assert "healthzBindAddress: 0.0.0.0:10251 has no equivalent" in converted.notes
    assert "metricsBindAddress" not in converted.notes


def test_unknown_fields_are_named() -> None:
    notes = versioned("v1beta1", bogus=1, profiles=[{"other": 2, "plugins": {"filters": {}}}]).notes
    for path in ("bogus", "profiles[0].other", "profiles[0].plugins.filters"):
        assert f"{path}: is not a field of any version" in notes


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1"])
def test_conversion_is_idempotent(version: str) -> None:
    once = with_plugins(version, {"score": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}})
    again = from_file(yaml.safe_load(once.text))
    assert [again.profile.plugins, again.profile.plugin_config] == [once.profile.plugins, once.profile.plugin_config]


def test_certificates_of_extenders_that_are_not_on_this_machine_are_named_and_not_checked() -> None:
    files = {"certFile": "/no/x.crt", "keyFile": "/no/x.key"}
    extender = {"urlPrefix": "https://x", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": files}
    old = {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
    text = writing.convert(["f"], Sources(lambda _: yaml.safe_dump(old).encode(), lambda *_: {}))
    assert yaml.safe_load(text)["extenders"][0]["tlsConfig"]["certFile"] == "/no/x.crt"
    for file in files.values():
        assert f"{file} is not on this machine, and not checked" in text
