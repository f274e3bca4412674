"""From a file to a `TriremeConfiguration`, or to one error message.

It is decoded as strictly as a KubeSchedulerConfiguration, by the same decoder: an unknown or duplicate field is an
error, and all problems are reported at once, with field paths. Missing fields have the default of their dataclass, so
that each default is in one place only.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trireme.config import loading
from trireme.config.trireme_configuration import (
    API_VERSION,
    KIND,
    REMOTE_POINTS,
    TLS,
    Batch,
    Canary,
    CircuitBreaker,
    Fallback,
    Insight,
    Phase,
    RemotePlugin,
    TriremeConfiguration,
    with_canaries,
)
from trireme.config.trireme_configuration_schema import CONFIGURATION
from trireme.config.trireme_configuration_validation import validate
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.configuration_files import ConfigurationError, not_registered, read_file, read_kind
from trireme_kube.apimachinery.field_errors import Problem, child, index, join_messages, not_supported, required
from trireme_kube.apimachinery.strict_decoding import DURATION, DecodeError, decode

Value = Mapping[str, Any]

_POINTS = sorted(point.value for point in REMOTE_POINTS)


def load(path: str) -> TriremeConfiguration:
    """Read a file; without one, the defaults.

    Raises: ConfigurationError: it cannot be read, decoded or used; the message names the file.
    """
    if not path:
        return TriremeConfiguration()
    data = read_file(path)
    try:
        return parse(data)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}", [f"{path}: {problem}" for problem in error.problems]) from error


def parse(data: bytes) -> TriremeConfiguration:
    """Decode and check a configuration.

    Raises: ConfigurationError: it cannot be decoded, or something in it is invalid.
    """
    source = loading.parse(data)
    kind = read_kind(source.node)
    if (kind.api_version, kind.kind) != (API_VERSION, KIND):
        if not kind.kind or not kind.version:
            raise ConfigurationError(f"apiVersion must be {API_VERSION} and kind {KIND}")
        raise ConfigurationError(not_registered(kind))
    try:
        decoded = decode(source.node, CONFIGURATION)
    except DecodeError as error:
        raise ConfigurationError(_decode_error_text(error)) from error
    strict = [source.duplicates] * bool(source.duplicates) + list(decoded.strict)
    if strict:
        raise ConfigurationError(loading.strict_error(strict), loading.strict_problems(strict))
    config = _to_configuration(decoded.value)
    problems = validate(config) + _point_problems(decoded.value)
    if problems:
        raise ConfigurationError(join_messages(problems), problems)
    return with_canaries(config)


def _decode_error_text(error: DecodeError) -> str:
    """The error for people who write this file: it is no Go program's."""
    if error.expected == DURATION:
        wanted = 'a duration with its unit, such as "30s" or "1m30s"'
    elif error.expected == "string":
        wanted = "a string"
    elif error.expected.startswith("int"):
        wanted = f"an integer of {error.expected.removeprefix('int')} bits"
    else:
        wanted = "a list" if error.expected.startswith("[]") else "an object"
    return f"{error.field}: must be {wanted}, not {error.found}"


def _to_phase(value: Value, default: Phase) -> Phase:
    """Make a phase's settings from the decoded fields; what is missing is as in `default`."""
    return Phase(
        endpoints=tuple(value.get("endpoints") or ()),
        local_replicas=value.get("localReplicas", default.local_replicas),
        deadline=value.get("deadline", default.deadline),
        allowed_identities=tuple(value.get("allowedIdentities") or ()),
    )


def _to_insight(value: Value) -> Insight:
    """Make insight's settings from the decoded fields."""
    return Insight(
        endpoints=tuple(value.get("endpoints") or ()),
        deadline=value.get("deadline", Insight().deadline),
        allowed_identities=tuple(value.get("allowedIdentities") or ()),
    )


def _to_tls(value: Value) -> TLS:
    """Make TLS settings from the decoded fields."""
    return TLS(
        cert_file=value.get("certFile", ""),
        key_file=value.get("keyFile", ""),
        ca_file=value.get("caFile", ""),
        allowed_identities=tuple(value.get("allowedIdentities") or ()),
    )


def _to_canary(value: Value) -> Canary:
    """A plugin's canary from its decoded fields."""
    return Canary(
        address=value.get("address", ""),
        addresses=tuple(value.get("addresses") or ()),
        percent=value.get("percent", 0),
        failure_policy=value.get("failurePolicy", ""),
    )


def _to_remote_plugin(value: Value) -> RemotePlugin:
    """A remote plugin from its decoded fields; what is missing has its default."""
    default = CircuitBreaker()
    breaker: Value = value.get("circuitBreaker") or {}
    tls = value.get("tls")
    plugin = RemotePlugin(
        name=value.get("name", ""),
        address=value.get("address", ""),
        extension_points=tuple(ExtensionPoint(text) for text in value.get("extensionPoints") or () if text in _POINTS),
        circuit_breaker=CircuitBreaker(
            failures=breaker.get("failures", default.failures), open_for=breaker.get("openFor", default.open_for)
        ),
        tls=None if tls is None else _to_tls(tls),
        handle_identities=tuple(value.get("handleIdentities") or ()),
    )
    return replace(
        plugin,
        deadline=value.get("deadline", plugin.deadline),
        mode=value.get("mode", plugin.mode),
        canary=_to_canary(value.get("canary") or {}),
        addresses=tuple(value.get("addresses") or ()),
        hedging=value.get("hedging", plugin.hedging),
        budget_per_second=value.get("budgetPerSecond", plugin.budget_per_second),
        failure_policy=value.get("failurePolicy", plugin.failure_policy),
    )


def _point_problems(value: Value) -> list[Problem]:
    """The problems of remote plugins' extension points; the typed form has no place for invalid names."""
    problems: list[Problem] = []
    for position, plugin in enumerate(value.get("remotePlugins") or ()):
        path = child(index("remotePlugins", position), "extensionPoints")
        names = plugin.get("extensionPoints") or ()
        if not names:
            problems.append(required(path, "at least one extension point must be named"))
        problems.extend(
            not_supported(index(path, number), name, _POINTS)
            for number, name in enumerate(names)
            if name not in _POINTS
        )
    return problems


def _to_configuration(value: Value) -> TriremeConfiguration:
    """The whole configuration from its decoded fields; what is missing has its default."""
    phases: Value = value.get("phases") or {}
    fallback: Value = value.get("fallback") or {}
    batch: Value = value.get("batch") or {}
    handle: Value = value.get("handle") or {}
    default = TriremeConfiguration()
    return TriremeConfiguration(
        filter=_to_phase(phases.get("filter") or {}, default.filter),
        score=_to_phase(phases.get("score") or {}, default.score),
        bind=_to_phase(phases.get("bind") or {}, default.bind),
        insight=_to_insight(value.get("insight") or {}),
        fallback=Fallback(fallback.get("mode", "local"), fallback.get("after", default.fallback.after)),
        remote_plugins=tuple(_to_remote_plugin(plugin) for plugin in value.get("remotePlugins") or ()),
        tls=_to_tls(value.get("tls") or {}),
        batch=Batch(batch.get("maxPods", default.batch.max_pods), batch.get("linger", default.batch.linger)),
        handle_listen=handle.get("listen", ""),
        handle_allowed_identities=tuple(handle.get("allowedIdentities") or ()),
        admin_socket=(value.get("admin") or {}).get("socket", ""),
        column_cache_classes=value.get("columnCacheClasses", default.column_cache_classes),
    )
