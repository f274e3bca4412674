"""The flags as typed settings, and the rules that concern flags alone.

Between the text of the command line (`flags`) and the running program (`CompletedConfig`): each group of flags is one
frozen value with its own check, as in kube-scheduler's options.

Source: k8s.io/apiserver/pkg/server/options, k8s.io/component-base/metrics, k8s.io/component-base/logs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from trireme.config.gates import FeatureGates
from trireme.config.metrics_options import MetricsOptions
from trireme.config.model import ClientConnection, LeaderElection, SchedulerConfiguration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.field_errors import child, forbidden, invalid
from trireme_kube.apimachinery.golang import Duration, quote
from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.componentbase.cli.flag_values import NamedCertKey, VModule
from trireme_kube.componentbase.cli.flags import Parsed

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The HTTPS server."""

    bind_address: str
    secure_port: int
    cert_dir: str
    cert_file: str
    key_file: str
    cipher_suites: tuple[str, ...]
    curve_preferences: tuple[int, ...]
    min_tls_version: str
    sni_cert_keys: tuple[NamedCertKey, ...]
    permit_port_sharing: bool

    @property
    def enabled(self) -> bool:
        """Whether anything is served."""
        return self.secure_port != 0

    def problems(self) -> list[str]:
        """The problems of these flags."""
        if self.secure_port > 65535:
            return [
                f"--secure-port {self.secure_port} must be between 1 and 65535, inclusive. "
                "It cannot be turned off with 0"
            ]
        if self.secure_port < 0:
            return [
                f"--secure-port {self.secure_port} must be between 0 and 65535, inclusive. "
                "0 for turning off secure port"
            ]
        return []


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """Authentication of the HTTPS server's callers."""

    kubeconfig: str
    cache_ttl: Duration
    client_ca_file: str
    request_header_client_ca_file: str
    request_header_username_headers: tuple[str, ...]
    request_header_uid_headers: tuple[str, ...]
    request_header_group_headers: tuple[str, ...]
    request_header_extra_prefixes: tuple[str, ...]
    request_header_allowed_names: tuple[str, ...]
    skip_lookup: bool
    tolerate_lookup_failure: bool

    def problems(self, gates: FeatureGates, log: Log) -> list[str]:
        """The problems of these flags; those that only API aggregation suffers from are logged."""
        found = [
            f"empty value in {quote(flag)}"
            for flag, values in (
                ("requestheader-username-headers", self.request_header_username_headers),
                ("requestheader-group-headers", self.request_header_group_headers),
                ("requestheader-extra-headers-prefix", self.request_header_extra_prefixes),
                ("requestheader-allowed-names", self.request_header_allowed_names),
            )
            if _has_blank(values)
        ]
        for flag, values, standard, what in (
            ("requestheader-username-headers", self.request_header_username_headers, "X-Remote-User", ""),
            ("requestheader-group-headers", self.request_header_group_headers, "X-Remote-Group", ""),
            ("requestheader-extra-headers-prefix", self.request_header_extra_prefixes, "X-Remote-Extra-", " prefix"),
        ):
            if values and not _contains_ignoring_case(values, standard):
                log(
                    f"W --{flag} is set without specifying the standard {standard} header{what} - "
                    "API aggregation will not work"
                )
        return found + self._uid_problems(gates)

    def _uid_problems(self, gates: FeatureGates) -> list[str]:
        """The problems of --requestheader-uid-headers, which needs a feature gate."""
        headers, flag = self.request_header_uid_headers, "requestheader-uid-headers"
        if not gates.enabled("RemoteRequestHeaderUID"):
            rule = f'--{flag} requires the "RemoteRequestHeaderUID" feature to be enabled'
            return [rule] if headers else []
        found = [f"empty value in {quote(flag)}"] if _has_blank(headers) else []
        if headers and not _contains_ignoring_case(headers, "X-Remote-Uid"):
            found.append(
                f"--{flag} is set without specifying the standard X-Remote-Uid header - API aggregation will not work"
            )
        return found


def _has_blank(values: tuple[str, ...]) -> bool:
    """Whether one of the values is blank."""
    return any(not value.strip() for value in values)


def _contains_ignoring_case(values: tuple[str, ...], name: str) -> bool:
    """Whether the name is among the values, in any case of letters."""
    return any(value.lower() == name.lower() for value in values)


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """Authorisation of the HTTPS server's callers."""

    kubeconfig: str
    allow_cache_ttl: Duration
    deny_cache_ttl: Duration
    always_allow_paths: tuple[str, ...]

    def check_paths(self) -> None:
        """Check the paths that need no review. Raises: ConfigurationError: one has a star before its end."""
        for path in self.always_allow_paths:
            stripped = path.removeprefix("/")
            if "*" in stripped[:-1]:
                raise ConfigurationError(f"only trailing * allowed in {quote(stripped)}")


# Logs.


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """The settings of logging."""

    format: str
    verbosity: int
    vmodule: tuple[VModule, ...]
    flush_frequency: Duration
    text_split_stream: bool
    text_info_buffer_size: Quantity
    json_split_stream: bool
    json_info_buffer_size: Quantity

    def problems(self, gates: FeatureGates) -> list[str]:
        """The problems of these flags."""
        found: list[str] = []
        if self.flush_frequency.nanoseconds <= 0:
            found.append(invalid("flushFrequency", self.flush_frequency, "Must be greater than zero"))
        if self.format not in ("text", "json"):
            found.append(invalid("format", self.format, "Unsupported log format"))
        elif self.format == "json" and not gates.enabled("LoggingBetaOptions"):
            found.append(forbidden("format", "Log format json is disabled, see LoggingBetaOptions feature"))
        if self.vmodule and self.format not in ("", "text"):
            found.append(forbidden("vmodule", "Only supported for text log format"))
        if not gates.enabled("LoggingAlphaOptions"):
            disabled = "Feature LoggingAlphaOptions is disabled"
            for name, split, size in (
                ("text", self.text_split_stream, self.text_info_buffer_size),
                ("json", self.json_split_stream, self.json_info_buffer_size),
            ):
                if split:
                    found.append(forbidden(child("options", name, "splitStream"), disabled))
                if size.value() != 0:
                    found.append(forbidden(child("options", name, "infoBufferSize"), disabled))
        return found


