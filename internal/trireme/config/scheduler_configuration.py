"""KubeSchedulerConfiguration, declared once: fields, types, defaults, rules and help; and what a profile runs.

The dataclasses follow the fields of `kubescheduler.config.k8s.io/v1` one for one. Decoding, defaults, validation and
the document that is written follow from them (`trireme_kube.apimachinery.declaration`), with kube-scheduler's words and
order: every rule is checked and all problems are reported at once, because an operator who fixes a file wants to start
the scheduler twice, not ten times. Plugin arguments stay in the form of that API (a mapping, as in JSON), because the
plugins run in other processes and get them as JSON: `CompletedProfile.args_json`.

`Profile` is the configured profile (merged with the default plugins); `CompletedProfile` is what runs: plugins in order
at each extension point, `multiPoint` expanded.

Source: k8s.io/kube-scheduler/config/v1, k8s.io/component-base/config/v1alpha1, and pkg/scheduler/apis/config/validation
of Kubernetes 1.37.

Also change: internal/trireme/config/leader_election.py (the defaults of leader election).
Also change: internal/trireme/config_convert/configurations.py,
internal/trireme/config_convert/profile_conversion.py (fields of KubeSchedulerConfiguration).
Also change: internal/trireme/registry/legacy.py, internal/trireme/config_convert/policies.py (names of older plugins).
Also change: internal/trireme_kube/client/rest/content_types.py, internal/trireme_kube/embedded/serializer/protobuf.py,
internal/trireme/config/command_flags.py (the media type of protobuf).

Tests: tests/unit/config/test_scheduler_configuration.py, tests/unit/config/test_profiles.py,
tests/unit/config/test_loading.py, tests/unit/config/test_reloading.py.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import orjson

from trireme.config.gates import FeatureGates
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import in_tree_args
from trireme_kube.apimachinery import declaration, json_document, name_rules
from trireme_kube.apimachinery.declaration import AtLeast, Change, InContext, Written
from trireme_kube.apimachinery.field_errors import (
    NamedString,
    Problem,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
)
from trireme_kube.apimachinery.golang import SECOND, Duration, quote
from trireme_kube.apimachinery.json_document import Number, Object
from trireme_kube.apimachinery.schema import (
    INT64,
    OPTIONAL_BOOL,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    RAW,
    STRING,
    Field,
    Many,
    Struct,
    struct,
)
from trireme_kube.apimachinery.strict_decoding import encode
from trireme_kube.componentbase.tls.client_tls import ClientTLS

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

#: Plugin arguments, as in JSON.
Args = Mapping[str, Any]

MULTI_POINT = "multiPoint"

_ALWAYS = Written(omitempty=False)


def _is_percentage(path: str, value: int | None) -> list[Problem]:
    """A percentage, which may be unset."""
    if value is not None and not 0 <= value <= 100:
        return [invalid(path, value, "not in valid range [0-100]")]
    return []


def _percentage_of_placements_problems(path: str, value: int | None, gates: FeatureGates) -> list[Problem]:
    """A percentage that may be set only if groups have placements."""
    if value is not None and not gates.enabled("TopologyAwareWorkloadScheduling"):
        rule = "percentageOfPlacementsToScore requires TopologyAwareWorkloadScheduling feature gate to be enabled"
        return [forbidden(path, rule)]
    return _is_percentage(path, value)


@functools.cache
def args_schemas() -> Mapping[str, Struct]:
    """The types of plugins' arguments, by plugin."""
    return {name: args.schema for name, args in in_tree_args.plugin_args().items()}


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which of several frontends schedules, and the election's timing."""

    GO_TYPE: ClassVar = "v1alpha1.LeaderElectionConfiguration"

    leader_elect: Annotated[
        bool, "Whether frontends elect the one that schedules.", Written(type=OPTIONAL_BOOL, omitempty=False)
    ] = True
    lease_duration: Annotated[
        Duration, "A standby takes over after the lease was not renewed for this long.", _ALWAYS
    ] = Duration(15 * SECOND)
    renew_deadline: Annotated[Duration, "The leader gives up after it could not renew for this long.", _ALWAYS] = (
        Duration(10 * SECOND)
    )
    retry_period: Annotated[Duration, "The time between two attempts to renew or acquire.", _ALWAYS] = Duration(
        2 * SECOND
    )
    resource_lock: Annotated[str, "The kind of the lock: `leases`.", _ALWAYS] = "leases"
    resource_name: Annotated[str, "The name of the Lease.", _ALWAYS] = "kube-scheduler"
    resource_namespace: Annotated[str, "The namespace of the Lease.", _ALWAYS] = "kube-system"

    def problems(self, path: str) -> Iterable[Problem]:
        """What is wrong with leader election; nothing where it is off."""
        if not self.leader_elect:
            return
        for name, value in (
            ("leaseDuration", self.lease_duration),
            ("renewDeadline", self.renew_deadline),
            ("retryPeriod", self.retry_period),
        ):
            if value <= Duration():
                yield invalid(child(path, name), value, "must be greater than zero")
        if self.lease_duration <= self.renew_deadline:
            # The value shown is the deadline, although the path is the lease's: operators know the message that way.
            rule = "must be greater than `RenewDeadline`"
            yield invalid(child(path, "leaseDuration"), self.renew_deadline, rule)
        for name, text in (
            ("resourceLock", self.resource_lock),
            ("resourceNamespace", self.resource_namespace),
            ("resourceName", self.resource_name),
        ):
            if not text:
                yield required(child(path, name))
        if self.resource_lock != "leases":
            rule = 'resourceLock value must be "leases"'
            yield invalid(child(path, "resourceLock"), self.resource_lock, rule)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """The connection to the API server, and its rate limit."""

    GO_TYPE: ClassVar = "v1alpha1.ClientConnectionConfiguration"

    kubeconfig: Annotated[str, "The file that names the API server and the credentials.", _ALWAYS] = ""
    accept_content_types: Annotated[str, "The `Accept` header of requests.", _ALWAYS] = ""
    content_type: Annotated[str, "The form in which objects are sent.", _ALWAYS] = "application/vnd.kubernetes.protobuf"
    qps: Annotated[float, "Calls per second; negative: no limit.", _ALWAYS] = 50.0
    burst: Annotated[
        int, "How many calls may exceed the rate at once.", AtLeast(0, "must be non-negative"), _ALWAYS
    ] = 100


