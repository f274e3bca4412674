"""The frontend's flags: every flag of kube-scheduler 1.37 in the sections that its help shows, and Trireme's own.

Names, types, defaults and sections are the interface that manifests rely on; the sentences are ours. Trireme's flags
have a section of their own at the end, so that what is not kube-scheduler's cannot be mistaken for it. A flag is
declared once, here or in the module of its section, and is a field of `Options`.

Also change: internal/trireme/config_convert/command_lines.py,
internal/trireme/config/leader_election.py (the flags of kube-scheduler).
Also change: docs/starting.md.
Also change: internal/trireme_kube/client/rest/content_types.py, internal/trireme_kube/embedded/serializer/protobuf.py,
internal/trireme/config/scheduler_configuration.py (the media type of protobuf).
Also change: deploy/chart/templates/_pods.tpl (the chart's pods, which set flags).

Tests: tests/unit/config/test_command_flags.py, tests/unit/config/test_secure_serving.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Annotated

from trireme.config import gates
from trireme.config.gates import GateStage
from trireme.config.leader_election import LeaderElectionOptions
from trireme.config.scheduler_configuration import ClientConnection, SchedulerConfiguration
from trireme.config.serving_flags import AuthenticationOptions, AuthorizationOptions, ServingOptions
from trireme.config.telemetry_flags import LoggingOptions, MetricsOptions
from trireme_kube.apimachinery.golang import MINUTE, Duration
from trireme_kube.componentbase.cli import flag_values as kinds
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.cli.flag_declarations import Declared, Group, flag_set_of, values_of, with_given
from trireme_kube.componentbase.cli.flags import FlagSet, Parsed
from trireme_kube.componentbase.cli.versions import Effective

PROGRAM = "kube-scheduler"

_IGNORED = "Ignored when --config is given."
#: The defaults of the configuration file, which the flags of the connection have too.
_CONNECTION = ClientConnection()
_COMPONENT = 'Without a component, "kube" is meant.'


@dataclass(frozen=True, slots=True)
class MiscOptions:
    """The configuration file and the API server's address."""

    config_file: Annotated[str, Declared("config", "File with the KubeSchedulerConfiguration.")] = ""
    write_config_to: Annotated[
        str, Declared("write-config-to", "Write the completed configuration to this file and exit.")
    ] = ""
    master: Annotated[str, Declared("master", "Address of the API server; overrides the kubeconfig's.")] = ""


@dataclass(frozen=True, slots=True)
class DeprecatedOptions:
    """The deprecated flags; most count only without a configuration file."""

    enable_profiling: Annotated[
        bool, Declared("profiling", f"DEPRECATED: serve /debug/pprof/. {_IGNORED}", sets="enable_profiling")
    ] = True
    enable_contention_profiling: Annotated[
        bool,
        Declared(
            "contention-profiling", f"DEPRECATED: profile blocking, too. {_IGNORED}", sets="enable_contention_profiling"
        ),
    ] = True
    kubeconfig: Annotated[
        str,
        Declared(
            "kubeconfig", f"DEPRECATED: kubeconfig of the API server. {_IGNORED}", sets="client_connection.kubeconfig"
        ),
    ] = ""
    kube_api_content_type: Annotated[
        str,
        Declared(
            "kube-api-content-type",
            f"DEPRECATED: content type of requests to the API server. {_IGNORED}",
            sets="client_connection.content_type",
        ),
    ] = _CONNECTION.content_type
    kube_api_qps: Annotated[
        float,
        Declared(
            "kube-api-qps", f"DEPRECATED: requests a second to the API server. {_IGNORED}", sets="client_connection.qps"
        ),
    ] = _CONNECTION.qps
    kube_api_burst: Annotated[
        int,
        Declared(
            "kube-api-burst",
            f"DEPRECATED: burst of requests to the API server. {_IGNORED}",
            type=kinds.INT32,
            sets="client_connection.burst",
        ),
    ] = _CONNECTION.burst
    pod_max_in_unschedulable_pods: Annotated[
        Duration,
        Declared(
            "pod-max-in-unschedulable-pods-duration",
            "DEPRECATED: how long a pod stays parked as unschedulable before it is tried again in any case.",
        ),
    ] = Duration(5 * MINUTE)


def _known_gates() -> list[str]:
    """The gates that help lists: those of alpha and beta features, with stage and default."""
    table = gates.read_table()
    lines: list[str] = []
    effective = versions.DEFAULT
    newest = Effective(effective.emulated, effective.emulated)
    for name in table.gates:
        texts: list[str] = []
        usual, strict = table.at(name, effective), table.at(name, newest)
        for spec in (usual,) if usual == strict else (usual, strict):
            if spec.stage in (GateStage.ALPHA, GateStage.BETA):
                text = f"{name}=true|false ({spec.stage.value} - default={str(spec.default).lower()})"
                if spec is strict and usual != strict and spec.oldest_peer != (0, 0):
                    text += f" if --min-compatibility-version>={spec.oldest_peer[0]}.{spec.oldest_peer[1]}"
                texts.append(text)
        if texts:
            lines.append("kube:" + ", or ".join(texts))
    return sorted(lines)


def _help_of_gates() -> str:
    """The help of --feature-gates, which lists them."""
    text = "Features to turn on or off, as component:name=true|false, separated by commas; may be repeated. "
    return f"{text}{_COMPONENT} Options are:\n" + "\n".join(_known_gates())


