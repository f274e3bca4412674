"""The rules of a `TriremeConfiguration`: pure functions, each with the path of its field.

The rules that matter most are about trust: a bind service writes to the cluster, so one beyond this machine needs
mutual TLS.
"""

import re
from collections.abc import Sequence

from trireme.config.discovered_endpoints import SCHEME, is_service
from trireme.config.trireme_configuration import (
    FAILURE_POLICIES,
    FALLBACKS,
    MAX_BATCH_PODS,
    MODES,
    PHASES,
    SHADOW_POINTS,
    TLS,
    Canary,
    Insight,
    Phase,
    RemotePlugin,
    TriremeConfiguration,
)
from trireme.framework import canaries
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.field_errors import (
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from trireme_kube.apimachinery.golang import Duration

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?):([0-9]{1,5})")
_SLICE = re.compile(r"endpointslice:///[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?:[A-Za-z0-9-]+")
_IDENTITY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:.]+")
_RESOLVED = ("dns:///", SCHEME)
_LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\]):[0-9]+")


def validate(config: TriremeConfiguration) -> list[Problem]:
    """All problems of a configuration."""
    problems: list[Problem] = []
    for name in PHASES:
        problems.extend(_phase_problems(child("phases", name), config, name))
    problems.extend(_endpoint_problems("insight", config, "insight", config.insight))
    problems.extend(_not_positive_problems("insight.deadline", config.insight.deadline))
    if not config.tls.mutual:
        problems.extend(
            required("tls", f"{endpoint} of phases.bind is beyond loopback and Unix sockets")
            for endpoint in config.bind.endpoints
            if not _is_local_address(endpoint)
        )
    if config.fallback.mode not in FALLBACKS:
        problems.append(not_supported("fallback.mode", config.fallback.mode, FALLBACKS))
    problems.extend(_not_positive_problems("fallback.after", config.fallback.after))
    problems.extend(_remote_plugin_problems(config))
    problems.extend(_tls_problems("tls", config.tls))
    problems.extend(_handle_problems(config))
    problems.extend(_batch_problems(config))
    if config.admin_socket and not config.admin_socket.startswith("/"):
        problems.append(invalid("admin.socket", config.admin_socket, "must be the absolute path of a Unix socket"))
    if config.column_cache_classes <= 0:
        problems.append(invalid("columnCacheClasses", config.column_cache_classes, "must be greater than zero"))
    return problems


def _remote_plugin_problems(config: TriremeConfiguration) -> list[Problem]:
    """What is wrong with the remote plugins, and names that two of them have."""
    problems: list[Problem] = []
    names: set[str] = set()
    for position, plugin in enumerate(config.remote_plugins):
        path = index("remotePlugins", position)
        problems.extend(_plugin_problems(path, plugin, config.tls))
        if plugin.name in names:
            problems.append(duplicate(child(path, "name"), plugin.name))
        names.add(plugin.name)
    return problems


def _batch_problems(config: TriremeConfiguration) -> list[Problem]:
    """What is wrong with the settings of batches."""
    problems: list[Problem] = []
    if config.batch.max_pods <= 0:
        problems.append(invalid("batch.maxPods", config.batch.max_pods, "must be greater than zero"))
    if config.batch.max_pods > MAX_BATCH_PODS:
        limit = f"must not be greater than {MAX_BATCH_PODS}"
        problems.append(invalid("batch.maxPods", config.batch.max_pods, limit))
    if config.batch.linger < Duration():
        problems.append(invalid("batch.linger", config.batch.linger, "must be zero or positive"))
    return problems


def _not_positive_problems(path: str, value: Duration) -> list[Problem]:
    """The problem of a duration that is not above zero."""
    return [] if value > Duration() else [invalid(path, value, "must be greater than zero")]


def _is_local_address(address: str) -> bool:
    """Whether only this machine can reach the address."""
    return address.startswith("unix:") or _LOOPBACK.fullmatch(address) is not None


def _handle_problems(config: TriremeConfiguration) -> list[Problem]:
    """What is wrong with `handle.listen`: its address, and TLS and identities where others can connect to it."""
    listen = config.handle_listen
    if not listen:
        return []
    if address_problem(listen) or listen.startswith(_RESOLVED):
        return [invalid("handle.listen", listen, "must be unix:/path or host:port")]
    problems: list[Problem] = []
    if not _is_local_address(listen):
        why = f"{listen} is beyond loopback and Unix sockets"
        if not config.tls.mutual:
            problems.append(required("tls", why))
        if not config.handle_allowed_identities:
            problems.append(required("handle.allowedIdentities", why))
    if config.handle_has_tls:
        problems.extend(
            required(
                child(index("remotePlugins", position), "handleIdentities"),
                "handle.listen has TLS, and a plugin with permit is known there by its certificate",
            )
            for position, plugin in enumerate(config.remote_plugins)
            if ExtensionPoint.PERMIT in plugin.extension_points and not plugin.caller_identities
        )
    return problems