# Profiles.


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin in a list; an unset weight is 0."""

    name: Annotated[str, "The plugin's name.", _ALWAYS]
    weight: Annotated[int, "The weight of its scores.", Written(type=OPTIONAL_INT32)] = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins enabled and disabled at one extension point; `None` is an unset list."""

    enabled: Annotated[tuple[Plugin, ...] | None, "The plugins that run, beside or instead of the default ones."] = None
    disabled: Annotated[tuple[Plugin, ...] | None, "Default plugins that do not run; `*`: none of them."] = None


_PLUGIN_SET = declaration.schema_of(PluginSet)
_PLUGINS = struct(
    "v1",
    "Plugins",
    *(Field(point.value, _PLUGIN_SET) for point in ExtensionPoint),
    Field(MULTI_POINT, _PLUGIN_SET),
    optional=True,
)


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugin sets of a profile, before `multi_point` is expanded."""

    multi_point: PluginSet = PluginSet()
    points: Mapping[ExtensionPoint, PluginSet] = field(default_factory=lambda: MappingProxyType({}))

    def at(self, point: ExtensionPoint) -> PluginSet:
        """The set of one extension point."""
        return self.points.get(point, PluginSet())


def _read_plugins(value: Mapping[str, Any]) -> Plugins:
    """Read the plugin sets of a profile."""
    sets = {name: declaration.read(PluginSet, value.get(name) or {}) for name in _PLUGINS.fields}
    return Plugins(sets[MULTI_POINT], MappingProxyType({point: sets[point.value] for point in ExtensionPoint}))


def _write_plugins(plugins: Plugins) -> dict[str, Any]:
    """The plugin sets of a profile, as they are encoded."""
    sets = {point.value: plugins.at(point) for point in ExtensionPoint} | {MULTI_POINT: plugins.multi_point}
    return {name: declaration.write(plugin_set) for name, plugin_set in sets.items()}


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A plugin's arguments. `raw` ones belong to a plugin that is not in-tree and are passed on unchanged."""

    name: str
    args: Any = None
    raw: bool = False


_PLUGIN_CONFIG = struct("v1", "PluginConfig", Field("name", STRING, omitempty=False), Field("args", RAW))


