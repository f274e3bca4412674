"""The frontend's start, from its arguments to a `CompletedConfig`, in kube-scheduler's order and with its messages.

`run` does everything that needs no API server: parse, print help or version, set feature gates, load and check the
configuration, prepare the HTTPS server, determine what each profile runs, write the configuration. The caller does the
rest: it gets the `CompletedConfig` and returns the exit code. So everything up to there can be tested in process,
thousands of times, and the frontend's process file stays a few lines.

How an error is reported depends on how far the start got, and tools rely on it: the usage for a malformed command line,
bare lines before logging is set up, a log line after that.

Tests: tests/unit/config/test_start.py, tests/unit/config/test_reloading.py.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from trireme.config import (
    addresses,
    command_flags,
    profiles,
    scheduler_configuration,
    secure_serving,
    trireme_configuration,
)
from trireme.config.command_flags import FeatureGateOptions, Options
from trireme.config.gates import FeatureGates, GateError, from_flags
from trireme.config.leader_election import check_lock, check_timing
from trireme.config.loading import default_configuration, load_file
from trireme.config.profiles import construct_profiles
from trireme.config.scheduler_configuration import CompletedProfile, SchedulerConfiguration
from trireme.config.secure_serving import Lookup, Serving
from trireme.config.telemetry_flags import LoggingOptions
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.framework import release
from trireme.framework.plugin_spec import ExtensionPoint, Registry
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.configuration_files import ConfigurationError, os_error
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.apimachinery.golang import quote, quote_list
from trireme_kube.apimachinery.yaml_writer import write_yaml
from trireme_kube.client.kubeconfig.client_checks import check_connection
from trireme_kube.client.kubeconfig.connection import Connection, connect
from trireme_kube.componentbase import documents, watched_files
from trireme_kube.componentbase.cli import flags, versions
from trireme_kube.componentbase.cli.flags import FlagError
from trireme_kube.componentbase.logs import start_log

#: Implementers: trireme.config.commandline.run.
Log = Callable[[str], None]

_ABOUT = """Trireme is a Kubernetes scheduler built of gRPC microservices: it assigns pods to nodes, and takes
kube-scheduler's configuration, flags and manifests unchanged. This is its frontend, which watches the cluster, keeps
the queue and leads the phases that filter, score and bind; without endpoints it starts them itself."""

#: The line before the last one of a start that fails; the last one is kube-scheduler's.
ADVICE = f"I What to do about it: {documents.THE_FRONTEND_DOES_NOT_START}"

#: The order in which the log shows extension points; `MultiPoint` is expanded by then and always empty.
_LOGGED_POINTS = (
    "PreEnqueue",
    "QueueSort",
    "PreFilter",
    "Filter",
    "PostFilter",
    "PreScore",
    "Score",
    "Reserve",
    "Permit",
    "PreBind",
    "Bind",
    "PostBind",
    "MultiPoint",
    "PlacementGenerate",
    "PlacementScore",
    "PodGroupPostFilter",
)


@dataclass(frozen=True, slots=True)
class CompletedConfig:
    """The complete, checked configuration that the frontend runs with."""

    #: The KubeSchedulerConfiguration, as `--write-config-to` and `/configz` show it.
    configuration: SchedulerConfiguration
    profiles: tuple[CompletedProfile, ...]
    gates: FeatureGates
    options: Options
    #: Trireme's own settings.
    trireme: TriremeConfiguration
    #: The plugins that profiles may name: in-tree ones and remote ones.
    registry: Registry
    connection: Connection
    #: `None` where `--secure-port` is 0.
    serving: Serving | None
    #: The version to report, set by `--version=vX.Y.Z`.
    version: str = versions.KUBERNETES
    #: The profiles that a reload removed: the phases keep them for pods that are being bound, no other pod uses them.
    retired_profiles: frozenset[str] = frozenset()
    #: The configuration's files as they were when they were about to be read at the start.
    files: watched_files.Identity = ()
    #: What the Services of remote plugins stand for now, found while the frontend runs; it outlives reloads.
    discovered: addresses.DiscoveredEndpoints = field(
        default_factory=addresses.DiscoveredEndpoints, compare=False, repr=False
    )

    @property
    def pod_max_in_unschedulable_pods_seconds(self) -> float:
        """How long a pod stays in the unschedulable pool before it is tried again without an event."""
        return self.options.deprecated.pod_max_in_unschedulable_pods.seconds

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The `spec.schedulerName` of the pods that this frontend is responsible for."""
        return frozenset(profile.scheduler_name for profile in self.profiles) - self.retired_profiles

    def document(self) -> dict[str, Any]:
        """The configuration as `/configz` shows it."""
        return scheduler_configuration.to_document(self.configuration)


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """The outcome of a start. `stage` is the step that ended it; empty after success."""

    code: int
    stage: str = ""
    error: str = ""
    #: `usage`, `plain` or `log`.
    reported: str = ""
    completed: CompletedConfig | None = field(default=None, repr=False)