# All of them.


@dataclass(frozen=True, slots=True)
class Options:
    """Every flag, typed."""

    config_file: str
    write_config_to: str
    master: str
    trireme_config_file: str
    serving: ServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    metrics: MetricsOptions
    logging: LoggingOptions
    pod_max_in_unschedulable_pods: Duration
    flags: Parsed

    @property
    def configuration_files(self) -> list[str]:
        """The paths of the configuration's files that are given."""
        return [path for path in (self.config_file, self.trireme_config_file) if path]

    def with_deprecated(self, config: SchedulerConfiguration) -> SchedulerConfiguration:
        """The configuration with the deprecated flags that were given; they count only without a file."""
        flags, given = self.flags, self.flags.given
        client: ClientConnection = config.client_connection
        for flag, name in (
            ("kubeconfig", "kubeconfig"),
            ("kube-api-content-type", "content_type"),
            ("kube-api-qps", "qps"),
            ("kube-api-burst", "burst"),
        ):
            if flag in given:
                client = replace(client, **{name: flags[flag]})
        config = replace(config, client_connection=client)
        if "profiling" in given:
            config = replace(config, enable_profiling=flags["profiling"])
        if "contention-profiling" in given:
            config = replace(config, enable_contention_profiling=flags["contention-profiling"])
        return config

    def with_leader_election(self, config: SchedulerConfiguration) -> SchedulerConfiguration:
        """The configuration with the leader election flags that were given; they take precedence over the file."""
        election: LeaderElection = config.leader_election
        for flag, name in (
            ("leader-elect", "leader_elect"),
            ("leader-elect-lease-duration", "lease_duration"),
            ("leader-elect-renew-deadline", "renew_deadline"),
            ("leader-elect-retry-period", "retry_period"),
            ("leader-elect-resource-lock", "resource_lock"),
            ("leader-elect-resource-name", "resource_name"),
            ("leader-elect-resource-namespace", "resource_namespace"),
        ):
            if flag in self.flags.given:
                election = replace(election, **{name: self.flags[flag]})
        return config.with_leader_election(election)


def from_flags(flags: Parsed) -> Options:
    """The settings of a parsed command line."""
    return Options(
        config_file=flags["config"],
        write_config_to=flags["write-config-to"],
        master=flags["master"],
        trireme_config_file=flags["trireme-config"],
        serving=ServingOptions(
            bind_address=flags["bind-address"],
            secure_port=flags["secure-port"],
            cert_dir=flags["cert-dir"],
            cert_file=flags["tls-cert-file"],
            key_file=flags["tls-private-key-file"],
            cipher_suites=flags["tls-cipher-suites"],
            curve_preferences=flags["tls-curve-preferences"],
            min_tls_version=flags["tls-min-version"],
            sni_cert_keys=flags["tls-sni-cert-key"],
            permit_port_sharing=flags["permit-port-sharing"],
        ),
        authentication=AuthenticationOptions(
            kubeconfig=flags["authentication-kubeconfig"],
            cache_ttl=flags["authentication-token-webhook-cache-ttl"],
            client_ca_file=flags["client-ca-file"],
            request_header_client_ca_file=flags["requestheader-client-ca-file"],
            request_header_username_headers=flags["requestheader-username-headers"],
            request_header_uid_headers=flags["requestheader-uid-headers"],
            request_header_group_headers=flags["requestheader-group-headers"],
            request_header_extra_prefixes=flags["requestheader-extra-headers-prefix"],
            request_header_allowed_names=flags["requestheader-allowed-names"],
            skip_lookup=flags["authentication-skip-lookup"],
            tolerate_lookup_failure=flags["authentication-tolerate-lookup-failure"],
        ),
        authorization=AuthorizationOptions(
            kubeconfig=flags["authorization-kubeconfig"],
            allow_cache_ttl=flags["authorization-webhook-cache-authorized-ttl"],
            deny_cache_ttl=flags["authorization-webhook-cache-unauthorized-ttl"],
            always_allow_paths=flags["authorization-always-allow-paths"],
        ),
        metrics=MetricsOptions(
            show_hidden_for_version=flags["show-hidden-metrics-for-version"],
            disabled=flags["disabled-metrics"],
            allowed_labels=flags["allow-metric-labels"] if "allow-metric-labels" in flags.given else None,
            allowed_labels_manifest=flags["allow-metric-labels-manifest"],
        ),
        logging=LoggingOptions(
            format=flags["logging-format"],
            verbosity=flags["v"],
            vmodule=flags["vmodule"],
            flush_frequency=flags["log-flush-frequency"],
            text_split_stream=flags["log-text-split-stream"],
            text_info_buffer_size=flags["log-text-info-buffer-size"],
            json_split_stream=flags["log-json-split-stream"],
            json_info_buffer_size=flags["log-json-info-buffer-size"],
        ),
        pod_max_in_unschedulable_pods=flags["pod-max-in-unschedulable-pods-duration"],
        flags=flags,
    )
