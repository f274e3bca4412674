"""The rules of a KubeSchedulerConfiguration, in the order in which kube-scheduler reports them.

Every rule is checked and all problems are reported at once, because an operator who fixes a file wants to start the
scheduler twice, not ten times.

Source: pkg/scheduler/apis/config/validation of Kubernetes 1.37.
"""

from collections.abc import Sequence
from typing import Any

from trireme.config.gates import FeatureGates
from trireme.config.model import (
    ClientConnection,
    Extender,
    LeaderElection,
    PluginConfig,
    PluginSet,
    Profile,
    SchedulerConfiguration,
)
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import in_tree_args
from trireme_kube.apimachinery.field_errors import (
    NamedString,
    Problem,
    child,
    duplicate,
    index,
    invalid,
    label_key_problems,
    required,
)
from trireme_kube.apimachinery.golang import Duration, quote

#: Removed plugins, each with the version that removed it.
_REMOVED = dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "v1")
#: The extension points where a removed plugin is reported: not the placement points, and not multiPoint.
_CHECKED_POINTS = (
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.QUEUE_SORT,
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.POST_FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
    ExtensionPoint.PRE_BIND,
    ExtensionPoint.BIND,
    ExtensionPoint.POST_BIND,
    ExtensionPoint.POD_GROUP_POST_FILTER,
)


def validate(config: SchedulerConfiguration, gates: FeatureGates) -> list[Problem]:
    """All problems of a configuration."""
    problems = _client_connection_problems(config.client_connection)
    problems.extend(_leader_election_problems(config.leader_election))
    if config.parallelism <= 0:
        problems.append(invalid("parallelism", config.parallelism, "should be an integer value greater than zero"))
    problems.extend(_profiles_problems(config, gates))
    problems.extend(_percentage_problems("percentageOfNodesToScore", config.percentage_of_nodes_to_score))
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        problems.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        rule = "must be greater than or equal to PodInitialBackoffSeconds"
        problems.append(invalid("podMaxBackoffSeconds", longest, rule))
    problems.extend(_extenders_problems(config.extenders))
    return problems


def _client_connection_problems(connection: ClientConnection) -> list[Problem]:
    """What is wrong with the connection's rate limit."""
    if connection.burst < 0:
        return [invalid("clientConnection.burst", connection.burst, "must be non-negative")]
    return []


def _leader_election_problems(election: LeaderElection) -> list[Problem]:
    """What is wrong with leader election; nothing where it is off."""
    path = "leaderElection"
    if not election.leader_elect:
        return []
    problems: list[Problem] = []
    for name, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= Duration():
            problems.append(invalid(child(path, name), value, "must be greater than zero"))
    if election.lease_duration <= election.renew_deadline:
        # The value shown is the deadline, although the path is the lease's: operators know the message that way.
        rule = "must be greater than `RenewDeadline`"
        problems.append(invalid(child(path, "leaseDuration"), election.renew_deadline, rule))
    for name, text in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not text:
            problems.append(required(child(path, name)))
    if election.resource_lock != "leases":
        rule = 'resourceLock value must be "leases"'
        problems.append(invalid(child(path, "resourceLock"), election.resource_lock, rule))
    return problems


def _percentage_problems(path: str, value: int | None) -> list[Problem]:
    """What is wrong with a percentage; None is allowed."""
    if value is not None and not 0 <= value <= 100:
        return [invalid(path, value, "not in valid range [0-100]")]
    return []


# Profiles.


def _profiles_problems(config: SchedulerConfiguration, gates: FeatureGates) -> list[Problem]:
    """What is wrong with the profiles, each by itself and all together."""
    if not config.profiles:
        return [required("profiles")]
    problems: list[Problem] = []
    seen: set[str] = set()
    for position, profile in enumerate(config.profiles):
        path = index("profiles", position)
        problems.extend(_profile_problems(path, config.api_version, profile, gates))
        if profile.scheduler_name in seen:
            # The value shown is the path of the first one, which has no value to show.
            problems.append(duplicate(child(path, "schedulerName"), {}))
        seen.add(profile.scheduler_name)
    problems.extend(_queue_sort_problems(config.profiles))
    return problems


def _removed_plugin_problems(path: str, api_version: str, name: str) -> list[Problem]:
    """The problem of a plugin that older versions had."""
    version = _REMOVED.get(name)
    if version is None:
        return []
    rule = f"was invalid in version {quote(version)} (KubeSchedulerConfiguration is version {quote(api_version)})"
    return [invalid(path, name, rule)]


