"""Trireme's own settings: TriremeConfiguration, in its own API group and its own file.

A KubeSchedulerConfiguration stays exactly kube-scheduler's, so that a stock file works unchanged and can be taken back.
Settings that only Trireme has (where the phases run, remote plugins, TLS between the services, batches) are in the file
that `--trireme-config` names. Without that file everything has a working default: one filter, one score and one bind as
children of the frontend, on Unix sockets.

Each setting is declared once, here: name, type, default, help and rules. Decoding, `docs/configuration.md` and the
schema for editors follow from it. A setting that only a restart changes is marked `Change.AT_RESTART`. The rules that
matter most are about trust: a bind service writes to the cluster, so one beyond this machine needs mutual TLS.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from trireme.config import loading
from trireme.config.addresses import (
    RESOLVED,
    address_problem,
    are_addresses,
    is_address,
    is_local,
    is_service,
)
from trireme.framework import canaries
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Registry
from trireme_kube.apimachinery import configuration_files, declaration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, Change, NotEmpty, OneOf
from trireme_kube.apimachinery.field_errors import (
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    join_messages,
    required,
)
from trireme_kube.apimachinery.golang import MILLISECOND, SECOND, Duration
from trireme_kube.apimachinery.strict_decoding import DURATION, DecodeError, decode

API_GROUP = "trireme.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"
KIND = "TriremeConfiguration"

PHASES = ("filter", "score", "bind")
#: The upper bound of `batch.maxPods`: a batch is in one message, some 3 KiB for each pod, and plugins take 16 MiB.
MAX_BATCH_PODS = 5_000
#: Where remote plugins may take part: what the protocol has an RPC for.
REMOTE_POINTS = frozenset(ExtensionPoint) - {
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
}
SHADOW = "Shadow"
CORRECTED = "Corrected"
KUBERNETES = "Kubernetes"
#: Where a plugin may be in shadow mode: what is called there changes nothing.
SHADOW_POINTS = frozenset(
    {ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}
)

_NONE = Duration()
_IDENTITY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:.]+")


# Rules of single settings.

_POSITIVE = AtLeast(1, "must be greater than zero")
_LASTING = AtLeast(Duration(1), "must be greater than zero")
_FAILURE_POLICY = OneOf(("Fail", "Ignore"))


def _are_identities(path: str, identities: Sequence[str]) -> list[Problem]:
    """GRPC looks for identities in a server certificate's DNS names and IP addresses alone."""
    return [
        invalid(index(path, position), identity, "must be a DNS name or an IP address")
        for position, identity in enumerate(identities)
        if not _IDENTITY.fullmatch(identity)
    ]


def _is_plugin_name(path: str, name: str) -> list[Problem]:
    """A name by which profiles can enable a remote plugin."""
    if name == "*" or name != name.strip():
        return [invalid(path, name, "is no name that a profile can use")]
    if canaries.is_canary(name):
        return [invalid(path, name, f"must not end with {canaries.SUFFIX}: such names are those of canaries")]
    return []


def _is_listening_address(path: str, listen: str) -> list[Problem]:
    """An address on which this machine can listen; empty: none."""
    if listen and (address_problem(listen) or listen.startswith(RESOLVED)):
        return [invalid(path, listen, "must be unix:/path or host:port")]
    return []


def _is_socket_path(path: str, socket: str) -> list[Problem]:
    """A Unix socket; empty: none."""
    if socket and not socket.startswith("/"):
        return [invalid(path, socket, "must be the absolute path of a Unix socket")]
    return []


# Settings.


