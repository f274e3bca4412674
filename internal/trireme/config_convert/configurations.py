"""Converts whole files: detects their kind, and turns a KubeSchedulerConfiguration of any version into a `v1` draft.

Also change: internal/trireme/config/scheduler_configuration.py,
internal/trireme/config_convert/profile_conversion.py (fields of KubeSchedulerConfiguration).

Tests: tests/unit/config_convert/test_versions.py, tests/unit/config_convert/test_command_lines.py.
"""

from typing import Any

from trireme.config.scheduler_configuration import API_GROUP, KIND
from trireme.config_convert import extenders, policies, profile_conversion
from trireme.config_convert.drafts import Draft, Profile, Sources
from trireme.config_convert.plugin_lists import Plugins
from trireme.config_convert.profile_conversion import VERSIONS, is_older_version
from trireme.config_convert.reading import ConversionError, Reader, read_document
from trireme.registry import legacy
from trireme.registry.in_tree import PREEMPTION_PLUGIN
from trireme_kube.apimachinery.golang import quote

#: Where a ConfigMap holds a Policy.
POLICY_KEY = "policy.cfg"
DEFAULT_POLICY_NAMESPACE = "kube-system"
#: `kubescheduler.config.k8s.io` had this name before.
_FIRST_GROUP = "componentconfig"

_SAME_SETTINGS = (
    "parallelism",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "delayCacheUntilActive",
)
_LEADER_ELECTION = (
    "leaderElect",
    "leaseDuration",
    "renewDeadline",
    "retryPeriod",
    "resourceName",
    "resourceNamespace",
)
_CLIENT_CONNECTION = ("kubeconfig", "acceptContentTypes", "contentType", "qps", "burst")


def convert(data: bytes, sources: Sources, draft: Draft) -> str:
    """Fills a draft from a file: a configuration, a Policy, or a ConfigMap that holds one of them.

    Returns:
        The version of the configuration; empty for a Policy.

    Raises:
        ConversionError: it is none of them, or cannot be read.
    """
    value = read_document(data)
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if kind == "ConfigMap":
        return convert(_config_map_content(value.get("data")), sources, draft)
    if kind == "Policy" or (kind is None and ("predicates" in value or "priorities" in value)):
        draft.origin = "a Policy"
        _apply_policy(value, draft)
        return ""
    group, _, version = str(api_version).partition("/")
    if kind != KIND or group not in (API_GROUP, _FIRST_GROUP) or version not in VERSIONS:
        raise ConversionError(
            f"holds kind {quote(str(kind or ''))} of apiVersion {quote(str(api_version or ''))}, not a {KIND} of "
            f"{API_GROUP}, a Policy, or a ConfigMap with one of them"
        )
    draft.origin = f"a {KIND} {version}"
    _convert_scheduler_configuration(Reader(value), version, sources, draft)
    return version


def _config_map_content(data: Any) -> bytes:
    """The configuration or Policy in a ConfigMap."""
    if not isinstance(data, dict) or not data:
        raise ConversionError("is a ConfigMap without data")
    key = POLICY_KEY if POLICY_KEY in data else next(iter(data))
    if len(data) > 1 and key != POLICY_KEY:
        raise ConversionError(f"is a ConfigMap with several keys and none of them is {POLICY_KEY}")
    if not isinstance(data[key], str):
        raise ConversionError(f"data.{key}: must be a string")
    return str(data[key]).encode()


# A Policy.


def apply_policy_file(path: str, sources: Sources, draft: Draft) -> None:
    """Apply the Policy in a file to the draft's only profile.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        _apply_policy(read_document(sources.read_file(path)), draft)
    except ConversionError as error:
        raise ConversionError(f"{path}: {error}") from error


def apply_policy_config_map(namespace: str, name: str, sources: Sources, draft: Draft) -> None:
    """Apply the Policy in a ConfigMap of the cluster."""
    data = sources.read_config_map(draft.cluster, namespace, name)
    where = f"ConfigMap {namespace}/{name}"
    if POLICY_KEY not in data:
        raise ConversionError(f"{where}: has no {POLICY_KEY}")
    try:
        _apply_policy(read_document(data[POLICY_KEY].encode()), draft)
    except ConversionError as error:
        raise ConversionError(f"{where}: {error}") from error


def _apply_policy(value: dict[str, Any], draft: Draft) -> None:
    """Replace the only profile's plugins and the extenders by those of a Policy."""
    profile = draft.profile()
    plugins, draft.extenders = policies.convert(Reader(value), draft.notes)
    if "hardPodAffinityWeight" in (profile.plugins.args.get(legacy.HARD_POD_AFFINITY_WEIGHT) or {}):
        weight = profile.plugins.args[legacy.HARD_POD_AFFINITY_WEIGHT]["hardPodAffinityWeight"]
        plugins.args_of(legacy.HARD_POD_AFFINITY_WEIGHT).setdefault("hardPodAffinityWeight", weight)
    profile.plugins = plugins


# A KubeSchedulerConfiguration.