@dataclass(frozen=True, slots=True)
class FeatureGateOptions:
    """The compatibility versions and the feature gates."""

    emulated_version: Annotated[
        tuple[str, ...],
        Declared(
            "emulated-version",
            "Versions to behave as, by component, for example 'kube=1.36', with the defaults of that version."
            f"\nOptions are: kube={versions.emulation_range()}\n{_COMPONENT}",
        ),
    ] = ()
    min_compatibility_version: Annotated[
        tuple[str, ...],
        Declared(
            "min-compatibility-version",
            "Oldest versions in the control plane, by component; not above --emulated-version."
            f"\nOptions are: kube={versions.oldest_peer_range()}\n{_COMPONENT}",
        ),
    ] = ()
    feature_gates: Annotated[
        Mapping[str, tuple[str, ...]],
        Declared("feature-gates", _help_of_gates),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The flags that every Kubernetes component has."""

    version: Annotated[
        str,
        Declared(
            "version",
            "Print the version and exit; raw prints all details of the build, vX.Y.Z... reports another one.",
            type=kinds.VERSION,
        ),
    ] = "false"
    help: Annotated[bool, Declared("help", f"help for {PROGRAM}", letter="h")] = False


@dataclass(frozen=True, slots=True)
class TriremeOptions:
    """The flags that kube-scheduler does not have."""

    config_file: Annotated[
        str,
        Declared(
            "trireme-config",
            "File with the TriremeConfiguration: where the phases run, remote plugins, TLS between services.",
            own=True,
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class Options:
    """Every flag, typed."""

    misc: Annotated[MiscOptions, Group("misc")]
    serving: Annotated[ServingOptions, Group("secure serving")]
    authentication: Annotated[AuthenticationOptions, Group("authentication")]
    authorization: Annotated[AuthorizationOptions, Group("authorization")]
    deprecated: Annotated[DeprecatedOptions, Group("deprecated")]
    leader_election: Annotated[LeaderElectionOptions, Group("leader election")]
    feature_gates: Annotated[FeatureGateOptions, Group("feature gate")]
    metrics: Annotated[MetricsOptions, Group("metrics")]
    logging: Annotated[LoggingOptions, Group("logs")]
    general: Annotated[GlobalOptions, Group("global")]
    trireme: Annotated[TriremeOptions, Group("Trireme")]
    parsed: Parsed = field(default_factory=lambda: Parsed({}, frozenset()))

    @property
    def configuration_files(self) -> list[str]:
        """The paths of the configuration's files that are given."""
        return [path for path in (self.misc.config_file, self.trireme.config_file) if path]

    def with_deprecated(self, config: SchedulerConfiguration) -> SchedulerConfiguration:
        """The configuration with the deprecated flags that were given; they count only without a file."""
        return with_given(config, DeprecatedOptions, self.parsed)

    def with_leader_election(self, config: SchedulerConfiguration) -> SchedulerConfiguration:
        """The configuration with the leader election flags that were given; they take precedence over the file."""
        return with_given(config, LeaderElectionOptions, self.parsed)


@cache
def flag_set() -> FlagSet:
    """Every flag of the frontend."""
    return flag_set_of(Options)


def options_of(parsed: Parsed) -> Options:
    """The settings of a parsed command line."""
    return replace(values_of(Options, parsed), parsed=parsed)


# Flags of older schedulers that no longer exist. They are rejected like any unknown flag; the message names the command
# that writes the configuration that replaces them.

#: Flags with a field in the configuration today.
_CONFIGURED = frozenset(
    {
        "address",
        "algorithm-provider",
        "hard-pod-affinity-symmetric-weight",
        "lock-object-name",
        "lock-object-namespace",
        "policy-config-file",
        "policy-configmap",
        "policy-configmap-namespace",
        "port",
        "scheduler-name",
        "use-legacy-policy-config",
    }
)
#: Flags for the destination and format of logs → whether the flag is a switch.
LOG_FLAGS = MappingProxyType(
    {
        "add-dir-header": True,
        "alsologtostderr": True,
        "experimental-logging-sanitization": True,
        "log-backtrace-at": False,
        "log-dir": False,
        "log-file": False,
        "log-file-max-size": False,
        "logtostderr": True,
        "one-output": True,
        "skip-headers": True,
        "skip-log-headers": True,
        "stderrthreshold": False,
    }
)
#: Flags of other programs' libraries, or without a use any more → whether the flag is a switch.
UNUSED_FLAGS = MappingProxyType(
    {
        "azure-container-registry-config": False,
        "cloud-provider-gce-l7lb-src-cidrs": False,
        "cloud-provider-gce-lb-src-cidrs": False,
        "failure-domains": False,
        "google-json-key": False,
    }
)
OLD_FLAGS = frozenset({*_CONFIGURED, *LOG_FLAGS, *UNUSED_FLAGS})
_UNKNOWN = re.compile(r"unknown flag: --(.*)", re.DOTALL)


def advice_for_unknown_flag(error: str) -> str:
    """The advice for an unknown flag; empty if it never existed."""
    found = _UNKNOWN.fullmatch(error)
    if found is None or found.group(1).replace("_", "-") not in OLD_FLAGS:
        return ""
    return (
        f"--{found.group(1)} is a flag of older schedulers: "
        "`trireme config convert` writes the configuration that replaces it."
    )
