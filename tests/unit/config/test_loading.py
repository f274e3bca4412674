"""From bytes to a configuration: kinds, strictness, types, defaults."""

import pytest

from tests.helpers.config_starts import HEADER, feature_gates
from trireme.config import loading
from trireme.config.scheduler_configuration import SchedulerConfiguration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import Duration


def _load(text: str) -> SchedulerConfiguration:
    return loading.load(text.encode(), feature_gates(), lambda _line: None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1",
            "Object 'Kind' is missing in 'apiVersion: kubescheduler.config.k8s.io/v1'",
            id="no-kind",
        ),
        pytest.param(
            "kind: KubeSchedulerConfiguration",
            "Object 'apiVersion' is missing in 'kind: KubeSchedulerConfiguration'",
            id="no-version",
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1beta3" '
            'in scheme "pkg/runtime/scheme.go:110"',
            id="old-version",
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs",
            "couldn't decode as KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, "
            "Kind=NodeAffinityArgs: ",
            id="another-kind",
        ),
        pytest.param(
            "[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
            id="no-object",
        ),
    ],
)
def test_invalid_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("paralelism: 3", 'unknown field "paralelism"', id="unknown"),
        pytest.param("Parallelism: 3", 'unknown field "Parallelism"', id="another-case"),
        pytest.param(
            "profiles: [{plugins: {score: {enable: []}}}]",
            'unknown field "profiles[0].plugins.score.enable"',
            id="deep",
        ),
        pytest.param("parallelism: 1\nparallelism: 2", 'key "parallelism" already set in map', id="duplicate"),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeAffinity, args: {added: 1}}]}]",
            "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: "
            'strict decoding error: unknown field "added"',
            id="arguments",
        ),
    ],
)
def test_unknown_and_duplicate_fields_are_errors(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^strict decoding error: ") as caught:
        _load(HEADER + text)
    assert problem in str(caught.value)


def test_all_strict_errors_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(HEADER + "a: 1\nleaderElection: {c: 1}\nb: 1")
    assert sorted(caught.value.problems) == [
        'unknown field "a"',
        'unknown field "b"',
        'unknown field "leaderElection.c"',
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "parallelism: many",
            "json: cannot unmarshal string into Go struct field KubeSchedulerConfiguration.parallelism of type int32",
            id="text-for-number",
        ),
        pytest.param(
            "parallelism: 1.5",
            "json: cannot unmarshal number 1.5 into Go struct field KubeSchedulerConfiguration.parallelism "
            "of type int32",
            id="fraction-for-whole",
        ),
        pytest.param(
            "parallelism: 4294967296",
            "json: cannot unmarshal number 4294967296 into Go struct field KubeSchedulerConfiguration.parallelism "
            "of type int32",
            id="too-large",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 5d}", 'time: unknown unit "d" in duration "5d"', id="no-duration"
        ),
        pytest.param(
            "profiles: {}",
            "json: cannot unmarshal object into Go struct field KubeSchedulerConfiguration.profiles of type "
            "[]v1.KubeSchedulerProfile",
            id="object-for-list",
        ),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(HEADER + text)
    assert str(caught.value) == message


def test_json_and_yaml_are_the_same() -> None:
    json = (
        '{"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1", '
        '"parallelism": 4, "leaderElection": {"leaseDuration": "30s"}}'
    )
    assert _load(json) == _load(HEADER + "parallelism: 4\nleaderElection: {leaseDuration: 30s}")


def test_an_empty_configuration_has_every_default() -> None:
    config = _load(HEADER)
    assert config == loading.default_configuration(feature_gates())
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    assert (config.client_connection.qps, config.client_connection.burst) == (50.0, 100)
    election = config.leader_election
    assert (election.leader_elect, election.resource_lock) == (True, "leases")
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    assert [election.lease_duration, election.renew_deadline, election.retry_period] == [
        Duration.of(15),
        Duration.of(10),
        Duration.of(2),
    ]
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    args = {plugin.name: plugin.args for plugin in profile.plugin_config}
    assert args["InterPodAffinity"]["hardPodAffinityWeight"] == 1
    assert args["DefaultPreemption"]["minCandidateNodesPercentage"] == 10
    assert args["DefaultPreemption"]["minCandidateNodesAbsolute"] == 100
    assert args["PodTopologySpread"]["defaultingType"] == "System"
    assert args["NodeResourcesFit"]["scoringStrategy"]["resources"] == [
        {"name": "cpu", "weight": 1},
        {"name": "memory", "weight": 1},
    ]


def test_profiling_that_is_off_leaves_contention_profiling_off() -> None:
    config = _load(HEADER + "enableProfiling: false")
    assert (config.enable_profiling, config.enable_contention_profiling) == (False, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "{name: NodeAffinity, args: {kind: InterPodAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}}",
            "args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, got "
            "InterPodAffinityArgs.kubescheduler.config.k8s.io",
            id="of-another-plugin",
        ),
        pytest.param(
            "{name: NodeAffinity, args: {kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1beta3}}",
            'decoding args for plugin NodeAffinity: no kind "NodeAffinityArgs" is registered for version '
            '"kubescheduler.config.k8s.io/v1beta3" in scheme "pkg/runtime/scheme.go:110"',
            id="of-another-version",
        ),
    ],
)
def test_arguments_must_be_the_plugins_own(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        _load(f"{HEADER}profiles: [{{pluginConfig: [{text}]}}]")
    assert str(caught.value) == f"decoding .profiles[0].pluginConfig[0]: {message}"


def test_arguments_of_unknown_plugins_are_passed_on_unchanged() -> None:
    config = _load(HEADER + "profiles: [{pluginConfig: [{name: Mine, args: {deep: [1, {x: null}]}}]}]")
    args = {plugin.name: plugin.args for plugin in config.profiles[0].plugin_config}
    assert args["Mine"] == {"deep": [1, {"x": None}]}


def test_a_file_that_is_not_there_is_named(tmp_path: object) -> None:
    path = f"{tmp_path}/config.yaml"
    with pytest.raises(ConfigurationError) as caught:
        loading.load_file(path, feature_gates(), lambda _line: None)
    assert str(caught.value) == f"open {path}: no such file or directory"
