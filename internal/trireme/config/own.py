"""Trireme's own settings: TriremeConfiguration, in an API group of its own, in a file of its own.

A KubeSchedulerConfiguration stays exactly kube-scheduler's, so that a stock file works unchanged and can be taken back;
what only Trireme has (where the phases run, remote plugins, TLS between the services, batches) is in the file that
`--trireme-config` names. Without that file everything has a default that works: one filter, one score and one bind as
children of the frontend, on Unix sockets.

The file is decoded as strictly as the other one, and everything wrong with it is reported at once, with field paths.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trireme.config import json_document, yaml_document
from trireme.config.decoding import DecodeError, decode
from trireme.config.field_errors import Problem, child, duplicate, index, invalid, not_supported, required
from trireme.config.gates import aggregate
from trireme.config.golang import MILLISECOND, SECOND, Duration
from trireme.config.json_document import Node
from trireme.config.loading import ConfigurationError, interpret, not_registered, read_file
from trireme.config.own_schema import CONFIGURATION
from trireme.framework.registry import ExtensionPoint, PluginDescription, Registry

API_GROUP = "trireme.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"
KIND = "TriremeConfiguration"

PHASES = ("filter", "score", "bind")
FALLBACKS = ("local", "none")
FAILURE_POLICIES = ("Fail", "Ignore")

_FALLBACK_AFTER = Duration(30 * SECOND)
_PHASE_DEADLINE = Duration(10 * SECOND)
_DEADLINE = Duration(SECOND)
_OPEN_FOR = Duration(30 * SECOND)
_LINGER = Duration(5 * MILLISECOND)

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?):([0-9]{1,5})")
_SLICE = re.compile(r"endpointslice:///[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?:[A-Za-z0-9-]+")
_LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\]):[0-9]+")


@dataclass(frozen=True, slots=True)
class TLS:
    """TLS towards other services, and of our own towards them. The files are read again when they change."""

    #: The certificate that this side shows.
    cert_file: str = ""
    key_file: str = ""
    #: The authorities that the other side's certificate must come from.
    ca_file: str = ""
    #: The identities (URI or DNS names in the certificate, or its common name) that the other side may have; empty
    #: means any that the authorities vouch for.
    allowed_identities: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether any of it is set."""
        return bool(self.cert_file or self.key_file or self.ca_file)


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a phase runs."""

    #: `host:port`, `unix:/path`, `dns:///name:port` (every address of the name), or
    #: `endpointslice:///namespace/service:port` (every ready endpoint of the Service). Empty: children of the frontend.
    endpoints: tuple[str, ...] = ()
    #: How many children the frontend starts where there are no endpoints, or none that answers.
    local_replicas: int = 1
    #: How long a call may take.
    deadline: Duration = _PHASE_DEADLINE


@dataclass(frozen=True, slots=True)
class Fallback:
    """What happens when no endpoint of a phase answers."""

    #: `local`: the frontend starts children of its own until one answers again; `none`: pods wait.
    mode: str = "local"
    #: How long no endpoint must have answered.
    after: Duration = _FALLBACK_AFTER


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """When a failing plugin is left alone for a while."""

    #: So many failures in a row open it.
    failures: int = 5
    #: How long it stays open before one call is tried.
    open_for: Duration = _OPEN_FOR


@dataclass(frozen=True, slots=True)
class RemotePlugin:
    """A plugin that is a service of its own. A profile names it like any other plugin."""

    name: str
    #: As a phase's endpoints.
    address: str
    #: Where profiles may enable it; what it says itself is checked against this when it is reached.
    extension_points: tuple[ExtensionPoint, ...]
    #: How long a call may take.
    deadline: Duration = _DEADLINE
    #: `Fail`: a pod whose call failed is tried again later; `Ignore`: the plugin has no say for it.
    failure_policy: str = "Fail"
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    #: `None`: as the services among themselves.
    tls: TLS | None = None
    #: Passed on to the plugin as JSON.
    args: Any = None

    def args_json(self) -> bytes:
        """The arguments as canonical JSON."""
        return orjson.dumps({} if self.args is None else self.args, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class Batch:
    """How pods of one class are scheduled together."""

    #: Most pods in a batch.
    max_pods: int = 100
    #: How long an idle frontend waits for more pods of a class that is arriving.
    linger: Duration = _LINGER


@dataclass(frozen=True, slots=True)
class TriremeConfiguration:
    """Trireme's own settings."""

    filter: Phase = Phase()
    score: Phase = Phase()
    bind: Phase = Phase()
    fallback: Fallback = Fallback()
    remote_plugins: tuple[RemotePlugin, ...] = ()
    #: Between the services.
    tls: TLS = TLS()
    batch: Batch = Batch()
    #: Where the frontend serves HandleService to plugins (`host:port` on loopback, or `unix:/path`); empty: nowhere.
    handle_listen: str = ""
    #: How many recent classes a replica of filter and score keeps columns of.
    column_cache_classes: int = 256

    def phase(self, name: str) -> Phase:
        """One of `filter`, `score` and `bind`."""
        return {"filter": self.filter, "score": self.score, "bind": self.bind}[name]

    def remote_plugin(self, name: str) -> RemotePlugin | None:
        """The remote plugin of that name."""
        return next((plugin for plugin in self.remote_plugins if plugin.name == name), None)