def _profile_problems(path: str, api_version: str, profile: Profile, gates: FeatureGates) -> list[Problem]:
    """What is wrong with one profile by itself: its name, removed plugins, plugins configured twice, arguments."""
    problems: list[Problem] = []
    if not profile.scheduler_name:
        problems.append(required(child(path, "schedulerName")))
    problems.extend(_percentage_problems(child(path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score))
    for point in _CHECKED_POINTS:
        for position, plugin in enumerate(profile.plugins.at(point).enabled or ()):
            where = index(child(path, "plugins", point.value, "enabled"), position)
            problems.extend(_removed_plugin_problems(where, api_version, plugin.name))
    seen: set[str] = set()
    for position, config in enumerate(profile.plugin_config):
        where = index(child(path, "pluginConfig"), position)
        if config.name in seen:
            problems.append(duplicate(where, config.name))
        seen.add(config.name)
        removed = _removed_plugin_problems(where, api_version, config.name)
        problems.extend(removed)
        arguments = None if removed else in_tree_args.plugin_args().get(config.name)
        if arguments is not None and arguments.validated_early:
            problems.extend(arguments.validate(child(where, "args"), config.args, gates))
    return problems


def _plugin_set_in_message(plugins: PluginSet) -> dict[str, Any]:
    """The plugin set as Go prints its struct."""
    return {
        name: None if entries is None else [{"Name": plugin.name, "Weight": plugin.weight} for plugin in entries]
        for name, entries in (("Enabled", plugins.enabled), ("Disabled", plugins.disabled))
    }


def _same_plugin_sets(left: PluginSet, right: PluginSet) -> bool:
    """Equal, with an empty list equal to none."""
    return (left.enabled or ()) == (right.enabled or ()) and (left.disabled or ()) == (right.disabled or ())


def _queue_sort_problems(profiles: Sequence[Profile]) -> list[Problem]:
    """Profiles with other QueueSort plugins or arguments than the first, and a first one with several."""
    problems: list[Problem] = []
    first = profiles[0].plugins.at(ExtensionPoint.QUEUE_SORT)
    enabled = first.enabled or ()
    name = enabled[0].name if enabled else ""
    if len(enabled) > 1:
        path = child(index("profiles", 0), "plugins", "queueSort", "Enabled")
        problems.append(invalid(path, len(enabled), "only one queue sort plugin can be enabled"))
    arguments = None
    for config in profiles[0].plugin_config:
        if name and config.name == name:
            arguments = config.args
    for position, profile in enumerate(profiles[1:], start=1):
        path = index("profiles", position)
        current = profile.plugins.at(ExtensionPoint.QUEUE_SORT)
        if not _same_plugin_sets(first, current):
            where = child(path, "plugins", "queueSort")
            problems.append(invalid(where, _plugin_set_in_message(current), "must be the same for all profiles"))
        problems.extend(
            invalid(child(path, "pluginConfig", "args"), config.args, "queueSort must be the same for all profiles")
            for config in profile.plugin_config
            if _is_config_of(config, name) and config.args != arguments
        )
    return problems


def _is_config_of(config: PluginConfig, queue_sort: str) -> bool:
    """Whether these are the arguments of the QueueSort plugin."""
    return config.name == queue_sort


# Extenders.


def _extenders_problems(extenders: Sequence[Extender]) -> list[Problem]:
    """Extenders that score without a weight, share a managed resource, or are more than one that binds."""
    problems: list[Problem] = []
    binders = 0
    managed: set[str] = set()
    for position, extender in enumerate(extenders):
        path = index("extenders", position)
        if extender.prioritize_verb and extender.weight <= 0:
            rule = "must have a positive weight applied to it"
            problems.append(invalid(child(path, "weight"), extender.weight, rule))
        binders += bool(extender.bind_verb)
        for number, resource in enumerate(extender.managed_resources):
            where = child(index(child(path, "managedResources"), number), "name")
            problems.extend(_extended_resource_problems(where, resource.name))
            if resource.name in managed:
                problems.append(invalid(where, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        problems.append(invalid("extenders", found, "only one extender can implement bind"))
    return problems


def _extended_resource_problems(path: str, name: str) -> list[Problem]:
    """Why the name is not that of an extended resource."""
    problems = [invalid(path, NamedString(name), problem) for problem in label_key_problems(name)]
    if problems:
        return problems
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith("requests.") or label_key_problems(f"requests.{name}"):
        return [invalid(path, name, "is an invalid extended resource name")]
    return []
