"""Trireme's own settings: strictly decoded, with defaults that work, and every rule with its field."""

from pathlib import Path

import pytest

from trireme.config import service_tls, trireme_configuration
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import Duration

HEADER = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"
TLS = "tls: {certFile: /c, keyFile: /k, caFile: /a}"
PLUGIN = "name: P, address: 'unix:/p', extensionPoints: [filter]"


def _parse(text: str) -> TriremeConfiguration:
    return trireme_configuration.parse((HEADER + text).encode())


def _problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        _parse(text)
    return caught.value.problems


def test_without_a_file_everything_runs_on_one_machine() -> None:
    config = trireme_configuration.load("")
    assert config == TriremeConfiguration() == _parse("")
    for name in trireme_configuration.PHASES:
        assert (config.phase(name).endpoints, config.phase(name).local_replicas) == ((), 1)
    assert config.fallback.mode == "local"
    assert config.corrected
    assert declaration.problems_of(config) == []


@pytest.mark.parametrize(
    ("text", "processors", "expected"),
    [
        ("", 4, [True, True, True]),
        ("", 5, [False, False, False]),
        ("phases: {score: {localReplicas: 2}}", 4, [True, False, True]),
        ("phases: {bind: {localReplicas: 2}}", 4, [True, True, False]),
        ("phases: {local: InProcess}", 64, [True, True, True]),
        ("phases: {local: Children}", 1, [False, False, False]),
    ],
    ids=["few-processors", "many-processors", "several-of-score", "several-of-bind", "in-process", "children"],
)
def test_what_runs_in_the_frontends_process(
    monkeypatch: pytest.MonkeyPatch, text: str, processors: int, expected: list[bool]
) -> None:
    monkeypatch.setattr("trireme_kube.componentbase.processors.usable", lambda: processors)
    phases = _parse(text).phases
    assert [phases.in_process(name) for name in trireme_configuration.PHASES] == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("phases: {filter: {deadline: 30}}",
         'phases.filter.deadline: must be a duration with its unit, such as "30s" or "1m30s", not number'),
        ("fallback: {after: 30q}",
         'fallback.after: must be a duration with its unit, such as "30s" or "1m30s", not "30q"'),
        ("phases: {score: {endpoints: 5}}", "phases.score.endpoints: must be a list, not number"),
        ("phases: 7", "phases: must be an object, not number"),
        ("batch: {maxPods: many}", "batch.maxPods: must be an integer of 32 bits, not string"),
        ("batch: {maxPods: 3000000000}", "batch.maxPods: must be an integer of 32 bits, not number 3000000000"),
        ("remotePlugins: [{name: 1}]", "remotePlugins.name: must be a string, not number"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_named_with_its_field(text: str, problem: str) -> None:
    assert _problems(text) == (problem,)


def test_every_field_arrives_where_it_belongs() -> None:
    config = _parse("""
phases:
  filter: {endpoints: ["10.0.0.1:70", "unix:/f", "dns:///f:70", "endpointslice:///ns/f:grpc"], deadline: 3s}
  score: {localReplicas: 3, allowedIdentities: [s]}
  bind: {endpoints: ["127.0.0.1:70"]}
fallback: {mode: none, after: 1m}
tls: {certFile: /c, keyFile: /k, caFile: /a, allowedIdentities: [x]}
batch: {maxPods: 7, linger: 1ms}
handle: {listen: "127.0.0.1:71", allowedIdentities: ["spiffe://a/b"]}
reload: {listDeadline: 10m}
compatibility: Kubernetes
columnCacheClasses: 9
remotePlugins:
- name: P
  address: dns:///p:70
  extensionPoints: [filter, score]
  deadline: 2s
  failurePolicy: Ignore
  circuitBreaker: {failures: 2, openFor: 5s}
  tls: {caFile: /pa}
""")
    assert config.phases.filter.endpoints == ("10.0.0.1:70", "unix:/f", "dns:///f:70", "endpointslice:///ns/f:grpc")
    assert (config.phases.filter.deadline, config.phases.score.local_replicas) == (Duration.of(3), 3)
    assert config.phases.bind.endpoints == ("127.0.0.1:70",)
    assert (config.fallback.mode, config.fallback.after) == ("none", Duration.of(60))
    assert (config.tls.cert_file, config.tls.key_file, config.tls.ca_file) == ("/c", "/k", "/a")
    assert (config.tls.allowed_identities, config.tls.enabled) == (("x",), True)
    assert (config.batch.max_pods, config.batch.linger) == (7, Duration.of(0.001))
    assert (config.identities("filter"), config.identities("score")) == (("x",), ("s",))
    assert config.handle.allowed_identities == ("spiffe://a/b",)
    assert (config.handle.listen, config.column_cache_classes) == ("127.0.0.1:71", 9)
    assert config.reload.list_deadline == Duration.of(600)
    assert not config.corrected
    plugin = config.remote_plugin("P")
    assert plugin is not None
    assert plugin.extension_points == (ExtensionPoint.FILTER, ExtensionPoint.SCORE)
    assert (plugin.deadline, plugin.failure_policy) == (Duration.of(2), "Ignore")
    assert (plugin.circuit_breaker.failures, plugin.circuit_breaker.open_for) == (2, Duration.of(5))
    assert plugin.tls == service_tls.TLS(ca_file="/pa")
    assert config.remote_plugin("Q") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bogus: 1", 'unknown field "bogus"'),
        ("phases: {filter: {endpoint: x}}", 'unknown field "phases.filter.endpoint"'),
        ("batch: {}\nbatch: {}", 'yaml: line 4: key "batch" already set in map'),
        (
            "phases: {filter: {endpoints: [nowhere]}}",
            'phases.filter.endpoints[0]: Invalid value: "nowhere": must be host:port, unix:/path, dns:///name:port or '
            "endpointslice:///namespace/service:port",
        ),
        (
            "phases: {score: {endpoints: ['a:70000']}}",
            'phases.score.endpoints[0]: Invalid value: "a:70000": must be host:port, unix:/path, dns:///name:port or '
            "endpointslice:///namespace/service:port",
        ),
        (
            "phases: {filter: {endpoints: ['dns:///a..b:1']}}",
            'phases.filter.endpoints[0]: Invalid value: "dns:///a..b:1": must be a DNS name, whose labels have 1 to 63 '
            "characters each, or an IP address",
        ),
        (
            f"insight: {{endpoints: ['dns:///{'l' * 64}.example:1']}}",
            f'insight.endpoints[0]: Invalid value: "dns:///{"l" * 64}.example:1": must be a DNS name, whose labels '
            "have 1 to 63 characters each, or an IP address",
        ),
        (
            "remotePlugins: [{name: P, address: 'dns:///p..q:1', extensionPoints: [filter]}]",
            'remotePlugins[0].address: Invalid value: "dns:///p..q:1": must be a DNS name, whose labels have 1 to 63 '
            "characters each, or an IP address",
        ),
        ("phases: {filter: {endpoints: ['a:1', 'a:1']}}", 'phases.filter.endpoints[1]: Duplicate value: "a:1"'),
        (
            "phases: {filter: {localReplicas: 0}}",
            "phases.filter.localReplicas: Invalid value: 0: must be greater than zero",
        ),
        (
            "phases: {local: InProcess, score: {localReplicas: 2}}",
            "phases.score.localReplicas: Invalid value: 2: must be 1 where phases.local is InProcess",
        ),
        (
            "phases: {local: Threads}",
            'phases.local: Unsupported value: "Threads": supported values: "Auto", "InProcess", "Children"',
        ),
        ("phases: {bind: {deadline: 0s}}", 'phases.bind.deadline: Invalid value: "0s": must be greater than zero'),
        (
            "phases: {bind: {endpoints: ['10.0.0.1:70']}}",
            "tls: Required value: 10.0.0.1:70 of phases.bind is beyond loopback and Unix sockets",
        ),
        ("fallback: {mode: maybe}", 'fallback.mode: Unsupported value: "maybe": supported values: "local", "none"'),
        ("fallback: {after: -1s}", 'fallback.after: Invalid value: "-1s": must be greater than zero'),
        ("tls: {certFile: /c, caFile: /a}", "tls.keyFile: Required value: must be given with certFile"),
        ("tls: {keyFile: /k, caFile: /a}", "tls.certFile: Required value: must be given with keyFile"),
        ("tls: {certFile: /c, keyFile: /k}", "tls.caFile: Required value: TLS between the services is mutual"),
        ("tls: {allowedIdentities: [x]}", "tls.caFile: Required value: identities are those of certificates"),
        ("batch: {maxPods: 0}", "batch.maxPods: Invalid value: 0: must be greater than zero"),
        ("batch: {maxPods: 5001}", "batch.maxPods: Invalid value: 5001: must not be greater than 5000"),
        ("batch: {linger: -1s}", 'batch.linger: Invalid value: "-1s": must be zero or positive'),
        ("reload: {listDeadline: 0s}", 'reload.listDeadline: Invalid value: "0s": must be greater than zero'),
        (
            "compatibility: Openshift",
            'compatibility: Unsupported value: "Openshift": supported values: "Corrected", "Kubernetes"',
        ),
        ("columnCacheClasses: 0", "columnCacheClasses: Invalid value: 0: must be greater than zero"),
        (
            "handle: {listen: '10.0.0.1:70', allowedIdentities: [p]}",
            "tls: Required value: 10.0.0.1:70 is beyond loopback and Unix sockets",
        ),
        (
            f"handle: {{listen: '10.0.0.1:70'}}\n{TLS}",
            "handle.allowedIdentities: Required value: 10.0.0.1:70 is beyond loopback and Unix sockets",
        ),
        (
            f"handle: {{listen: '127.0.0.1:70'}}\n{TLS}\n"
            "remotePlugins: [{name: P, address: 'unix:/p', extensionPoints: [filter, permit]}]",
            "remotePlugins[0].handleIdentities: Required value: handle.listen has TLS, and a plugin with permit is "
            "known there by its certificate",
        ),
        (
            "handle: {listen: 'dns:///h:70'}",
            'handle.listen: Invalid value: "dns:///h:70": must be unix:/path or host:port',
        ),
        (
            "tls: {caFile: /a, allowedIdentities: ['spiffe://a/b']}",
            'tls.allowedIdentities[0]: Invalid value: "spiffe://a/b": must be a DNS name or an IP address',
        ),
        (
            f"phases: {{score: {{allowedIdentities: ['']}}}}\n{TLS}",
            'phases.score.allowedIdentities[0]: Invalid value: "": must be a DNS name or an IP address',
        ),
        (
            "phases: {score: {allowedIdentities: [x]}}",
            "tls: Required value: phases.score.allowedIdentities are those of certificates",
        ),
        (
            f"phases: {{filter: {{endpoints: ['endpointslice:///ns/f:grpc']}}}}\n{TLS}",
            "phases.filter.allowedIdentities: Required value: no certificate names the addresses that "
            "endpointslice:///ns/f:grpc stands for",
        ),
        (
            "phases: {bind: {endpoints: ['10.0.0.1:70']}}\ntls: {caFile: /a}",
            "tls: Required value: 10.0.0.1:70 of phases.bind is beyond loopback and Unix sockets",
        ),
        (
            "remotePlugins: [{name: P, address: 'endpointslice:///p:grpc', extensionPoints: [filter]}]",
            'remotePlugins[0].address: Invalid value: "endpointslice:///p:grpc": must be host:port, unix:/path, '
            "dns:///name:port or endpointslice:///namespace/service:port",
        ),
        (
            "remotePlugins: [{name: P, address: 'endpointslice:///ns/p:grpc', extensionPoints: [filter], "
            "tls: {caFile: /a}}]",
            "remotePlugins[0].tls.allowedIdentities: Required value: no certificate names the addresses that "
            "endpointslice:///ns/p:grpc stands for",
        ),
        ("remotePlugins: [{address: 'unix:/p', extensionPoints: [filter]}]", "remotePlugins[0].name: Required value"),
        (
            "remotePlugins: [{name: P, extensionPoints: [filter]}]",
            "remotePlugins[0].address: Required value: or addresses",
        ),
        (
            "remotePlugins: [{name: P, address: 'unix:/p'}]",
            "remotePlugins[0].extensionPoints: Required value: at least one extension point must be named",
        ),
        (
            "remotePlugins: [{name: '*', address: 'unix:/p', extensionPoints: [filter]}]",
            'remotePlugins[0].name: Invalid value: "*": is no name that a profile can use',
        ),
        (f"remotePlugins: [{{{PLUGIN}}}, {{{PLUGIN}}}]", 'remotePlugins[1].name: Duplicate value: "P"'),
        (
            f"remotePlugins: [{{{PLUGIN}, failurePolicy: Maybe}}]",
            'remotePlugins[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, canary: {{percent: 5}}}}]",
            "remotePlugins[0].canary.address: Required value: or addresses",
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, canary: {{address: nowhere, percent: 5}}}}]",
            'remotePlugins[0].canary.address: Invalid value: "nowhere": must be host:port, unix:/path, '
            "dns:///name:port or endpointslice:///namespace/service:port",
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, canary: {{address: 'unix:/c', percent: 101}}}}]",
            "remotePlugins[0].canary.percent: Invalid value: 101: must be from 0 to 100",
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, canary: {{address: 'unix:/c', failurePolicy: Maybe}}}}]",
            'remotePlugins[0].canary.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, mode: Shadow, canary: {{address: 'unix:/c'}}}}]",
            "remotePlugins[0].canary: Forbidden: the plugin is in shadow mode, so neither version's answers count",
        ),
        (
            "remotePlugins: [{name: P, address: 'unix:/p', extensionPoints: [filter, reserve], "
            "canary: {address: 'unix:/c'}}]",
            "remotePlugins[0].canary: Forbidden: the plugin has side effects at reserve, which another version would "
            "not know; a canary is for preFilter, filter, preScore and score",
        ),
        (
            "remotePlugins: [{name: P/canary, address: 'unix:/p', extensionPoints: [filter]}]",
            'remotePlugins[0].name: Invalid value: "P/canary": must not end with /canary: such names are those of '
            "canaries",
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, circuitBreaker: {{failures: -1}}}}]",
            "remotePlugins[0].circuitBreaker.failures: Invalid value: -1: must be zero (never opens) or positive",
        ),
        (
            f"remotePlugins: [{{{PLUGIN}, tls: {{certFile: /c, caFile: /a}}}}]",
            "remotePlugins[0].tls.keyFile: Required value: must be given with certFile",
        ),
    ],
    ids=lambda text: "" if "value" in text or "field" in text or "yaml:" in text else text[:50],
)
def test_a_broken_rule_is_reported_with_its_field(text: str, problem: str) -> None:
    assert _problems(text) == (problem,)