def registry(in_tree: Registry, config: TriremeConfiguration) -> Registry:
    """The in-tree plugins and the remote ones of a configuration.

    Raises:
        ConfigurationError: two plugins have one name.
    """
    remote = (
        PluginDescription(plugin.name, frozenset(plugin.extension_points), signs=False, remote=True)
        for plugin in config.remote_plugins
    )
    try:
        return in_tree.with_remote(remote)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


# Loading.


def load(path: str) -> TriremeConfiguration:
    """Reads a file; without one, the defaults.

    Raises:
        ConfigurationError: it cannot be read, decoded or used; the message names the file.
    """
    if not path:
        return TriremeConfiguration()
    data = read_file(path)
    try:
        return parse(data)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def parse(data: bytes) -> TriremeConfiguration:
    """Decodes and checks a configuration.

    Raises:
        ConfigurationError: it cannot be decoded, or something in it is wrong.
    """
    node, strict = _read(data)
    kind = interpret(node)
    if (kind.api_version, kind.kind) != (API_VERSION, KIND):
        if not kind.kind or not kind.version:
            raise ConfigurationError(f"apiVersion must be {API_VERSION} and kind {KIND}")
        raise ConfigurationError(not_registered(kind))
    try:
        decoded = decode(node, CONFIGURATION)
    except DecodeError as error:
        raise ConfigurationError(str(error)) from error
    strict.extend(decoded.strict)
    if strict:
        raise ConfigurationError("strict decoding error: " + ", ".join(strict))
    config = _configuration(decoded.value)
    problems = validate(config)
    if problems:
        raise ConfigurationError(aggregate(problems))
    return config


def _read(data: bytes) -> tuple[Node, list[str]]:
    text = data.decode("utf-8", "surrogateescape")
    if text.lstrip().startswith("{"):
        try:
            return json_document.parse(text), []
        except json_document.MalformedJSONError as error:
            raise ConfigurationError(f"json parse error: {error}") from error
    try:
        document = yaml_document.parse(data)
    except yaml_document.MalformedYAMLError as error:
        raise ConfigurationError(str(error)) from error
    return document.node, [document.duplicates] * bool(document.duplicates)


Value = Mapping[str, Any]


def _phase(value: Value) -> Phase:
    default = Phase()
    return Phase(
        endpoints=tuple(value.get("endpoints") or ()),
        local_replicas=value.get("localReplicas", default.local_replicas),
        deadline=value.get("deadline", default.deadline),
    )


def _tls(value: Value) -> TLS:
    return TLS(
        cert_file=value.get("certFile", ""),
        key_file=value.get("keyFile", ""),
        ca_file=value.get("caFile", ""),
        allowed_identities=tuple(value.get("allowedIdentities") or ()),
    )


@dataclass(frozen=True, slots=True)
class _UnknownPoint:
    """An extension point that does not exist, kept until everything is checked."""

    name: str


def _point(text: str) -> Any:
    try:
        return ExtensionPoint(text)
    except ValueError:
        return _UnknownPoint(text)


def _remote_plugin(value: Value) -> RemotePlugin:
    breaker: Value = value.get("circuitBreaker") or {}
    tls = value.get("tls")
    args = value.get("args")
    return RemotePlugin(
        name=value.get("name", ""),
        address=value.get("address", ""),
        extension_points=tuple(_point(text) for text in value.get("extensionPoints") or ()),
        deadline=value.get("deadline", _DEADLINE),
        failure_policy=value.get("failurePolicy", "Fail"),
        circuit_breaker=CircuitBreaker(failures=breaker.get("failures", 5), open_for=breaker.get("openFor", _OPEN_FOR)),
        tls=None if tls is None else _tls(tls),
        args=None if args is None else json_document.plain(args),
    )


def _configuration(value: Value) -> TriremeConfiguration:
    phases: Value = value.get("phases") or {}
    fallback: Value = value.get("fallback") or {}
    batch: Value = value.get("batch") or {}
    default = TriremeConfiguration()
    return TriremeConfiguration(
        filter=_phase(phases.get("filter") or {}),
        score=_phase(phases.get("score") or {}),
        bind=_phase(phases.get("bind") or {}),
        fallback=Fallback(fallback.get("mode", "local"), fallback.get("after", _FALLBACK_AFTER)),
        remote_plugins=tuple(_remote_plugin(plugin) for plugin in value.get("remotePlugins") or ()),
        tls=_tls(value.get("tls") or {}),
        batch=Batch(batch.get("maxPods", default.batch.max_pods), batch.get("linger", default.batch.linger)),
        handle_listen=(value.get("handle") or {}).get("listen", ""),
        column_cache_classes=value.get("columnCacheClasses", default.column_cache_classes),
    )


# Rules.