@dataclass(frozen=True, slots=True)
class TLS:
    """TLS towards other services, and of our own towards them. The files are read again when they change."""

    cert_file: Annotated[str, "File of the certificate that this side presents, in PEM."] = ""
    key_file: Annotated[str, "File of its private key, in PEM."] = ""
    ca_file: Annotated[str, "File of the authorities that the other side's certificate must come from, in PEM."] = ""
    allowed_identities: Annotated[
        tuple[str, ...],
        "DNS names or IP addresses, one of which the server's certificate must have; empty: the address called.",
        _are_identities,
    ] = ()

    @property
    def enabled(self) -> bool:
        """Whether any of it is set."""
        return bool(self.cert_file or self.key_file or self.ca_file)

    @property
    def mutual(self) -> bool:
        """Whether both sides show a certificate."""
        return bool(self.cert_file and self.key_file and self.ca_file)

    def problems(self, path: str) -> Iterable[Problem]:
        """Which TLS settings lack another one that they need."""
        if self.cert_file and not self.key_file:
            yield required(child(path, "keyFile"), "must be given with certFile")
        if self.key_file and not self.cert_file:
            yield required(child(path, "certFile"), "must be given with keyFile")
        if self.cert_file and not self.ca_file:
            yield required(child(path, "caFile"), "TLS between the services is mutual")
        if self.allowed_identities and not self.ca_file:
            yield required(child(path, "caFile"), "identities are those of certificates")


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a phase runs."""

    endpoints: Annotated[
        tuple[str, ...],
        "`host:port`, `unix:/path`, `dns:///name:port` (every address of the name), or",
        "`endpointslice:///namespace/service:port` (every ready endpoint of the Service). Empty: children of the",
        "frontend.",
        are_addresses,
    ] = ()
    local_replicas: Annotated[
        int,
        "How many children the frontend starts if there are no endpoints, or none that answers.",
        _POSITIVE,
    ] = 1
    deadline: Annotated[Duration, "The deadline of a call.", _LASTING] = Duration(30 * SECOND)
    allowed_identities: Annotated[
        tuple[str, ...],
        "Replaces `tls.allowedIdentities` for this phase; empty: those of `tls`.",
        _are_identities,
    ] = ()


@dataclass(frozen=True, slots=True)
class Phases:
    """Where filter, score and bind run."""

    filter: Annotated[Phase, "Where filter runs.", Change.AT_RESTART] = Phase()
    score: Annotated[Phase, "Where score runs.", Change.AT_RESTART] = Phase()
    # The deadline of Permit, PostBind and each PreBind plugin; Bind and Apply last until the replica is silent.
    bind: Annotated[Phase, "Where bind runs.", Change.AT_RESTART] = Phase(deadline=Duration(60 * SECOND))


@dataclass(frozen=True, slots=True)
class Insight:
    """Where insight runs, which explains pods and is not needed for scheduling."""

    endpoints: Annotated[
        tuple[str, ...],
        "As those of a phase. Empty: there is none, and `trireme explain` shows what filter last answered.",
        are_addresses,
    ] = ()
    deadline: Annotated[Duration, "The deadline of a call.", _LASTING] = Duration(10 * SECOND)
    allowed_identities: Annotated[
        tuple[str, ...],
        "Replaces `tls.allowedIdentities` for insight; empty: those of `tls`.",
        _are_identities,
    ] = ()


@dataclass(frozen=True, slots=True)
class Fallback:
    """What happens when no endpoint of a phase answers."""

    mode: Annotated[
        str,
        "`local`: the frontend starts children of its own until an endpoint answers again; `none`: pods wait.",
        OneOf(("local", "none")),
    ] = "local"
    after: Annotated[Duration, "The time without an answer from any endpoint after which this happens.", _LASTING] = (
        Duration(30 * SECOND)
    )


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """When calls to a failing plugin pause."""

    failures: Annotated[
        int,
        "How many failures of an RPC in a row open it; 0: it never opens.",
        AtLeast(0, "must be zero (never opens) or positive"),
    ] = 5
    open_for: Annotated[Duration, "How long it stays open before one trial call.", _LASTING] = Duration(30 * SECOND)


@dataclass(frozen=True, slots=True)
class Canary:
    """Another version of a plugin, which answers for a share of the pods."""

    address: Annotated[
        str,
        "Where it is, as the plugin's own `address`. Empty, and no `addresses`: there is no canary.",
        is_address,
    ] = ""
    addresses: Annotated[
        tuple[str, ...], "Several addresses, instead of one, as the plugin's own `addresses`.", are_addresses
    ] = ()
    percent: Annotated[
        int,
        "The percentage of the pods that it answers for, from 0 to 100. Which ones follows from their UIDs.",
        AtLeast(0, "must be from 0 to 100"),
        AtMost(100, "must be from 0 to 100"),
    ] = 0
    failure_policy: Annotated[
        str,
        "What follows for its pods when a call to it fails; unset: the plugin's own `failurePolicy`.",
        OneOf(_FAILURE_POLICY.choices, or_empty=True),
    ] = ""

    @property
    def enabled(self) -> bool:
        """Whether there is one."""
        return bool(self.address or self.addresses)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """All of its addresses."""
        return self.addresses or ((self.address,) if self.address else ())

    def problems(self, path: str) -> Iterable[Problem]:
        """What is wrong with where it is."""
        return [] if self == Canary() else _address_count_problems(path, self.address, self.addresses)


def _address_count_problems(path: str, address: str, addresses: Sequence[str]) -> Iterable[Problem]:
    """A plugin has one address, or several, but not both."""
    if address and addresses:
        yield invalid(child(path, "addresses"), list(addresses), "address is given as well")
    elif not address and not addresses:
        yield required(child(path, "address"), "or addresses")


@dataclass(frozen=True, slots=True)
class RemotePlugin:
    """A plugin that is a service of its own. A profile names it like any other plugin."""

    name: Annotated[str, "The name by which profiles enable it; no in-tree plugin has it.", NotEmpty(), _is_plugin_name]
    address: Annotated[
        str,
        "`host:port`, `unix:/path`, `dns:///name:port` (every address of the name) or",
        "`endpointslice:///namespace/service:port` (every ready endpoint of the Service). Or `addresses` instead.",
        is_address,
    ]
    extension_points: Annotated[
        tuple[ExtensionPoint, ...],
        "Where profiles may enable it; checked against the plugin's own description at the handshake.",
        NotEmpty("at least one extension point must be named"),
        OneOf(tuple(sorted(REMOTE_POINTS))),
    ]
    deadline: Annotated[Duration, "How long a call may take.", _LASTING] = Duration(SECOND)
    addresses: Annotated[
        tuple[str, ...],
        "Several addresses, instead of one: replicas of the plugin, all of one version and with the same answers.",
        "Calls go to the one with the fewest calls under way, and to another one if it fails.",
        are_addresses,
    ] = ()
    hedging: Annotated[
        bool,
        "A call that takes longer than 19 of 20 is made at a second replica as well, and the first answer counts.",
        "Only for calls without side effects, of plugins that declare `idempotent`.",
    ] = False
    budget_per_second: Annotated[
        Duration,
        "With `failurePolicy: Ignore`: for how long in each second, on average, its calls may keep a process waiting;",
        "once that is used up, it is left out for a while. Calls that overlap count each. 0: no limit.",
        AtLeast(_NONE, "must be zero (no limit) or positive"),
    ] = _NONE
    mode: Annotated[
        str,
        "`Enforce`: its answers count; `Shadow`: it is called beside the others, measured and compared, and no pod",
        "waits for it or is decided by it. For `preFilter`, `filter`, `preScore` and `score` alone.",
        OneOf(("Enforce", SHADOW)),
    ] = "Enforce"
    canary: Annotated[
        Canary,
        "Another version of the plugin, which answers for a share of the pods instead of this one. For `preFilter`,",
        "`filter`, `preScore` and `score` alone.",
    ] = Canary()
    failure_policy: Annotated[
        str,
        "`Fail`: a pod whose call failed is tried again later; `Ignore`: it is scheduled without the plugin.",
        _FAILURE_POLICY,
    ] = "Fail"
    circuit_breaker: Annotated[
        CircuitBreaker,
        "When calls of an RPC pause after failures; each RPC of a process has a circuit breaker of its own.",
    ] = CircuitBreaker()
    tls: Annotated[TLS | None, "TLS for calls to this plugin; unset: as between the services (`tls`)."] = None
    handle_identities: Annotated[
        tuple[str, ...],
        "Names (URI, DNS name, common name) of the certificate with which this plugin calls the frontend (`handle`).",
        "Empty: the `allowedIdentities` of its own `tls`.",
    ] = ()
    #: Not in the file: the plugin that this one is the canary of; empty: it is none.
    canary_of: str = ""
    #: Not in the file: for how many percent of the pods a canary answers.
    canary_percent: int = 0

    @property
    def endpoints(self) -> tuple[str, ...]:
        """All of its addresses."""
        return self.addresses or (self.address,)

    @property
    def where(self) -> str:
        """Its addresses, for messages."""
        return ", ".join(self.endpoints)

    @property
    def compared_only(self) -> bool:
        """Whether its answers are compared and do not count."""
        return self.mode == SHADOW

    @property
    def required(self) -> bool:
        """Whether pods of the profiles that name it wait while it does not take part.

        Without a canary that does not take part, the plugin answers for all of them.
        """
        return self.failure_policy != "Ignore" and not self.compared_only and not self.canary_of

    @property
    def served_name(self) -> str:
        """The name by which its service knows it."""
        return self.canary_of or self.name

    @property
    def caller_identities(self) -> frozenset[str]:
        """One of these names must be in the certificate of whoever calls HandleService as this plugin."""
        return frozenset(self.handle_identities or (() if self.tls is None else self.tls.allowed_identities))

    def problems(self, path: str) -> Iterable[Problem]:
        """Settings that do not go together: there is no budget with Fail, no shadow or canary with side effects."""
        yield from _address_count_problems(path, self.address, self.addresses)
        if self.budget_per_second > _NONE and self.failure_policy != "Ignore":
            where = child(path, "budgetPerSecond")
            yield invalid(where, self.budget_per_second, "is for failurePolicy Ignore: with Fail no plugin is left out")
        side_effects = ", ".join(sorted(set(self.extension_points) - SHADOW_POINTS))
        if self.compared_only and side_effects:
            rule = f"has side effects at {side_effects}; Shadow is for preFilter, filter, preScore and score"
            yield invalid(child(path, "mode"), self.mode, rule)
        if self.canary == Canary():
            return
        if self.compared_only:
            why = "the plugin is in shadow mode, so neither version's answers count"
            yield forbidden(child(path, "canary"), why)
        if side_effects:
            rule = f"the plugin has side effects at {side_effects}, which another version would not know"
            yield forbidden(child(path, "canary"), f"{rule}; a canary is for preFilter, filter, preScore and score")


@dataclass(frozen=True, slots=True)
class Batch:
    """How pods of one class are scheduled together."""

    max_pods: Annotated[
        int,
        f"Most pods in a batch; at most {MAX_BATCH_PODS}.",
        _POSITIVE,
        AtMost(MAX_BATCH_PODS, f"must not be greater than {MAX_BATCH_PODS}"),
    ] = 100
    linger: Annotated[
        Duration,
        "The longest time that a pod waits, under load, for more pods of its class to share its batch.",
        AtLeast(_NONE, "must be zero or positive"),
    ] = Duration(500 * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Handle:
    """HandleService, which plugins call."""

    listen: Annotated[
        str,
        "Where the frontend serves HandleService to plugins (`unix:/path` or `host:port`); empty: nowhere. Beyond",
        "loopback it takes mutual TLS, and the identities below.",
        _is_listening_address,
        Change.AT_RESTART,
    ] = ""
    allowed_identities: Annotated[
        tuple[str, ...],
        "Names (URI, DNS name, common name), one of which a plugin's certificate must have.",
        Change.AT_RESTART,
    ] = ()


@dataclass(frozen=True, slots=True)
class Admin:
    """What the frontend serves to its own user."""

    socket: Annotated[
        str,
        "The Unix socket on which the frontend serves its state to its own user; empty: none.",
        _is_socket_path,
        Change.AT_RESTART,
    ] = ""


@dataclass(frozen=True, slots=True)
class Reload:
    """How a changed configuration is put in force while the frontend runs."""

    # A reload that changes it goes by the new value: one that was refused for lack of time needs no restart.
    list_deadline: Annotated[
        Duration,
        "How long a reload waits until all pods and nodes are listed again, with the unit (`10m`). After that, it is",
        "refused if its plugins read more of them than before; pods of a new profile or share follow later.",
        _LASTING,
    ] = Duration(120 * SECOND)


@dataclass(frozen=True, slots=True)
class TriremeConfiguration:
    """Trireme's own settings."""

    phases: Annotated[Phases, "Where filter, score and bind run."] = Phases()
    insight: Annotated[Insight, "Where insight runs.", Change.AT_RESTART] = Insight()
    fallback: Annotated[Fallback, "What happens when no endpoint of a phase answers.", Change.AT_RESTART] = Fallback()
    remote_plugins: Annotated[tuple[RemotePlugin, ...], "Plugins that are services of their own."] = ()
    tls: Annotated[
        TLS,
        "TLS for the frontend's calls to the services; the frontend presents the same certificate to its own callers.",
        Change.AT_RESTART,
    ] = TLS()
    batch: Annotated[Batch, "How pods of one class are scheduled together."] = Batch()
    handle: Annotated[Handle, "HandleService, which plugins call."] = Handle()
    admin: Annotated[Admin, "What the frontend serves to its own user."] = Admin()
    reload: Annotated[Reload, "How a changed configuration is put in force while the frontend runs."] = Reload()
    compatibility: Annotated[
        str,
        "`Corrected`: where users reported that kube-scheduler decides wrongly, and its newest release still does,",
        "Trireme decides rightly. `Kubernetes`: it decides as that release. kubernetes-versions.md lists the cases.",
        OneOf((CORRECTED, KUBERNETES)),
        Change.AT_RESTART,
    ] = CORRECTED
    column_cache_classes: Annotated[
        int, "How many recent classes' columns a replica of filter and score caches.", _POSITIVE
    ] = 256

    @property
    def corrected(self) -> bool:
        """Whether Trireme departs from the newest kube-scheduler where that is known to be wrong."""
        return self.compatibility == CORRECTED

    @property
    def handle_has_tls(self) -> bool:
        """Whether HandleService is served with mutual TLS; else it is for callers on this machine alone."""
        listen = self.handle.listen
        return bool(listen) and not listen.startswith("unix:") and self.tls.mutual

    def phase(self, name: str) -> Phase:
        """One of `filter`, `score` and `bind`."""
        return {"filter": self.phases.filter, "score": self.phases.score, "bind": self.phases.bind}[name]

    def identities(self, name: str) -> tuple[str, ...]:
        """Whom the frontend expects at the endpoints of a phase, or of `insight`."""
        own = self.insight if name == "insight" else self.phase(name)
        return own.allowed_identities or self.tls.allowed_identities

    def remote_plugin(self, name: str) -> RemotePlugin | None:
        """The remote plugin of that name."""
        return next((plugin for plugin in self.remote_plugins if plugin.name == name), None)

    def problems(self, path: str) -> Iterable[Problem]:
        """Services without the TLS settings that they need, and remote plugins with one name."""
        for name in PHASES:
            yield from self._identity_problems(child(path, "phases", name), name, self.phase(name))
        yield from self._identity_problems(child(path, "insight"), "insight", self.insight)
        if not self.tls.mutual:
            for endpoint in self.phases.bind.endpoints:
                if not is_local(endpoint):
                    yield required("tls", f"{endpoint} of phases.bind is beyond loopback and Unix sockets")
        yield from self._handle_problems()
        names: set[str] = set()
        for position, plugin in enumerate(self.remote_plugins):
            where = index("remotePlugins", position)
            yield from self._plugin_identity_problems(where, plugin)
            if plugin.name in names:
                yield duplicate(child(where, "name"), plugin.name)
            names.add(plugin.name)

    def _identity_problems(self, path: str, name: str, service: Phase | Insight) -> Iterable[Problem]:
        """Whom the frontend expects where a service runs: certificates take TLS, and Services take identities."""
        if service.allowed_identities and not self.tls.enabled:
            yield required("tls", f"{path}.allowedIdentities are those of certificates")
        if self.tls.enabled and not self.identities(name):
            for endpoint in dict.fromkeys(service.endpoints):
                if endpoint.startswith(RESOLVED) and not address_problem(endpoint):
                    why = f"no certificate names the addresses that {endpoint} stands for"
                    yield required(child(path, "allowedIdentities"), why)

    def _plugin_identity_problems(self, path: str, plugin: RemotePlugin) -> Iterable[Problem]:
        """Whom to expect at a plugin's endpoints and as its caller, where TLS is configured."""
        tls = self.tls if plugin.tls is None else plugin.tls
        services = [address for address in (*plugin.endpoints, *plugin.canary.endpoints) if is_service(address)]
        if services and tls.enabled and not tls.allowed_identities:
            why = f"no certificate names the addresses that {services[0]} stands for"
            yield required(child(path, "tls", "allowedIdentities"), why)
        if self.handle_has_tls and ExtensionPoint.PERMIT in plugin.extension_points and not plugin.caller_identities:
            why = "handle.listen has TLS, and a plugin with permit is known there by its certificate"
            yield required(child(path, "handleIdentities"), why)

    def _handle_problems(self) -> Iterable[Problem]:
        """HandleService needs TLS and identities where others can connect to it."""
        listen = self.handle.listen
        if not listen or _is_listening_address("", listen) or is_local(listen):
            return
        why = f"{listen} is beyond loopback and Unix sockets"
        if not self.tls.mutual:
            yield required("tls", why)
        if not self.handle.allowed_identities:
            yield required("handle.allowedIdentities", why)


