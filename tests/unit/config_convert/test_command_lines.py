"""Old command lines: every flag has a place, a file is found where it was, and what is wrong is refused."""

import json
from typing import Any

import pytest
import yaml

from tests.helpers.config_conversions import ALWAYS, GROUP, OLD_SCORES, convert, filters, from_policy, named
from trireme.config.loading import ConfigurationError
from trireme.config.old_flags import OLD_FLAGS
from trireme.config_convert import command_lines
from trireme.config_convert.reading import ConversionError
from trireme_kube.componentbase.cli.flags import FlagError

POLICY = {"kind": "Policy", "apiVersion": "v1", "predicates": named("HostName"), "priorities": []}


def test_a_provider_by_its_flag() -> None:
    """--algorithm-provider becomes a profile."""
    default, packing = (
        convert("--algorithm-provider=DefaultProvider"),
        convert("--algorithm-provider=ClusterAutoscalerProvider"),
    )
    assert default.scores() == packing.scores() == OLD_SCORES
    assert default.profile.args("NodeResourcesFit")["scoringStrategy"]["type"] == "LeastAllocated"
    assert packing.profile.args("NodeResourcesFit")["scoringStrategy"]["type"] == "MostAllocated"
    with pytest.raises(ConversionError, match='there was no algorithm provider "Other"'):
        convert("--algorithm-provider=Other")


@pytest.mark.parametrize(
    ("arguments", "config_maps"),
    [
        pytest.param(["policy"], {}, id="file"),
        pytest.param(["held"], {}, id="config-map-in-a-file"),
        pytest.param(["--policy-config-file=policy"], {}, id="flag"),
        pytest.param(["--policy-configmap=p", "--kubeconfig=k"], {"k||kube-system/p": 1}, id="config-map"),
        pytest.param(
            ["--policy-configmap=p", "--policy-configmap-namespace=n", "--master=m"], {"|m|n/p": 1}, id="namespace"
        ),
        pytest.param(
            ["--policy-configmap=p", "--policy-config-file=policy", "--use-legacy-policy-config"], {}, id="legacy"
        ),
        pytest.param(
            ["--policy-configmap=p", "--policy-config-file=other"], {"||kube-system/p": 1}, id="map-before-file"
        ),
        pytest.param(["alpha"], {}, id="algorithm-source"),
        pytest.param(["alpha-map"], {"k||n/p": 1}, id="algorithm-source-config-map"),
    ],
)
def test_a_policy_is_found_where_it_was(arguments: list[str], config_maps: dict[str, int]) -> None:
    held = {"policy.cfg": json.dumps(POLICY)}
    alpha = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "KubeSchedulerConfiguration"}
    files: dict[str, Any] = {
        "policy": POLICY,
        "held": {"apiVersion": "v1", "kind": "ConfigMap", "data": held},
        "alpha": {**alpha, "algorithmSource": {"policy": {"file": {"path": "policy"}}}},
        "alpha-map": {
            **alpha,
            "clientConnection": {"kubeconfig": "k"},
            "algorithmSource": {"policy": {"configMap": {"namespace": "n", "name": "p"}}},
        },
    }
    converted = convert(*arguments, config_maps=dict.fromkeys(config_maps, held), **files)
    assert filters(converted) == ALWAYS | {"NodeName"}


def test_flags_go_where_their_settings_are_now() -> None:
    converted = convert(
        "--scheduler-name=s",
        "--hard-pod-affinity-symmetric-weight=7",
        "--lock-object-name=n",
        "--lock-object-namespace=ns",
        "--leader-elect-lease-duration=40s",
        "--leader-elect-resource-lock=endpoints",
        "--kube-api-qps=12.5",
        "--kubeconfig=/k",
        "--contention-profiling=false",
    )
    config = converted.configuration
    assert converted.profile.scheduler_name == "s"
    assert converted.profile.args("InterPodAffinity")["hardPodAffinityWeight"] == 7
    assert (config.leader_election.resource_name, config.leader_election.resource_namespace) == ("n", "ns")
    assert config.leader_election.lease_duration.seconds == 40.0
    assert (config.client_connection.qps, config.client_connection.kubeconfig) == (12.5, "/k")
    assert not config.enable_contention_profiling
    assert "--leader-elect-resource-lock: endpoints was removed" in converted.notes


def test_flags_that_are_still_flags_are_listed_as_they_stood() -> None:
    converted = convert(
        "--port=0",
        "--secure-port=10260",
        "--tls-cipher-suites=A,B",
        "-v=2",
        "--logtostderr",
        "--google-json-key=x",
        "--feature-gates=GenericWorkload=false,EvenPodsSpread=true",
        "--vmodule=a b=1",
    )
    lines = [line.removeprefix("#   ") for line in converted.text.splitlines() if line.startswith("#   ")]
    for flag in ("--secure-port=10260", "--tls-cipher-suites=A,B", "--v=2", "--feature-gates=GenericWorkload=false"):
        assert flag in lines
    assert "'--vmodule=a b=1'" in lines
    for said in ("--logtostderr: were removed", "--google-json-key: has no equivalent", "EvenPodsSpread: was removed"):
        assert said in converted.notes
    assert "--port" not in converted.notes