def _read_plugin_configs(values: Iterable[Mapping[str, Any]]) -> tuple[PluginConfig, ...]:
    """Read the arguments of plugins."""
    return tuple(_read_plugin_config(value.get("name", ""), value.get("args")) for value in values)


def _read_plugin_config(name: str, args: Any) -> PluginConfig:
    """Read the arguments of a plugin; those of a plugin that is not in-tree stay as they are."""
    schema = args_schemas().get(name)
    if schema is None:
        return PluginConfig(name, raw_args(args), raw=True)
    encoded = encode(args or {}, schema, keep_set=True)
    return PluginConfig(name, {**encoded, "apiVersion": API_VERSION, "kind": schema.name})


def raw_args(node: json_document.Node) -> Any:
    """The arguments of a plugin that is not in-tree, as in JSON."""
    return json_document.plain(node) if isinstance(node, Object | list | Number) else node


def _write_plugin_configs(configs: Iterable[PluginConfig]) -> list[dict[str, Any]]:
    """The arguments of plugins, as they are encoded."""
    return [{"name": config.name, "args": _encode_args(config)} for config in configs]


def _encode_args(config: PluginConfig) -> Any:
    """The arguments of a plugin, as they are encoded."""
    schema = None if config.raw else args_schemas().get(config.name)
    return encode(config.args, schema) if schema is not None else config.args


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as configured, with the default plugins and arguments merged in."""

    GO_TYPE: ClassVar = "v1.KubeSchedulerProfile"

    scheduler_name: Annotated[str, "The `schedulerName` of the pods that it schedules.", Written(type=OPTIONAL_STRING)]
    percentage_of_nodes_to_score: Annotated[int | None, "As that of all profiles, for this one."] = None
    percentage_of_placements_to_score: Annotated[int | None, "As that of all profiles, for this one."] = None
    plugins: Annotated[
        Plugins,
        "The plugins at each extension point, beside or instead of the default ones.",
        Written(type=_PLUGINS, read=_read_plugins, write=_write_plugins),
    ] = field(default_factory=Plugins)
    plugin_config: Annotated[
        tuple[PluginConfig, ...],
        "The arguments of plugins.",
        Written(type=Many(_PLUGIN_CONFIG), read=_read_plugin_configs, write=_write_plugin_configs),
    ] = ()

    def args_of(self, plugin: str) -> PluginConfig | None:
        """The arguments of a plugin, if it has any."""
        return next((config for config in self.plugin_config if config.name == plugin), None)


#: Removed plugins, each with the version that removed it.
_REMOVED = dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "v1")


def _profiles_problems(path: str, profiles: Sequence[Profile], gates: FeatureGates) -> Iterable[Problem]:
    """What is wrong with the profiles, each by itself and all together."""
    if not profiles:
        yield required(path)
        return
    seen: set[str] = set()
    for position, profile in enumerate(profiles):
        where = index(path, position)
        yield from _profile_problems(where, profile, gates)
        if profile.scheduler_name in seen:
            # The value shown is the path of the first one, which has no value to show.
            yield duplicate(child(where, "schedulerName"), {})
        seen.add(profile.scheduler_name)
    yield from _queue_sort_problems(path, profiles)


def _removed_plugin_problems(path: str, name: str) -> list[Problem]:
    """The problem of a plugin that older versions had."""
    version = _REMOVED.get(name)
    if version is None:
        return []
    rule = f"was invalid in version {quote(version)} (KubeSchedulerConfiguration is version {quote(API_VERSION)})"
    return [invalid(path, name, rule)]


def _profile_problems(path: str, profile: Profile, gates: FeatureGates) -> Iterable[Problem]:
    """What is wrong with one profile by itself: its name, removed plugins, plugins configured twice, arguments."""
    if not profile.scheduler_name:
        yield required(child(path, "schedulerName"))
    yield from _is_percentage(child(path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
    placements = profile.percentage_of_placements_to_score
    yield from _percentage_of_placements_problems(child(path, "percentageOfPlacementsToScore"), placements, gates)
    for point in ExtensionPoint:
        for position, plugin in enumerate(profile.plugins.at(point).enabled or ()):
            where = index(child(path, "plugins", point.value, "enabled"), position)
            yield from _removed_plugin_problems(where, plugin.name)
    seen: set[str] = set()
    for position, config in enumerate(profile.plugin_config):
        where = index(child(path, "pluginConfig"), position)
        if config.name in seen:
            yield duplicate(where, config.name)
        seen.add(config.name)
        removed = _removed_plugin_problems(where, config.name)
        yield from removed
        arguments = None if removed else in_tree_args.plugin_args().get(config.name)
        if arguments is not None and arguments.validated_early:
            yield from arguments.validate(child(where, "args"), config.args, gates)


def _plugin_set_in_message(plugins: PluginSet) -> dict[str, Any]:
    """The plugin set as Go prints its struct."""
    return {
        name: None if entries is None else [{"Name": plugin.name, "Weight": plugin.weight} for plugin in entries]
        for name, entries in (("Enabled", plugins.enabled), ("Disabled", plugins.disabled))
    }


def _same_plugin_sets(left: PluginSet, right: PluginSet) -> bool:
    """Equal, with an empty list equal to none."""
    return (left.enabled or ()) == (right.enabled or ()) and (left.disabled or ()) == (right.disabled or ())


def _queue_sort_problems(path: str, profiles: Sequence[Profile]) -> Iterable[Problem]:
    """Profiles with other QueueSort plugins or arguments than the first, and a first one with several."""
    first = profiles[0].plugins.at(ExtensionPoint.QUEUE_SORT)
    enabled = first.enabled or ()
    name = enabled[0].name if enabled else ""
    if len(enabled) > 1:
        where = child(index(path, 0), "plugins", "queueSort", "Enabled")
        yield invalid(where, len(enabled), "only one queue sort plugin can be enabled")
    arguments = None
    for config in profiles[0].plugin_config:
        if name and config.name == name:
            arguments = config.args
    for position, profile in enumerate(profiles[1:], start=1):
        current = profile.plugins.at(ExtensionPoint.QUEUE_SORT)
        if not _same_plugin_sets(first, current):
            where = child(index(path, position), "plugins", "queueSort")
            yield invalid(where, _plugin_set_in_message(current), "must be the same for all profiles")
        for config in profile.plugin_config:
            if config.name == name and config.args != arguments:
                where = child(index(path, position), "pluginConfig", "args")
                yield invalid(where, config.args, "queueSort must be the same for all profiles")


# Extenders.


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender manages."""

    GO_TYPE: ClassVar = "v1.ExtenderManagedResource"

    name: Annotated[str, "The resource's name.", _ALWAYS]
    ignored_by_scheduler: Annotated[bool, "Whether the scheduler leaves the resource to the extender."] = False