def address_problem(address: str) -> str:
    """Why an address is invalid; empty if it is valid."""
    rule = "must be host:port, unix:/path, dns:///name:port or endpointslice:///namespace/service:port"
    if address.startswith("unix:"):
        return "" if address.removeprefix("unix:").startswith("/") else rule
    if address.startswith("endpointslice:"):
        return "" if _SLICE.fullmatch(address) else rule
    found = _HOST_PORT.fullmatch(address.removeprefix("dns:///"))
    if not found or not 0 < int(found.group(3)) < 1 << 16:
        return rule
    return _name_problem(found.group(1))


def _name_problem(host: str) -> str:
    """Why nobody can look the host up, whatever the name servers know; empty if it can be looked up."""
    try:
        host.strip("[]").encode("idna")
    except UnicodeError:
        return "must be a DNS name, whose labels have 1 to 63 characters each, or an IP address"
    return ""


def _phase_problems(path: str, config: TriremeConfiguration, name: str) -> list[Problem]:
    """What is wrong with the settings of a phase."""
    phase = config.phase(name)
    problems = _endpoint_problems(path, config, name, phase)
    if phase.local_replicas <= 0:
        problems.append(invalid(child(path, "localReplicas"), phase.local_replicas, "must be greater than zero"))
    return problems + _not_positive_problems(child(path, "deadline"), phase.deadline)


def _endpoint_problems(path: str, config: TriremeConfiguration, name: str, service: Phase | Insight) -> list[Problem]:
    """Problems of where a service runs, and of whom the frontend expects there."""
    problems = _identity_problems(path, service.allowed_identities)
    if service.allowed_identities and not config.tls.enabled:
        problems.append(required("tls", f"{path}.allowedIdentities are those of certificates"))
    names: set[str] = set()
    for position, endpoint in enumerate(service.endpoints):
        where = index(child(path, "endpoints"), position)
        rule = address_problem(endpoint)
        if rule:
            problems.append(invalid(where, endpoint, rule))
        elif endpoint in names:
            problems.append(duplicate(where, endpoint))
        elif endpoint.startswith(_RESOLVED) and config.tls.enabled and not config.identities(name):
            why = f"no certificate names the addresses that {endpoint} stands for"
            problems.append(required(child(path, "allowedIdentities"), why))
        names.add(endpoint)
    return problems


def _plugin_problems(path: str, plugin: RemotePlugin, between_services: TLS) -> list[Problem]:
    """What is wrong with one remote plugin, which has the TLS settings between the services if none of its own."""
    problems: list[Problem] = []
    if not plugin.name:
        problems.append(required(child(path, "name")))
    elif plugin.name == "*" or plugin.name != plugin.name.strip():
        problems.append(invalid(child(path, "name"), plugin.name, "is no name that a profile can use"))
    elif canaries.is_canary(plugin.name):
        rule = f"must not end with {canaries.SUFFIX}: such names are those of canaries"
        problems.append(invalid(child(path, "name"), plugin.name, rule))
    problems.extend(_plugin_address_problems(path, plugin))
    problems.extend(_service_problems(path, plugin, between_services))
    problems.extend(_budget_problems(path, plugin))
    problems.extend(_not_positive_problems(child(path, "deadline"), plugin.deadline))
    if plugin.failure_policy not in FAILURE_POLICIES:
        problems.append(not_supported(child(path, "failurePolicy"), plugin.failure_policy, FAILURE_POLICIES))
    problems.extend(_mode_problems(path, plugin))
    problems.extend(_canary_problems(child(path, "canary"), plugin))
    breaker = plugin.circuit_breaker
    if breaker.failures < 0:
        where = child(path, "circuitBreaker", "failures")
        problems.append(invalid(where, breaker.failures, "must be zero (never opens) or positive"))
    problems.extend(_not_positive_problems(child(path, "circuitBreaker", "openFor"), breaker.open_for))
    if plugin.tls is not None:
        problems.extend(_tls_problems(child(path, "tls"), plugin.tls))
    return problems


