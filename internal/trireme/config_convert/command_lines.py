"""Converts old command lines: flags with a field in the configuration move there, current flags stay.

Accepts today's flags and removed ones, so that a whole command line can be given as it stands in a manifest.

Also change: internal/trireme/config/command_flags.py,
internal/trireme/config/leader_election.py (the flags of kube-scheduler).
Also change: docs/beside-your-scheduler.md.
"""

import shlex
from collections.abc import Sequence
from functools import cache

from trireme.config import command_flags, gates
from trireme.config.command_flags import LOG_FLAGS, UNUSED_FLAGS
from trireme.config_convert import configurations, profile_conversion
from trireme.config_convert.drafts import Draft, Profile, Sources
from trireme.config_convert.profile_conversion import is_older_version
from trireme.config_convert.reading import ConversionError, Reader
from trireme.registry import legacy
from trireme_kube.componentbase.cli import flag_values, flags
from trireme_kube.componentbase.cli.flags import Flag, FlagSet, Parsed, Section

PROGRAM = "trireme config convert"

_POLICY = ("policy-config-file", "policy-configmap", "policy-configmap-namespace", "use-legacy-policy-config")
_INSECURE_PORT = ("port", "address")
#: Flags of schedulers whose default weights were others.
_OLD_WEIGHTS = frozenset(
    {
        *_POLICY,
        *_INSECURE_PORT,
        "algorithm-provider",
        "failure-domains",
        "hard-pod-affinity-symmetric-weight",
        "scheduler-name",
    }
)
#: Flag → section and field of the configuration.
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "contentType",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_ELECTION = {
    "leader-elect": "leaderElect",
    "leader-elect-lease-duration": "leaseDuration",
    "leader-elect-renew-deadline": "renewDeadline",
    "leader-elect-retry-period": "retryPeriod",
    "leader-elect-resource-name": "resourceName",
    "leader-elect-resource-namespace": "resourceNamespace",
    "lock-object-name": "resourceName",
    "lock-object-namespace": "resourceNamespace",
}
_PROFILING = {"profiling": "enableProfiling", "contention-profiling": "enableContentionProfiling"}
#: Set in the configuration, or without a meaning for one.
_REMOVED_FLAGS = frozenset(
    {
        *_OLD_WEIGHTS,
        *_CONNECTION,
        *_ELECTION,
        *_PROFILING,
        *LOG_FLAGS,
        *UNUSED_FLAGS,
        "config",
        "feature-gates",
        "help",
        "leader-elect-resource-lock",
        "version",
        "write-config-to",
    }
)


@cache
def flag_set() -> FlagSet:
    """The flags that `trireme config convert` takes."""
    text, number, truth = flag_values.STRING, flag_values.INT, flag_values.BOOL
    old = (
        Flag("address", text, "", "Address of the port without TLS."),
        Flag("algorithm-provider", text, "", "DefaultProvider or ClusterAutoscalerProvider."),
        Flag("hard-pod-affinity-symmetric-weight", number, 1, "Weight of other pods' required affinity."),
        Flag("lock-object-name", text, "", "Name of the lock."),
        Flag("lock-object-namespace", text, "", "Namespace of the lock."),
        Flag("policy-config-file", text, "", "File with a Policy."),
        Flag(
            "policy-configmap", text, "", "ConfigMap with a Policy; read from the cluster of --kubeconfig or --master."
        ),
        Flag("policy-configmap-namespace", text, configurations.DEFAULT_POLICY_NAMESPACE, "Its namespace."),
        Flag("port", number, 10251, "Port without TLS."),
        Flag("scheduler-name", text, "", "Pods with this schedulerName are scheduled."),
        Flag("use-legacy-policy-config", truth, False, "Use --policy-config-file, even if a ConfigMap is named too."),
    )
    removed = tuple(
        Flag(name, truth if is_switch else text, False if is_switch else "", "Without equivalent.")
        for name, is_switch in sorted({**LOG_FLAGS, **UNUSED_FLAGS}.items())
    )
    return FlagSet((Section("old", old), Section("gone", removed), *command_flags.flag_set().sections))


def convert(arguments: Sequence[str], sources: Sources) -> Draft:
    """Convert a file, an old command line, or both: a command line with `--config` or with a separate file.

    Raises:
        FlagError: the command line cannot be parsed.
        ConfigurationError: a file that it names cannot be read.
    """
    parsed = flags.parse(flag_set(), arguments)
    files = [*parsed.positional, *([parsed["config"]] if parsed["config"] else [])]
    if len(files) > 1:
        raise ConversionError(f"there is more than one file to convert: {', '.join(files)}")
    if files:
        draft = _convert_file_of_flags(files[0], parsed, sources)
    elif parsed.given:
        draft = Draft(origin="a command line", master=parsed["master"])
        _convert_connection_and_profiling_flags(parsed, draft)
        _convert_leader_election(parsed, draft)
        if parsed.given & _OLD_WEIGHTS:
            _add_profile(parsed, draft)
            _apply_policy_of_flags(parsed, sources, draft)
    else:
        raise ConversionError("there is nothing to convert: name a file, or give the flags of an old scheduler")
    _keep_flags_without_field(parsed, draft)
    return draft