def validate(config: TriremeConfiguration) -> list[Problem]:
    """Everything that is wrong with a configuration."""
    problems: list[Problem] = []
    for name in PHASES:
        problems.extend(_phase_problems(child("phases", name), config.phase(name)))
    if not config.tls.enabled:
        problems.extend(
            required("tls", f"{endpoint} of phases.bind is beyond loopback and Unix sockets")
            for endpoint in config.bind.endpoints
            if not _is_local(endpoint)
        )
    if config.fallback.mode not in FALLBACKS:
        problems.append(not_supported("fallback.mode", config.fallback.mode, FALLBACKS))
    problems.extend(_positive("fallback.after", config.fallback.after))
    seen: set[str] = set()
    for position, plugin in enumerate(config.remote_plugins):
        path = index("remotePlugins", position)
        problems.extend(_plugin_problems(path, plugin))
        if plugin.name in seen:
            problems.append(duplicate(child(path, "name"), plugin.name))
        seen.add(plugin.name)
    problems.extend(_tls_problems("tls", config.tls))
    if config.batch.max_pods <= 0:
        problems.append(invalid("batch.maxPods", config.batch.max_pods, "must be greater than zero"))
    if config.batch.linger < Duration():
        problems.append(invalid("batch.linger", config.batch.linger, "must be zero or positive"))
    if config.column_cache_classes <= 0:
        problems.append(invalid("columnCacheClasses", config.column_cache_classes, "must be greater than zero"))
    return problems


def _positive(path: str, value: Duration) -> list[Problem]:
    return [] if value > Duration() else [invalid(path, value, "must be greater than zero")]


def _is_local(address: str) -> bool:
    return address.startswith("unix:") or _LOOPBACK.fullmatch(address) is not None


def address_problem(address: str) -> str:
    """Why an address is none; empty where it is one."""
    rule = "must be host:port, unix:/path, dns:///name:port or endpointslice:///namespace/service:port"
    if address.startswith("unix:"):
        return "" if address.removeprefix("unix:").startswith("/") else rule
    if address.startswith("endpointslice:"):
        return "" if _SLICE.fullmatch(address) else rule
    found = _HOST_PORT.fullmatch(address.removeprefix("dns:///"))
    if not found or not 0 < int(found.group(3)) < 1 << 16:
        return rule
    return ""


def _phase_problems(path: str, phase: Phase) -> list[Problem]:
    problems: list[Problem] = []
    seen: set[str] = set()
    for position, endpoint in enumerate(phase.endpoints):
        where = index(child(path, "endpoints"), position)
        rule = address_problem(endpoint)
        if rule:
            problems.append(invalid(where, endpoint, rule))
        elif endpoint in seen:
            problems.append(duplicate(where, endpoint))
        seen.add(endpoint)
    if phase.local_replicas <= 0:
        problems.append(invalid(child(path, "localReplicas"), phase.local_replicas, "must be greater than zero"))
    return problems + _positive(child(path, "deadline"), phase.deadline)


def _plugin_problems(path: str, plugin: RemotePlugin) -> list[Problem]:
    problems: list[Problem] = []
    if not plugin.name:
        problems.append(required(child(path, "name")))
    elif plugin.name == "*" or plugin.name != plugin.name.strip():
        problems.append(invalid(child(path, "name"), plugin.name, "is no name that a profile can use"))
    if not plugin.address:
        problems.append(required(child(path, "address")))
    elif address_problem(plugin.address):
        problems.append(invalid(child(path, "address"), plugin.address, address_problem(plugin.address)))
    if not plugin.extension_points:
        problems.append(required(child(path, "extensionPoints"), "at least one extension point must be named"))
    points = sorted(point.value for point in ExtensionPoint)
    for position, point in enumerate(plugin.extension_points):
        if isinstance(point, _UnknownPoint):
            where = index(child(path, "extensionPoints"), position)
            problems.append(not_supported(where, point.name, points))
    problems.extend(_positive(child(path, "deadline"), plugin.deadline))
    if plugin.failure_policy not in FAILURE_POLICIES:
        problems.append(not_supported(child(path, "failurePolicy"), plugin.failure_policy, FAILURE_POLICIES))
    breaker = plugin.circuit_breaker
    if breaker.failures <= 0:
        where = child(path, "circuitBreaker", "failures")
        problems.append(invalid(where, breaker.failures, "must be greater than zero"))
    problems.extend(_positive(child(path, "circuitBreaker", "openFor"), breaker.open_for))
    if plugin.tls is not None:
        problems.extend(_tls_problems(child(path, "tls"), plugin.tls))
    return problems


def _tls_problems(path: str, tls: TLS) -> list[Problem]:
    problems: list[Problem] = []
    if tls.cert_file and not tls.key_file:
        problems.append(required(child(path, "keyFile"), "must be given with certFile"))
    if tls.key_file and not tls.cert_file:
        problems.append(required(child(path, "certFile"), "must be given with keyFile"))
    if tls.cert_file and not tls.ca_file:
        problems.append(required(child(path, "caFile"), "TLS between the services is mutual"))
    if tls.allowed_identities and not tls.ca_file:
        problems.append(required(child(path, "caFile"), "identities are those of certificates"))
    return problems
