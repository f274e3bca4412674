"""The settings of remote plugins: `remotePlugins` of TriremeConfiguration, with canaries and circuit breakers.

Also change: internal/trireme/config/trireme_configuration.py, deploy/chart/templates/_helpers.tpl,
deploy/chart/templates/_plugins.tpl,
internal/trireme/config/service_tls.py (fields of TriremeConfiguration).
Also change: docs/declared-dependencies.md.
Also change: docs/extension-points.md.
Also change: docs/operating-plugins.md.

Tests: tests/unit/config/test_trireme_configuration.py, tests/unit/config/test_canary_profiles.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from trireme.config.addresses import are_addresses, is_address
from trireme.config.service_tls import TLS
from trireme.framework import canaries
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, NotEmpty, OneOf
from trireme_kube.apimachinery.field_errors import Problem, child, forbidden, invalid, required
from trireme_kube.apimachinery.golang import SECOND, Duration

#: Where remote plugins may take part: what the protocol has an RPC for.
REMOTE_POINTS = frozenset(ExtensionPoint) - {
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
}
SHADOW = "Shadow"
#: Where a plugin may be in shadow mode: what is called there changes nothing.
SHADOW_POINTS = frozenset(
    {ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}
)

_NONE = Duration()
_LASTING = AtLeast(Duration(1), "must be greater than zero")
_FAILURE_POLICY = OneOf(("Fail", "Ignore"))


def _is_plugin_name(path: str, name: str) -> list[Problem]:
    """A name by which profiles can enable a remote plugin."""
    if name == "*" or name != name.strip():
        return [invalid(path, name, "is no name that a profile can use")]
    if canaries.is_canary(name):
        return [invalid(path, name, f"must not end with {canaries.SUFFIX}: such names are those of canaries")]
    return []


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
        """A client that calls HandleService as this plugin must have one of these names in its certificate."""
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


def with_canaries(configured: Iterable[RemotePlugin]) -> tuple[RemotePlugin, ...]:
    """The plugins with the canaries as plugins of their own, each after its plugin."""
    plugins: list[RemotePlugin] = []
    for plugin in configured:
        plugins.append(plugin)
        if plugin.canary.enabled:
            plugins.append(_canary_plugin(plugin))
    return tuple(plugins)


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