def _plugin_address_problems(path: str, plugin: RemotePlugin | Canary) -> list[Problem]:
    """What is wrong with where a plugin, or its canary, is."""
    problems: list[Problem] = []
    if plugin.address and plugin.addresses:
        problems.append(invalid(child(path, "addresses"), list(plugin.addresses), "address is given as well"))
    elif not plugin.address and not plugin.addresses:
        problems.append(required(child(path, "address"), "or addresses"))
    named = [(child(path, "address"), plugin.address)] if plugin.address else []
    named += [(index(child(path, "addresses"), at), address) for at, address in enumerate(plugin.addresses)]
    known: set[str] = set()
    for where, address in named:
        rule = address_problem(address)
        if rule:
            problems.append(invalid(where, address, rule))
        elif address in known:
            problems.append(duplicate(where, address))
        known.add(address)
    return problems


def _service_problems(path: str, plugin: RemotePlugin, between_services: TLS) -> list[Problem]:
    """Whom to expect at the endpoints of a Service, whose addresses no certificate names."""
    tls = between_services if plugin.tls is None else plugin.tls
    services = [address for address in (*plugin.endpoints, *plugin.canary.endpoints) if is_service(address)]
    if not services or not tls.enabled or tls.allowed_identities:
        return []
    why = f"no certificate names the addresses that {services[0]} stands for"
    return [required(child(path, "tls", "allowedIdentities"), why)]


def _budget_problems(path: str, plugin: RemotePlugin) -> list[Problem]:
    """What is wrong with a plugin's budget."""
    problems: list[Problem] = []
    budget = plugin.budget_per_second
    where = child(path, "budgetPerSecond")
    if budget < Duration():
        problems.append(invalid(where, budget, "must be zero (no limit) or positive"))
    elif budget > Duration() and plugin.failure_policy != "Ignore":
        problems.append(invalid(where, budget, "is for failurePolicy Ignore: with Fail no plugin is left out"))
    return problems


def _mode_problems(path: str, plugin: RemotePlugin) -> list[Problem]:
    """What is wrong with a plugin's mode: at points with side effects there is no shadow."""
    if plugin.mode not in MODES:
        return [not_supported(child(path, "mode"), plugin.mode, MODES)]
    if not plugin.compared_only:
        return []
    others = sorted(point.value for point in plugin.extension_points if point not in SHADOW_POINTS)
    rule = f"has side effects at {', '.join(others)}; Shadow is for preFilter, filter, preScore and score"
    return [invalid(child(path, "mode"), plugin.mode, rule)] if others else []


def _canary_problems(path: str, plugin: RemotePlugin) -> list[Problem]:
    """What is wrong with a plugin's canary: at points with side effects, and in shadow mode, there is none."""
    canary = plugin.canary
    if canary == Canary():
        return []
    problems = _plugin_address_problems(path, canary)
    if not 0 <= canary.percent <= 100:
        problems.append(invalid(child(path, "percent"), canary.percent, "must be from 0 to 100"))
    if canary.failure_policy and canary.failure_policy not in FAILURE_POLICIES:
        problems.append(not_supported(child(path, "failurePolicy"), canary.failure_policy, FAILURE_POLICIES))
    if plugin.compared_only:
        problems.append(forbidden(path, "the plugin is in shadow mode, so neither version's answers count"))
    others = sorted(point.value for point in plugin.extension_points if point not in SHADOW_POINTS)
    if others:
        rule = f"the plugin has side effects at {', '.join(others)}, which another version would not know"
        problems.append(forbidden(path, f"{rule}; a canary is for preFilter, filter, preScore and score"))
    return problems


def _tls_problems(path: str, tls: TLS) -> list[Problem]:
    """Which TLS settings lack another one that they need."""
    problems: list[Problem] = []
    if tls.cert_file and not tls.key_file:
        problems.append(required(child(path, "keyFile"), "must be given with certFile"))
    if tls.key_file and not tls.cert_file:
        problems.append(required(child(path, "certFile"), "must be given with keyFile"))
    if tls.cert_file and not tls.ca_file:
        problems.append(required(child(path, "caFile"), "TLS between the services is mutual"))
    if tls.allowed_identities and not tls.ca_file:
        problems.append(required(child(path, "caFile"), "identities are those of certificates"))
    return problems + _identity_problems(path, tls.allowed_identities)


def _identity_problems(path: str, identities: Sequence[str]) -> list[Problem]:
    """Problems of identities: gRPC looks for them in a server certificate's DNS names and IP addresses alone."""
    where = child(path, "allowedIdentities")
    return [
        invalid(index(where, position), identity, "must be a DNS name or an IP address")
        for position, identity in enumerate(identities)
        if not _IDENTITY.fullmatch(identity)
    ]