# From a file.


def load(path: str) -> TriremeConfiguration:
    """Read a file; without one, the defaults.

    Raises: ConfigurationError: it cannot be read, decoded or used; the message names the file.
    """
    if not path:
        return TriremeConfiguration()
    data = configuration_files.read_file(path)
    try:
        return parse(data)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}", [f"{path}: {problem}" for problem in error.problems]) from error


def parse(data: bytes) -> TriremeConfiguration:
    """Decode and check a configuration, as strictly as a KubeSchedulerConfiguration.

    Raises: ConfigurationError: it cannot be decoded, or something in it is invalid.
    """
    source = loading.parse(data)
    kind = configuration_files.read_kind(source.node)
    if (kind.api_version, kind.kind) != (API_VERSION, KIND):
        if not kind.kind or not kind.version:
            raise ConfigurationError(f"apiVersion must be {API_VERSION} and kind {KIND}")
        raise ConfigurationError(configuration_files.not_registered(kind))
    try:
        decoded = decode(source.node, declaration.schema_of(TriremeConfiguration, is_object=True))
    except DecodeError as error:
        raise ConfigurationError(_decode_error_text(error)) from error
    strict = [source.duplicates] * bool(source.duplicates) + list(decoded.strict)
    if strict:
        raise ConfigurationError(loading.strict_error(strict), loading.strict_problems(strict))
    config: TriremeConfiguration = declaration.read(TriremeConfiguration, decoded.value)
    problems = declaration.problems_of(config)
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