class _StartStopped(Exception):
    """Ends the start, with or without an error: help was shown, or something is wrong; holds the outcome."""

    def __init__(self, outcome: StartOutcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


@dataclass(slots=True)
class Start:
    """One start; `environment`, streams and log come from the caller."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    stdout: TextIO
    stderr: TextIO
    log: Log
    columns: int = 0
    #: Reads authentication settings from the cluster; `None`: the caller does that later.
    lookup: Lookup | None = None
    #: Called with the log format as soon as it is known.
    on_logging: Callable[[LoggingOptions], None] = lambda _options: None

    def run(self) -> StartOutcome:
        """Run everything that needs no API server."""
        try:
            return StartOutcome(0, completed=self._configure_from_flags())
        except _StartStopped as stopped:
            return stopped.outcome

    def _log_failure(self, stage: str, error: str) -> _StartStopped:
        """Log why the start fails; return the exception that ends it with exit code 1."""
        self.log(ADVICE)
        self.log(f'E "command failed" err={start_log.format_value(error)}')
        return _StartStopped(StartOutcome(1, stage, error, "log"))

    # The command line.

    def _parse_flags(self) -> Options:
        """The flags of the command line.

        An unknown flag or a malformed value ends the start, with advice for old flags.
        """
        flag_set = command_flags.flag_set()
        usage = flags.usage(command_flags.PROGRAM, flag_set, self.columns)
        try:
            parsed = flags.parse(flag_set, self.arguments)
        except FlagError as error:
            hint = command_flags.advice_for_unknown_flag(str(error))
            if hint:
                self.stderr.write(f"{hint}\n\n")
            self.stderr.write(f"{usage}\nError: {error}\n")
            raise _StartStopped(StartOutcome(1, "load", str(error), "usage")) from error
        if parsed["help"]:
            about = flags.wrapped(_ABOUT.replace("\n", " "), self.columns) if self.columns else _ABOUT
            self.stdout.write(f"{about}\n\n{usage}")
            raise _StartStopped(StartOutcome(0))
        if any(parsed.positional):
            arguments = quote_list(parsed.positional)
            text = f'"{command_flags.PROGRAM}" does not take any arguments, got {arguments}'
            self.stderr.write(f"Error: {text}\n")
            raise _StartStopped(StartOutcome(1, "load", text, "usage"))
        return command_flags.options_of(parsed)

    def _parse_gates(self, options: FeatureGateOptions) -> FeatureGates:
        """The feature gates of the flags; invalid ones end the start."""
        try:
            result = from_flags(options.emulated_version, options.min_compatibility_version, options.feature_gates)
        except ValueError as error:
            if isinstance(error, GateError):
                for line in error.logs:
                    self.log(line)
            raise self._log_failure("load", str(error)) from error
        for line in result.logs:
            self.log(line)
        return result.gates

    def _print_or_choose_version(self, version: str) -> str:
        """Print the version if requested; else return the one to report."""
        if version == "true":
            self.stdout.write(f"Kubernetes {versions.KUBERNETES}\n")
        elif version == "raw":
            self.stdout.write(f"{release.build_information()}\n")
        else:
            return version if version.startswith("v") else versions.KUBERNETES
        raise _StartStopped(StartOutcome(0))

    # The configuration.

    def _default_if_flags_valid(self, settings: Options, gates: FeatureGates) -> SchedulerConfiguration:
        """Return the default configuration; problems of it and of all flags end the start, together."""
        config = default_configuration(gates)
        problems = gates.effective.problems()
        if gates.effective.emulated < versions.BINARY.minor and gates.experimental():
            self.log(
                "W component has alpha features enabled in emulated version, this is unsupported: "
                f"features=[{' '.join(gates.experimental())}]"
            )
        problems.extend(scheduler_configuration.validate(config, gates))
        problems.extend(settings.serving.problems())
        problems.extend(settings.authentication.problems(gates, self.log))
        problems.extend(settings.metrics.problems())
        if problems:
            raise self._log_failure("load", join_messages(problems))
        return config

    def _configure_from_flags(self) -> CompletedConfig:
        """Everything from the flags to the checked configuration; logging is set up as soon as its flags are known."""
        settings = self._parse_flags()
        gates = self._parse_gates(settings.feature_gates)
        version = self._print_or_choose_version(settings.general.version)
        problems = settings.logging.problems(gates)
        if problems:
            text = join_messages(problems)
            self.stderr.write(f"{text}\n")
            raise _StartStopped(StartOutcome(1, "load", text, "plain"))
        self.on_logging(settings.logging)
        if settings.logging.verbosity >= 1:
            for line in flags.dump(command_flags.flag_set(), settings.parsed):
                self.log(f"I {line}")
        default = self._default_if_flags_valid(settings, gates)
        try:
            certificate = secure_serving.default_certificate(settings.serving, self.log)
            files = watched_files.WatchedFiles(settings.configuration_files).identity()
            config = load_configuration(settings, gates, default, self.log)
            trireme = trireme_configuration.load(settings.trireme.config_file)
            connection = connect(config.client_connection.kubeconfig, settings.misc.master, self.environment, self.log)
            served = secure_serving.prepare_serving(
                certificate,
                settings.authentication,
                settings.authorization,
                self.environment,
                self.log,
                self.lookup,
            )
            settings.metrics.warn_of_labels(self.log)
        except ConfigurationError as error:
            raise self._log_failure("load", str(error)) from error
        try:
            completed = self._construct_profiles(
                config, trireme, settings=settings, gates=gates, connection=connection, served=served, version=version
            )
            return replace(completed, files=files)
        except _StartStopped:
            if served:
                served.listener.close()
            raise

    def _construct_profiles(
        self,
        config: SchedulerConfiguration,
        trireme: TriremeConfiguration,
        *,
        settings: Options,
        gates: FeatureGates,
        connection: Connection,
        served: Serving | None,
        version: str,
    ) -> CompletedConfig:
        """Determine what each profile runs; with `--write-config-to`, write the configuration and end."""
        try:
            check_connection(connection, qps=config.client_connection.qps, burst=config.client_connection.burst)
            check_lock(config.leader_election)
        except ConfigurationError as error:
            raise self._log_failure("load", str(error)) from error
        settings.metrics.log_deprecated_metrics(gates, self.log)
        verbose = settings.logging.verbosity >= 2
        try:
            registry = trireme_configuration.registry_with_remote_plugins(IN_TREE, trireme)
            constructed = construct_profiles(config, registry, gates, self.log, verbose=verbose)
        except ConfigurationError as error:
            raise self._log_failure("construct", str(error)) from error
        completed = CompletedConfig(
            constructed.configuration,
            profiles.add_canaries_to_profiles(constructed.profiles, trireme),
            gates.with_corrections(trireme.corrected),
            settings,
            trireme,
            registry,
            connection,
            served,
            version,
        )
        if verbose:
            self._log_profiles(completed.profiles)
        if verbose or settings.misc.write_config_to:
            self._write_configuration(settings.misc.write_config_to, completed, verbose=verbose)
        try:
            check_timing(config.leader_election)
        except ConfigurationError as error:
            raise self._log_failure("run", str(error)) from error
        return completed

    def _log_profiles(self, profiles: Sequence[CompletedProfile]) -> None:
        """Log the plugins of each profile, as kube-scheduler does."""
        for profile in profiles:
            shown = golang.json_text(plugin_lists(profile))
            self.log(f'I "the scheduler starts to work with those plugins" Plugins={shown}')

    def _write_configuration(self, path: str, completed: CompletedConfig, *, verbose: bool) -> None:
        """Write the configuration to `path`, and end the program then; `verbose` logs it, without secrets.

        An empty path: nothing is written, and the start goes on.
        """
        try:
            document = completed.document()
        except ValueError as error:  # a number without a JSON form
            raise self._log_failure("write", str(error)) from error
        text = write_yaml(document)
        if verbose:
            shown = start_log.format_value(write_yaml(without_secrets(document)))
            self.log(f'I "Using component config" config={shown}')
        if not path:
            return
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._log_failure("write", f"open {path}: {os_error(error)}") from error
        self.log(f'I "Wrote configuration" file={quote(path)}')
        if completed.serving:
            completed.serving.listener.close()
        raise _StartStopped(StartOutcome(0, completed=completed))


def load_configuration(
    settings: Options, gates: FeatureGates, default: SchedulerConfiguration, log: Log
) -> SchedulerConfiguration:
    """The configuration of the file, or the default one, with the flags that count. Raises: ConfigurationError."""
    if not settings.misc.config_file:
        return settings.with_leader_election(settings.with_deprecated(default))
    config = settings.with_leader_election(load_file(settings.misc.config_file, gates, log))
    problems = scheduler_configuration.validate(config, gates)
    if problems:
        raise ConfigurationError(join_messages(problems))
    return config


def plugin_lists(profile: CompletedProfile) -> dict[str, dict[str, object]]:
    """The plugins of a profile by extension point, as the log and `trireme config print` show them."""
    return {
        label: {
            "Enabled": [
                {"Name": plugin.name, "Weight": plugin.weight}
                for point in ExtensionPoint
                if point.label == label
                for plugin in profile.plugins[point]
            ]
            or None,
            "Disabled": None,
        }
        for label in _LOGGED_POINTS
    }


def without_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration for logs: without the private keys of extenders."""
    shown = dict(document)
    extenders: list[dict[str, Any]] = []
    for extender in document.get("extenders") or ():
        tls = extender.get("tlsConfig")
        if tls and tls.get("keyData"):
            extender = {**extender, "tlsConfig": {**tls, "keyData": "REDACTED"}}
        extenders.append(extender)
    if extenders:
        shown["extenders"] = extenders
    return shown


def run(
    arguments: Sequence[str],
    *,
    build: Callable[[CompletedConfig], int],
    environment: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    log: Log | None = None,
    lookup: Lookup | None = None,
) -> int:
    """Run the program: `build` gets the completed configuration and returns the exit code."""
    error_stream = stderr or sys.stderr
    output = stdout or sys.stdout
    lines = start_log.StartLog(error_stream)

    def use_log_format(logging: LoggingOptions) -> None:
        """Write further lines in the format that the flags name."""
        lines.format = logging.format

    columns = shutil.get_terminal_size((0, 0)).columns if output.isatty() else 0
    start = Start(
        arguments=arguments,
        environment=os.environ if environment is None else environment,
        stdout=output,
        stderr=error_stream,
        log=log or lines.write,
        columns=columns,
        lookup=lookup,
        on_logging=use_log_format,
    )
    outcome = start.run()
    if outcome.code == 0 and outcome.completed is not None and not outcome.completed.options.misc.write_config_to:
        return build(outcome.completed)
    return outcome.code
