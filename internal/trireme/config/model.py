"""A KubeSchedulerConfiguration as the rest of Trireme sees it: frozen, with every default, and checked.

The dataclasses follow the fields of `kubescheduler.config.k8s.io/v1` one for one, so the documentation of a field there
applies here. Plugin arguments stay in the form of that API (a mapping, as in JSON), because the plugins run in other
processes and get them as JSON: `CompletedProfile.args_json`.

`Profile` is the configured profile (merged with the default plugins); `CompletedProfile` is what runs: plugins in order
at each extension point, `multiPoint` expanded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import orjson

from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.golang import SECOND, Duration
from trireme_kube.componentbase.tls.client_tls import ClientTLS

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

#: Plugin arguments, as in JSON.
Args = Mapping[str, Any]

_LEASE_DURATION = Duration(15 * SECOND)
_RENEW_DEADLINE = Duration(10 * SECOND)
_RETRY_PERIOD = Duration(2 * SECOND)
_UNSET = Duration()


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which of several frontends schedules, and the election's timing."""

    leader_elect: bool = True
    #: A standby takes over after the lease was not renewed for this long.
    lease_duration: Duration = _LEASE_DURATION
    #: The leader gives up after it could not renew for this long.
    renew_deadline: Duration = _RENEW_DEADLINE
    retry_period: Duration = _RETRY_PERIOD
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The connection to the API server, and its rate limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    #: Calls per second; negative: no limit.
    qps: float = 50.0
    burst: int = 100


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin in a list; an unset weight is 0."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins enabled and disabled at one extension point; `None` is an unset list."""

    enabled: tuple[Plugin, ...] | None = None
    disabled: tuple[Plugin, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugin sets of a profile, before `multi_point` is expanded."""

    multi_point: PluginSet = PluginSet()
    points: Mapping[ExtensionPoint, PluginSet] = field(default_factory=lambda: MappingProxyType({}))

    def at(self, point: ExtensionPoint) -> PluginSet:
        """The set of one extension point."""
        return self.points.get(point, PluginSet())


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A plugin's arguments. `raw` ones belong to a plugin that is not in-tree and are passed on unchanged."""

    name: str
    args: Any = None
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as configured, with the default plugins and arguments merged in."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = field(default_factory=Plugins)
    plugin_config: tuple[PluginConfig, ...] = ()

    def args_of(self, plugin: str) -> PluginConfig | None:
        """The arguments of a plugin, if it has any."""
        return next((config for config in self.plugin_config if config.name == plugin), None)


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    #: Data takes precedence over files.
    tls_config: ClientTLS | None = None
    http_timeout: Duration = _UNSET
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """A KubeSchedulerConfiguration."""

    api_version: str = API_VERSION
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    #: 0: every node is evaluated.
    percentage_of_nodes_to_score: int | None = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False

    def with_leader_election(self, leader_election: LeaderElection) -> "SchedulerConfiguration":
        """This configuration with other leader election."""
        return replace(self, leader_election=leader_election)


@dataclass(frozen=True, slots=True)
class CompletedProfile:
    """What a profile runs."""

    scheduler_name: str
    #: The profile's own value if set, else the configuration's.
    percentage_of_nodes_to_score: int
    #: The plugins of every extension point in the order they run; the weight is 0 where a point has none.
    plugins: Mapping[ExtensionPoint, tuple[Plugin, ...]]
    #: The arguments of the plugins that run, defaults filled in.
    plugin_config: tuple[PluginConfig, ...]
    #: As configured, for writing it back.
    configured: Profile

    def names(self, point: ExtensionPoint) -> tuple[str, ...]:
        """The names of the plugins at a point, in order."""
        return tuple(plugin.name for plugin in self.plugins.get(point, ()))

    def all_names(self) -> tuple[str, ...]:
        """Every plugin that runs somewhere in this profile, sorted."""
        return tuple(sorted({plugin.name for plugins in self.plugins.values() for plugin in plugins}))

    def args(self, plugin: str) -> Args:
        """The arguments of a plugin with defaults; empty for one that takes none."""
        for config in self.plugin_config:
            if config.name == plugin and isinstance(config.args, Mapping):
                return config.args
        return {}

    def args_json(self, plugin: str) -> bytes:
        """The arguments as canonical JSON (sorted keys, no spaces), the form in which phases and plugins get them."""
        for config in self.plugin_config:
            if config.name == plugin and config.args is not None:
                return orjson.dumps(config.args, option=orjson.OPT_SORT_KEYS)
        return b"{}"