# Remote plugins in profiles.


def registry_with_remote_plugins(in_tree: Registry, config: TriremeConfiguration) -> Registry:
    """The in-tree plugins and the remote ones of a configuration.

    Raises:
        ConfigurationError: two plugins have one name.
    """
    remote = (
        PluginSpec(plugin.name, frozenset(plugin.extension_points), supports_signature=False, remote=True)
        for plugin in config.remote_plugins
        if not plugin.canary_of
    )
    try:
        return in_tree.with_remote(remote)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def with_canaries(config: TriremeConfiguration) -> TriremeConfiguration:
    """The configuration with the canaries as plugins of their own, each after its plugin."""
    plugins: list[RemotePlugin] = []
    for plugin in config.remote_plugins:
        plugins.append(plugin)
        if plugin.canary.enabled:
            plugins.append(_canary_plugin(plugin))
    return replace(config, remote_plugins=tuple(plugins))


def _canary_plugin(plugin: RemotePlugin) -> RemotePlugin:
    """The plugin's canary: all but what `canary` says is as the plugin's own."""
    canary = plugin.canary
    policy = canary.failure_policy or plugin.failure_policy
    return replace(
        plugin,
        name=canaries.canary_name(plugin.name),
        address=canary.address,
        addresses=canary.addresses,
        failure_policy=policy,
        budget_per_second=plugin.budget_per_second if policy == "Ignore" else _NONE,
        canary=Canary(),
        canary_of=plugin.name,
        canary_percent=canary.percent,
    )