@pytest.mark.parametrize("point", ["filters", "placementScore", "placementGenerate", "podGroupPostFilter"])
def test_an_extension_point_that_no_remote_plugin_can_have_is_named(point: str) -> None:
    (problem,) = _problems(f"remotePlugins: [{{name: P, address: 'unix:/p', extensionPoints: [filter, {point}]}}]")
    assert problem.startswith(f'remotePlugins[0].extensionPoints[1]: Unsupported value: "{point}": supported values: ')
    assert '"filter"' in problem


def test_a_breaker_may_never_open() -> None:
    config = _parse(f"remotePlugins: [{{{PLUGIN}, circuitBreaker: {{failures: 0}}}}]")
    assert config.remote_plugins[0].circuit_breaker.failures == 0


@pytest.mark.parametrize("endpoint", ["unix:/b", "127.0.0.1:70", "localhost:70", "[::1]:70"])
def test_bind_on_this_machine_needs_no_tls(endpoint: str) -> None:
    assert _parse(f"phases: {{bind: {{endpoints: ['{endpoint}']}}}}").phases.bind.endpoints == (endpoint,)


def test_bind_elsewhere_is_taken_with_tls() -> None:
    text = "phases: {bind: {endpoints: ['10.0.0.1:70']}}\ntls: {certFile: /c, keyFile: /k, caFile: /a}"
    assert _parse(text).phases.bind.endpoints == ("10.0.0.1:70",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v1"',
        ),
        ("{}", "apiVersion must be trireme.dev/v1alpha1 and kind TriremeConfiguration"),
        ("{", "unexpected end of JSON input"),
        ("a: b: c", "mapping values are not allowed in this context"),
    ],
    ids=["stock-file", "empty", "malformed-json", "malformed-yaml"],
)
def test_another_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trireme_configuration.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        trireme_configuration.load(str(path))
    assert str(caught.value).startswith(f"{path}: ")


def test_remote_plugins_can_be_named_in_a_profile() -> None:
    registry = trireme_configuration.registry_with_remote_plugins(IN_TREE, _parse(f"remotePlugins: [{{{PLUGIN}}}]"))
    assert registry.implements("P", ExtensionPoint.FILTER)
    assert not registry.implements("P", ExtensionPoint.SCORE)
    assert registry["P"].remote
    assert not registry["P"].supports_signature


def test_a_remote_plugin_cannot_take_the_name_of_another() -> None:
    config = _parse("remotePlugins: [{name: NodeName, address: 'unix:/p', extensionPoints: [filter]}]")
    with pytest.raises(ConfigurationError, match="a plugin named NodeName already exists"):
        trireme_configuration.registry_with_remote_plugins(IN_TREE, config)