@dataclass(frozen=True, slots=True)
class Extender:
    """An HTTP extender."""

    url_prefix: Annotated[str, "The URL before the verbs.", _ALWAYS] = ""
    filter_verb: Annotated[str, "The verb of filtering; empty: it does not filter."] = ""
    preempt_verb: Annotated[str, "The verb of preemption; empty: it has no say."] = ""
    prioritize_verb: Annotated[str, "The verb of scoring; empty: it does not score."] = ""
    weight: Annotated[int, "The weight of its scores.", Written(type=INT64)] = 0
    bind_verb: Annotated[str, "The verb of binding; empty: it does not bind."] = ""
    enable_https: Annotated[bool, "Whether it is called with TLS.", Written("enableHTTPS")] = False
    tls_config: Annotated[ClientTLS | None, "TLS of calls to it."] = None
    http_timeout: Annotated[Duration, "The deadline of a call."] = Duration()
    node_cache_capable: Annotated[bool, "Whether it gets names of nodes instead of nodes."] = False
    managed_resources: Annotated[
        tuple[ManagedResource, ...], "It is called only for pods that request one of these; none: for all."
    ] = ()
    ignorable: Annotated[bool, "Whether scheduling goes on when it fails."] = False


def _extenders_problems(path: str, extenders: Sequence[Extender]) -> Iterable[Problem]:
    """Extenders that score without a weight, share a managed resource, or are more than one that binds."""
    managed: set[str] = set()
    for position, extender in enumerate(extenders):
        where = index(path, position)
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(child(where, "weight"), extender.weight, "must have a positive weight applied to it")
        for number, resource in enumerate(extender.managed_resources):
            name = child(index(child(where, "managedResources"), number), "name")
            yield from _extended_resource_problems(name, resource.name)
            if resource.name in managed:
                yield invalid(name, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        yield invalid(path, f"found {binders} extenders implementing bind", "only one extender can implement bind")


def _extended_resource_problems(path: str, name: str) -> list[Problem]:
    """Why the name is not that of an extended resource."""
    problems = [invalid(path, NamedString(name), problem) for problem in name_rules.label_key_problems(name)]
    if problems:
        return problems
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or name_rules.label_key_problems(f"requests.{name}"):
        return [invalid(path, name, "is an invalid extended resource name")]
    return []


# The configuration.


def _debugging(scalar: Any) -> Written:
    """How a field of the embedded DebuggingConfiguration is written."""
    return Written(type=scalar, embedded_in="DebuggingConfiguration")


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """A KubeSchedulerConfiguration."""

    GO_TYPE: ClassVar = f"v1.{KIND}"
    CHECKED_FIRST: ClassVar = ("client_connection", "leader_election", "parallelism", "profiles")

    parallelism: Annotated[
        int,
        "How many nodes kube-scheduler looks at at once; Trireme evaluates all nodes in one step.",
        AtLeast(1, "should be an integer value greater than zero"),
        Written(type=OPTIONAL_INT32),
    ] = 16
    leader_election: Annotated[LeaderElection, "Which of several schedulers schedules.", Change.AT_RESTART, _ALWAYS] = (
        LeaderElection()
    )
    client_connection: Annotated[ClientConnection, "The connection to the API server.", Change.AT_RESTART, _ALWAYS] = (
        ClientConnection()
    )
    enable_profiling: Annotated[
        bool, "Whether profiles are served at `/debug/pprof`.", Change.AT_RESTART, _debugging(OPTIONAL_BOOL)
    ] = True
    enable_contention_profiling: Annotated[
        bool, "Whether blocking is profiled as well.", Change.AT_RESTART, _debugging(OPTIONAL_BOOL)
    ] = True
    percentage_of_nodes_to_score: Annotated[
        int | None, "The percentage of the nodes that are scored; 0: every node is evaluated.", _is_percentage
    ] = 0
    percentage_of_placements_to_score: Annotated[
        int | None,
        "Accepted with the gate TopologyAwareWorkloadScheduling, and without effect: every placement of a group is "
        "evaluated.",
        InContext(_percentage_of_placements_problems),
    ] = None
    pod_initial_backoff_seconds: Annotated[
        int, "The first back-off of a refused pod.", AtLeast(1, "must be greater than 0"), Written(type=OPTIONAL_INT64)
    ] = 1
    pod_max_backoff_seconds: Annotated[
        int, "The longest back-off of a pod; of a group √members times it.", Written(type=OPTIONAL_INT64)
    ] = 10
    profiles: Annotated[tuple[Profile, ...], "The profiles; none: the default one.", InContext(_profiles_problems)] = ()
    extenders: Annotated[tuple[Extender, ...], "HTTP extenders, in the order of their calls.", Change.AT_RESTART] = ()
    delay_cache_until_active: Annotated[
        bool, "Whether a standby follows the cluster only once it leads.", Change.AT_RESTART
    ] = False

    def with_leader_election(self, leader_election: LeaderElection) -> "SchedulerConfiguration":
        """This configuration with other leader election."""
        return replace(self, leader_election=leader_election)

    def problems(self, path: str) -> Iterable[Problem]:
        """What is wrong with back-offs together, and with extenders."""
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            rule = "must be greater than or equal to PodInitialBackoffSeconds"
            yield invalid(child(path, "podMaxBackoffSeconds"), self.pod_max_backoff_seconds, rule)
        yield from _extenders_problems(child(path, "extenders"), self.extenders)


#: The type of the file.
CONFIGURATION = declaration.schema_of(SchedulerConfiguration, is_object=True)


def validate(config: SchedulerConfiguration, gates: FeatureGates) -> list[Problem]:
    """All problems of a configuration, in the order in which kube-scheduler reports them."""
    return declaration.problems_of(config, context=gates)


def to_document(config: SchedulerConfiguration) -> dict[str, Any]:
    """The configuration with every field, ready for JSON or YAML, as kube-scheduler writes it."""
    return encode({"kind": KIND, "apiVersion": API_VERSION, **declaration.write(config)}, CONFIGURATION)


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
