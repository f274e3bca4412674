"""Trireme's own settings: TriremeConfiguration, in its own API group and its own file.

A KubeSchedulerConfiguration stays exactly kube-scheduler's, so that a stock file works unchanged and can be taken back.
Settings that only Trireme has (where the phases run, remote plugins, TLS between the services, batches) are in the file
that `--trireme-config` names. Without that file everything has a working default: one filter, one score and one bind as
children of the frontend, on Unix sockets. This module defines the settings; `trireme_configuration_loading` reads them
and `trireme_configuration_validation` checks them.
"""

from dataclasses import dataclass, replace

from trireme.config.loading import ConfigurationError
from trireme.framework import canaries
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Registry
from trireme_kube.apimachinery.golang import MILLISECOND, SECOND, Duration

API_GROUP = "trireme.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"
KIND = "TriremeConfiguration"

PHASES = ("filter", "score", "bind")
FALLBACKS = ("local", "none")
#: The upper bound of `batch.maxPods`: a batch is in one message, some 3 KiB for each pod, and plugins take 16 MiB.
MAX_BATCH_PODS = 5_000
#: Where remote plugins may take part: what the protocol has an RPC for.
REMOTE_POINTS = frozenset(ExtensionPoint) - {
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
}
FAILURE_POLICIES = ("Fail", "Ignore")
SHADOW = "Shadow"
MODES = ("Enforce", SHADOW)
#: Where a plugin may be in shadow mode: what is called there changes nothing.
SHADOW_POINTS = frozenset(
    {ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}
)

_FALLBACK_AFTER = Duration(30 * SECOND)
_PHASE_DEADLINE = Duration(30 * SECOND)
# Of Permit, PostBind and each PreBind plugin; Bind and Apply last until the replica is silent.
_BIND_DEADLINE = Duration(60 * SECOND)
_DEADLINE = Duration(SECOND)
_OPEN_FOR = Duration(30 * SECOND)
_INSIGHT_DEADLINE = Duration(10 * SECOND)
_NO_BUDGET = Duration()
_LINGER = Duration(500 * MILLISECOND)


@dataclass(frozen=True, slots=True)
class TLS:
    """TLS towards other services, and of our own towards them. The files are read again when they change."""

    #: File of the certificate that this side presents, in PEM.
    cert_file: str = ""
    #: File of its private key, in PEM.
    key_file: str = ""
    #: File of the authorities that the other side's certificate must come from, in PEM.
    ca_file: str = ""
    #: DNS names or IP addresses, one of which the server's certificate must have; empty: the address called.
    allowed_identities: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether any of it is set."""
        return bool(self.cert_file or self.key_file or self.ca_file)

    @property
    def mutual(self) -> bool:
        """Whether both sides show a certificate."""
        return bool(self.cert_file and self.key_file and self.ca_file)


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a phase runs."""

    #: `host:port`, `unix:/path`, `dns:///name:port` (every address of the name), or
    #: `endpointslice:///namespace/service:port` (every ready endpoint of the Service). Empty: children of the frontend.
    endpoints: tuple[str, ...] = ()
    #: How many children the frontend starts if there are no endpoints, or none that answers.
    local_replicas: int = 1
    #: The deadline of a call.
    deadline: Duration = _PHASE_DEADLINE
    #: Replaces `tls.allowedIdentities` for this phase; empty: those of `tls`.
    allowed_identities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Insight:
    """Where insight runs, which explains pods and is not needed for scheduling."""

    #: As those of a phase. Empty: there is none, and `trireme explain` shows what filter last answered.
    endpoints: tuple[str, ...] = ()
    #: The deadline of a call.
    deadline: Duration = _INSIGHT_DEADLINE
    #: Replaces `tls.allowedIdentities` for insight; empty: those of `tls`.
    allowed_identities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fallback:
    """What happens when no endpoint of a phase answers."""

    #: `local`: the frontend starts children of its own until an endpoint answers again; `none`: pods wait.
    mode: str = "local"
    #: The time without an answer from any endpoint after which this happens.
    after: Duration = _FALLBACK_AFTER


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """When calls to a failing plugin pause."""

    #: How many failures of an RPC in a row open it; 0: it never opens.
    failures: int = 5
    #: How long it stays open before one trial call.
    open_for: Duration = _OPEN_FOR


@dataclass(frozen=True, slots=True)
class Canary:
    """Another version of a plugin, which answers for a share of the pods."""

    #: Where it is, as the plugin's own `address`. Empty, and no `addresses`: there is no canary.
    address: str = ""
    #: Several addresses, instead of one, as the plugin's own `addresses`.
    addresses: tuple[str, ...] = ()
    #: The percentage of the pods that it answers for, from 0 to 100. Which ones follows from their UIDs.
    percent: int = 0
    #: What follows for its pods when a call to it fails; unset: the plugin's own `failurePolicy`.
    failure_policy: str = ""

    @property
    def enabled(self) -> bool:
        """Whether there is one."""
        return bool(self.address or self.addresses)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """All of its addresses."""
        return self.addresses or ((self.address,) if self.address else ())