def _convert_scheduler_configuration(value: Reader, version: str, sources: Sources, draft: Draft) -> None:
    """Convert a KubeSchedulerConfiguration of any old version into the draft; unread fields become notes."""
    for name in ("apiVersion", "kind", "metadata"):
        value.take(name)
    value.copy(_SAME_SETTINGS, draft.settings)
    _convert_connection(value, draft)
    _convert_leader_election(value, draft)
    algorithm = value.reader("algorithmSource")
    provider = (algorithm.text("provider") if algorithm else "") or legacy.DEFAULT_PROVIDER
    listed = value.readers("profiles")
    draft.says_plugins = any("plugins" in one.value or "pluginConfig" in one.value for one in [value, *(listed or ())])
    if is_older_version(version, "v1alpha2"):
        _add_only_profile(value, version, provider, draft)
    else:
        for profile in listed or []:
            _add_profile(profile, version, provider, draft)
        if not listed and is_older_version(version, "v1beta3"):
            _add_profile(Reader({}), version, provider, draft)
        draft.extenders = extenders.convert(value, draft.notes)
    if algorithm is not None:
        _apply_policy_of_source(algorithm, sources, draft)
    _convert_moved_settings(value, draft)
    draft.notes.extend(value.unknown())


def _convert_connection(value: Reader, draft: Draft) -> None:
    """Convert the settings of the connection to the API server."""
    connection = value.reader("clientConnection")
    if connection is not None:
        written: dict[str, Any] = {}
        connection.copy(_CLIENT_CONNECTION, written)
        draft.notes.extend(connection.unknown())
        if written:
            draft.settings["clientConnection"] = written


def _convert_leader_election(value: Reader, draft: Draft) -> None:
    """Convert leader election, whose fields had other names; other locks than Leases become a note."""
    election = value.reader("leaderElection")
    if election is None:
        return
    written: dict[str, Any] = {}
    election.copy(_LEADER_ELECTION, written)
    for old, new in (("lockObjectName", "resourceName"), ("lockObjectNamespace", "resourceNamespace")):
        name = election.text(old)
        if name:
            written.setdefault(new, name)
    note_lock(election.at("resourceLock"), election.text("resourceLock"), draft)
    draft.notes.extend(election.unknown())
    if written:
        draft.settings["leaderElection"] = written


def note_lock(about: str, lock: str, draft: Draft) -> None:
    """Note that Leases are the only kind of lock."""
    if lock not in ("", "leases"):
        text = f"{lock} was removed, Leases are the only lock; an instance that holds the old one does not count"
        draft.note(about, f"{text}: end it first")


def _add_profile(reader: Reader, version: str, provider: str, draft: Draft) -> None:
    """Convert one profile of a version that has profiles."""
    profile = Profile(profile_conversion.convert(reader, version, draft.notes, provider))
    reader.copy(("schedulerName", "percentageOfNodesToScore"), profile.settings)
    draft.notes.extend(reader.unknown())
    draft.profiles.append(profile)


def _add_only_profile(value: Reader, version: str, provider: str, draft: Draft) -> None:
    """Convert a version without profiles, whose only profile is in the configuration itself."""
    profile = Profile(profile_conversion.convert(value, version, draft.notes, provider))
    value.copy(("schedulerName",), profile.settings)
    draft.profiles.append(profile)


def _apply_policy_of_source(algorithm: Reader, sources: Sources, draft: Draft) -> None:
    """Apply the Policy that the algorithm's source names, a file or a ConfigMap. Raises: ConversionError."""
    policy = algorithm.reader("policy")
    draft.notes.extend(algorithm.unknown())
    if policy is None:
        return
    if draft.says_plugins:
        raise ConversionError("a Policy and plugins in the configuration exclude each other")
    file, config_map = policy.reader("file"), policy.reader("configMap")
    draft.notes.extend(policy.unknown())
    if file is not None:
        apply_policy_file(file.text("path"), sources, draft)
    elif config_map is not None:
        namespace = config_map.text("namespace") or DEFAULT_POLICY_NAMESPACE
        apply_policy_config_map(namespace, config_map.text("name"), sources, draft)


def _convert_moved_settings(value: Reader, draft: Draft) -> None:
    """Convert settings that have moved or were removed."""
    weight = value.integer("hardPodAffinitySymmetricWeight")
    if weight is not None:
        _set_plugin_argument(draft, legacy.HARD_POD_AFFINITY_WEIGHT, "hardPodAffinityWeight", weight)
    timeout = value.integer("bindTimeoutSeconds")
    if timeout is not None:
        _set_plugin_argument(draft, legacy.BIND_TIMEOUT, "bindTimeoutSeconds", timeout)
    if value.boolean("disablePreemption"):
        for profile in draft.profiles:
            _disable_preemption(profile.plugins)
    for name in ("healthzBindAddress", "metricsBindAddress"):
        note_insecure_port(name, value.text(name), draft)
    domains = value.text("failureDomains")
    if domains:
        draft.note("failureDomains", "was removed: pods and default constraints name their topology keys themselves")
    switched = value.reader("featureGates")
    if switched is not None and switched.value:
        text = ",".join(f"{name}={str(on).lower()}" for name, on in switched.value.items())
        draft.note("featureGates", f"are set by --feature-gates={text}")


def _set_plugin_argument(draft: Draft, plugin: str, name: str, value: Any) -> None:
    """Set an argument of a plugin in all profiles that do not set it."""
    for profile in draft.profiles:
        profile.plugins.args_of(plugin).setdefault(name, value)


def _disable_preemption(plugins: Plugins) -> None:
    plugins.at("postFilter").drop(PREEMPTION_PLUGIN)
    plugins.at("postFilter").disable(PREEMPTION_PLUGIN)


def note_insecure_port(about: str, address: str, draft: Draft) -> None:
    """Note where health and metrics are served now."""
    if address and not (address == "0" or address.endswith(":0")):
        text = f"{address} has no equivalent: health and metrics are served over HTTPS alone, at --secure-port"
        draft.note(about, f"{text} (10259) of --bind-address")