def _convert_file_of_flags(path: str, parsed: Parsed, sources: Sources) -> Draft:
    """Convert the file that `--config` or the command names, and the flags that counted beside it.

    Flags that the old scheduler ignored beside a configuration file are dropped with a note. A Policy configures
    nothing but plugins, so all flags count beside one.
    """
    data = sources.read_file(path)
    draft = Draft(master=parsed["master"])
    try:
        version = configurations.convert(data, sources, draft)
    except ConversionError as error:
        raise ConversionError(f"{path}: {error}") from error
    draft.origin = f"{path}, {draft.origin}"
    if not version:  # a Policy: the flags are the configuration
        _convert_connection_and_profiling_flags(parsed, draft)
        _convert_leader_election(parsed, draft)
        _convert_profile_flags(parsed, draft.profile())
        return draft
    ignored = {*_CONNECTION, *_PROFILING, "scheduler-name", "hard-pod-affinity-symmetric-weight", "algorithm-provider"}
    if is_older_version(version, "v1beta2"):
        ignored.update(_ELECTION)
    else:
        _convert_leader_election(parsed, draft)
    for name in sorted(ignored & parsed.given):
        draft.note(f"--{name}", "had no effect with a configuration file; it was dropped")
    if parsed.given & set(_POLICY):
        if draft.says_plugins:
            raise ConversionError("a Policy and plugins in the configuration exclude each other")
        _apply_policy_of_flags(parsed, sources, draft)
    return draft


def _convert_connection_and_profiling_flags(parsed: Parsed, draft: Draft) -> None:
    """Convert the flags of the connection, its rate limit and profiling."""
    for flag, name in _CONNECTION.items():
        if flag in parsed.given:
            draft.set("clientConnection", name, parsed[flag])
    for flag, name in _PROFILING.items():
        if flag in parsed.given:
            draft.settings[name] = parsed[flag]


def _convert_leader_election(parsed: Parsed, draft: Draft) -> None:
    """Convert the flags of leader election."""
    for flag, name in _ELECTION.items():
        if flag in parsed.given:
            value = parsed[flag]
            draft.set("leaderElection", name, value if isinstance(value, bool) else str(value))
    configurations.note_lock("--leader-elect-resource-lock", parsed["leader-elect-resource-lock"], draft)


def _convert_profile_flags(parsed: Parsed, profile: Profile) -> None:
    """Convert the flags of the profile: the scheduler's name and the weight of symmetric affinity."""
    if parsed["scheduler-name"]:
        profile.settings["schedulerName"] = parsed["scheduler-name"]
    if "hard-pod-affinity-symmetric-weight" in parsed.given:
        weight = parsed["hard-pod-affinity-symmetric-weight"]
        profile.plugins.args_of(legacy.HARD_POD_AFFINITY_WEIGHT).setdefault("hardPodAffinityWeight", weight)


def _add_profile(parsed: Parsed, draft: Draft) -> None:
    """Add the profile that the flags describe."""
    provider = parsed["algorithm-provider"] or legacy.DEFAULT_PROVIDER
    profile = Profile(profile_conversion.convert(Reader({}), "v1beta1", draft.notes, provider))
    _convert_profile_flags(parsed, profile)
    draft.profiles.append(profile)


def _apply_policy_of_flags(parsed: Parsed, sources: Sources, draft: Draft) -> None:
    """The Policy that the flags name; a ConfigMap takes precedence over a file, unless a flag reverses that."""
    file, config_map = parsed["policy-config-file"], parsed["policy-configmap"]
    if file and (parsed["use-legacy-policy-config"] or not config_map):
        configurations.apply_policy_file(file, sources, draft)
    elif config_map and not parsed["use-legacy-policy-config"]:
        namespace = parsed["policy-configmap-namespace"]
        configurations.apply_policy_config_map(namespace, config_map, sources, draft)


def _keep_flags_without_field(parsed: Parsed, draft: Draft) -> None:
    """Keep flags without a field in the configuration."""
    if set(_INSECURE_PORT) & parsed.given and parsed["port"]:
        address = f"{parsed['address'] or '0.0.0.0'}:{parsed['port']}"
        configurations.note_insecure_port("--address, --port", address, draft)
    logs = sorted(set(LOG_FLAGS) & parsed.given)
    if logs:
        about = ", ".join(f"--{name}" for name in logs)
        draft.note(about, "were removed: logs go to stderr, from where the runtime of the process collects them")
    for name in sorted(set(UNUSED_FLAGS) & parsed.given):
        draft.note(f"--{name}", "has no equivalent: a scheduler does not need it any more")
    draft.flags.extend(shlex.quote(f"--{name}={text}") for name, text in parsed.uses if name not in _REMOVED_FLAGS)
    _keep_feature_gates(parsed, draft)


def _keep_feature_gates(parsed: Parsed, draft: Draft) -> None:
    """Keep the feature gates that still exist on the command line."""
    table = gates.read_table().gates
    remaining: list[str] = []
    for values in parsed["feature-gates"].values():
        for name, on in gates.parse_gates(",".join(values)).items():
            if name in table:
                remaining.append(f"{name}={str(on).lower()}")
            else:
                draft.note(f"--feature-gates={name}", "was removed: the feature is always on, or gone")
    if remaining:
        draft.flags.append(f"--feature-gates={','.join(remaining)}")