def test_a_note_says_that_the_insecure_port_no_longer_exists() -> None:
    assert "127.0.0.1:10251 has no equivalent" in convert("--address=127.0.0.1").notes


@pytest.mark.parametrize("name", sorted(OLD_FLAGS))
def test_every_old_flag_is_taken(name: str) -> None:
    flag = next(flag for flag in command_lines.flag_set().flags() if flag.name == name)
    given = {"algorithm-provider": "DefaultProvider", "policy-config-file": "policy", "policy-configmap": "p"}
    value = given.get(name, {"int": "1", "bool": "false"}.get(flag.type.name, "x"))
    held = {"||kube-system/p": {"policy.cfg": json.dumps(POLICY)}}
    assert convert(f"--{name}={value}", config_maps=held, policy=POLICY).text


def test_flags_next_to_a_file_have_their_old_effect() -> None:
    old = {"apiVersion": f"{GROUP}/v1beta1", "kind": "KubeSchedulerConfiguration"}
    ignored = convert("--config=f", "--kubeconfig=/k", "--leader-elect=false", f=old)
    assert ignored.configuration.client_connection.kubeconfig == ""
    assert ignored.configuration.leader_election.leader_elect
    assert "--kubeconfig: had no effect with a configuration file" in ignored.notes
    newer = convert("--config=f", "--leader-elect=false", f={**old, "apiVersion": f"{GROUP}/v1beta3"})
    assert not newer.configuration.leader_election.leader_elect
    beside = convert("policy", "--kubeconfig=/k", "--scheduler-name=s", policy=POLICY)
    assert beside.configuration.client_connection.kubeconfig == "/k"
    assert beside.profile.scheduler_name == "s"


@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        pytest.param([], {}, "there is nothing to convert", id="nothing"),
        pytest.param(["a", "b"], {}, "there is more than one file to convert: a, b", id="two-files"),
        pytest.param(["f"], {}, "open f: no such file or directory", id="missing"),
        pytest.param(["f"], {"f": "[]"}, "f: holds no object", id="no-object"),
        pytest.param(["f"], {"f": "a: b: c"}, "f: yaml: mapping values", id="malformed"),
        pytest.param(
            ["f"], {"f": {"kind": "Pod", "apiVersion": "v1"}}, 'f: holds kind "Pod" of apiVersion "v1"', id="pod"
        ),
        pytest.param(["f"], {"f": {"kind": "ConfigMap", "data": {"a": "", "b": ""}}}, "several keys", id="keys"),
        pytest.param(["f"], {"f": {"kind": "ConfigMap"}}, "f: is a ConfigMap without data", id="no-data"),
        pytest.param(
            ["--config=f", "--policy-config-file=p"],
            {
                "f": {
                    "apiVersion": f"{GROUP}/v1beta1",
                    "kind": "KubeSchedulerConfiguration",
                    "profiles": [{"plugins": {}}],
                },
                "p": POLICY,
            },
            "a Policy and plugins in the configuration exclude each other",
            id="both",
        ),
        pytest.param(
            ["f"],
            {"f": {"apiVersion": f"{GROUP}/v1beta2", "kind": "KubeSchedulerConfiguration", "parallelism": 0}},
            "the result would not work: parallelism: Invalid value: 0",
            id="invalid",
        ),
        pytest.param(
            ["f"],
            {
                "f": {
                    "apiVersion": f"{GROUP}/v1beta2",
                    "kind": "KubeSchedulerConfiguration",
                    "profiles": [{"plugins": {"bind": {"disabled": named("*")}}}],
                }
            },
            "the result would not work: initializing profiles: creating profile for scheduler name "
            "default-scheduler: at least one bind plugin is needed",
            id="would-not-start",
        ),
    ],
)
def test_arguments_that_cannot_be_converted_are_refused(
    arguments: list[str], files: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        convert(*arguments, **files)
    assert message in str(caught.value)


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(FlagError, match="unknown flag: --bogus"):
        convert("--bogus")


@pytest.mark.parametrize("odd", ["\n", "\r", "\x85", "\u2028", "\n# -\nkind: Other"])
def test_nothing_that_is_quoted_ends_a_comment(odd: str) -> None:
    converted = from_policy(
        predicates=[{"name": f"x{odd}y", "argument": {"serviceAffinity": {"labels": [f"a{odd}b"]}}}]
    )
    assert yaml.safe_load(converted.text)["kind"] == "KubeSchedulerConfiguration"
    assert filters(converted) == ALWAYS