@dataclass(frozen=True, slots=True)
class RemotePlugin:
    """A plugin that is a service of its own. A profile names it like any other plugin."""

    #: The name by which profiles enable it; no in-tree plugin has it.
    name: str
    #: `host:port`, `unix:/path`, `dns:///name:port` (every address of the name) or
    #: `endpointslice:///namespace/service:port` (every ready endpoint of the Service). Or `addresses` instead.
    address: str
    #: Where profiles may enable it; checked against the plugin's own description at the handshake.
    extension_points: tuple[ExtensionPoint, ...]
    #: How long a call may take.
    deadline: Duration = _DEADLINE
    #: Several addresses, instead of one: replicas of the plugin, all of one version and with the same answers. Calls
    #: go to the one with the fewest calls under way, and to another one if it fails.
    addresses: tuple[str, ...] = ()
    #: A call that takes longer than 19 of 20 is made at a second replica as well, and the first answer counts. Only
    #: for calls without side effects, of plugins that declare `idempotent`.
    hedging: bool = False
    #: With `failurePolicy: Ignore`: for how long in each second, on average, its calls may keep a process waiting; once
    #: that is used up, it is left out for a while. Calls that overlap count each. 0: no limit.
    budget_per_second: Duration = _NO_BUDGET
    #: `Enforce`: its answers count; `Shadow`: it is called beside the others, measured and compared, and no pod waits
    #: for it or is decided by it. For `preFilter`, `filter`, `preScore` and `score` alone.
    mode: str = "Enforce"
    #: Another version of the plugin, which answers for a share of the pods instead of this one. For `preFilter`,
    #: `filter`, `preScore` and `score` alone.
    canary: Canary = Canary()
    #: `Fail`: a pod whose call failed is tried again later; `Ignore`: it is scheduled without the plugin.
    failure_policy: str = "Fail"
    #: When calls of an RPC pause after failures; each RPC of a process has a circuit breaker of its own.
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    #: TLS for calls to this plugin; unset: as between the services (`tls`).
    tls: TLS | None = None
    #: Names (URI, DNS name, common name) of the certificate with which this plugin calls the frontend (`handle`).
    #: Empty: the `allowedIdentities` of its own `tls`.
    handle_identities: tuple[str, ...] = ()
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


@dataclass(frozen=True, slots=True)
class Batch:
    """How pods of one class are scheduled together."""

    #: Most pods in a batch; at most 5000.
    max_pods: int = 100
    #: The longest time that a pod waits, under load, for more pods of its class to share its batch.
    linger: Duration = _LINGER


@dataclass(frozen=True, slots=True)
class TriremeConfiguration:
    """Trireme's own settings."""

    #: Where filter runs.
    filter: Phase = Phase()
    #: Where score runs.
    score: Phase = Phase()
    #: Where bind runs.
    bind: Phase = Phase(deadline=_BIND_DEADLINE)
    #: Where insight runs.
    insight: Insight = Insight()
    #: What happens when no endpoint of a phase answers.
    fallback: Fallback = Fallback()
    #: Plugins that are services of their own.
    remote_plugins: tuple[RemotePlugin, ...] = ()
    #: TLS for the frontend's calls to the services; the frontend presents the same certificate to its own callers.
    tls: TLS = TLS()
    #: How pods of one class are scheduled together.
    batch: Batch = Batch()
    #: Where the frontend serves HandleService to plugins (`unix:/path` or `host:port`); empty: nowhere. Beyond loopback
    #: it takes mutual TLS, and the identities below.
    handle_listen: str = ""
    #: Names (URI, DNS name, common name), one of which a plugin's certificate must have.
    handle_allowed_identities: tuple[str, ...] = ()
    #: The Unix socket on which the frontend serves its state to its own user; empty: none.
    admin_socket: str = ""
    #: How many recent classes' columns a replica of filter and score caches.
    column_cache_classes: int = 256

    @property
    def handle_has_tls(self) -> bool:
        """Whether HandleService is served with mutual TLS; else it is for callers on this machine alone."""
        return bool(self.handle_listen) and not self.handle_listen.startswith("unix:") and self.tls.mutual

    def phase(self, name: str) -> Phase:
        """One of `filter`, `score` and `bind`."""
        return {"filter": self.filter, "score": self.score, "bind": self.bind}[name]

    def identities(self, name: str) -> tuple[str, ...]:
        """Whom the frontend expects at the endpoints of a phase, or of `insight`."""
        own = self.insight if name == "insight" else self.phase(name)
        return own.allowed_identities or self.tls.allowed_identities

    def remote_plugin(self, name: str) -> RemotePlugin | None:
        """The remote plugin of that name."""
        return next((plugin for plugin in self.remote_plugins if plugin.name == name), None)


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
        budget_per_second=plugin.budget_per_second if policy == "Ignore" else _NO_BUDGET,
        canary=Canary(),
        canary_of=plugin.name,
        canary_percent=canary.percent,
    )
