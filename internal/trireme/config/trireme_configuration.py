"""Trireme's own settings: TriremeConfiguration, in its own API group and its own file.

A KubeSchedulerConfiguration stays exactly kube-scheduler's, so that a stock file works unchanged and can be taken back.
Settings that only Trireme has (where the phases run, remote plugins, TLS between the services, batches) are in the file
that `--trireme-config` names. Without that file everything has a working default: one bind as a child of the frontend,
and one filter and one score as children too, or in its own process where there are few processors.

Each setting is declared once, here: name, type, default, help and rules. Decoding, `docs/configuration.md` and the
schema for editors follow from it; those of remote plugins and of TLS are in `remote_plugin_settings.py` and
`service_tls.py`. A setting that only a restart changes is marked `Change.AT_RESTART`. The rules that
matter most are about trust: a bind service writes to the cluster, so one beyond this machine needs mutual TLS.

Also change: deploy/chart/templates/_helpers.tpl, deploy/chart/templates/_plugins.tpl,
internal/trireme/config/remote_plugin_settings.py,
internal/trireme/config/service_tls.py (fields of TriremeConfiguration).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from trireme.config import loading
from trireme.config.addresses import (
    RESOLVED,
    address_problem,
    are_addresses,
    is_local,
    is_service,
)
from trireme.config.remote_plugin_settings import RemotePlugin, with_canaries
from trireme.config.service_tls import TLS, are_identities
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Registry
from trireme_kube.apimachinery import configuration_files, declaration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.declaration import AtLeast, AtMost, Change, OneOf
from trireme_kube.apimachinery.field_errors import (
    Problem,
    child,
    duplicate,
    index,
    invalid,
    join_messages,
    required,
)
from trireme_kube.apimachinery.golang import MILLISECOND, SECOND, Duration
from trireme_kube.apimachinery.strict_decoding import DURATION, DecodeError, decode
from trireme_kube.componentbase import processors

API_GROUP = "trireme.dev"
# Also change: internal/trireme/cli/scenario_file.py (the type of this document).
API_VERSION = f"{API_GROUP}/v1alpha1"
KIND = "TriremeConfiguration"

PHASES = ("filter", "score", "bind")
#: The upper bound of `batch.maxPods`: a batch is in one message, some 3 KiB for each pod, and plugins take 16 MiB.
MAX_BATCH_PODS = 5_000
#: Where the id of a trace is put in a URL.
TRACE_ID = "{traceID}"
WAKE = "Wake"
REPORT = "Report"
SAMPLE = "Sample"
OFF = "Off"
TEXT = "Text"
JSON = "JSON"
CORRECTED = "Corrected"
KUBERNETES = "Kubernetes"
AUTO = "Auto"
IN_PROCESS = "InProcess"
CHILDREN = "Children"

_NONE = Duration()
_NO_TLS = TLS()


# Rules of single settings.

_POSITIVE = AtLeast(1, "must be greater than zero")
_LASTING = AtLeast(Duration(1), "must be greater than zero")


def _is_listening_address(path: str, listen: str) -> list[Problem]:
    """An address on which this machine can listen; empty: none."""
    if listen and (address_problem(listen) or listen.startswith(RESOLVED)):
        return [invalid(path, listen, "must be unix:/path or host:port")]
    return []


def _is_socket_path(path: str, socket: str) -> list[Problem]:
    """A Unix socket; empty: none."""
    if socket and not socket.startswith("/"):
        return [invalid(path, socket, "must be the absolute path of a Unix socket")]
    return []


# Settings.


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a phase runs."""

    endpoints: Annotated[
        tuple[str, ...],
        "`host:port`, `unix:/path`, `dns:///name:port` (every address of the name), or",
        "`endpointslice:///namespace/service:port` (every ready endpoint of the Service). Empty: the frontend's own.",
        are_addresses,
    ] = ()
    local_replicas: Annotated[
        int,
        "How many the frontend starts if there are no endpoints, or none that answers.",
        _POSITIVE,
    ] = 1
    deadline: Annotated[Duration, "The deadline of a call.", _LASTING] = Duration(30 * SECOND)
    allowed_identities: Annotated[
        tuple[str, ...],
        "Replaces `tls.allowedIdentities` for this phase; empty: those of `tls`.",
        are_identities,
    ] = ()


# On so many processors or fewer, calls between processes cost more than they gain.
_FEW_PROCESSORS = 4


def has_few_processors() -> bool:
    """Whether processes beside this one compute in turns rather than side by side."""
    return processors.usable() <= _FEW_PROCESSORS


@dataclass(frozen=True, slots=True)
class Phases:
    """Where filter, score and bind run."""

    local: Annotated[
        str,
        "How the phases run that have no endpoints, or none that answers. `InProcess`: in the frontend's own process;",
        "`Children`: in processes of their own. `Auto`: in its process on up to four processors, but for a phase with",
        "`localReplicas` of more than 1.",
        OneOf((AUTO, IN_PROCESS, CHILDREN)),
        Change.AT_RESTART,
    ] = AUTO
    filter: Annotated[Phase, "Where filter runs.", Change.AT_RESTART] = Phase()
    score: Annotated[Phase, "Where score runs.", Change.AT_RESTART] = Phase()
    # The deadline of Permit, PostBind and each PreBind plugin; Bind and Apply last until the replica is silent.
    bind: Annotated[Phase, "Where bind runs.", Change.AT_RESTART] = Phase(deadline=Duration(60 * SECOND))

    def in_process(self, name: str) -> bool:
        """Whether this phase runs in the frontend's own process where it has no endpoint, or none that answers."""
        phase: Phase = getattr(self, name)
        return self.local == IN_PROCESS or (self.local == AUTO and phase.local_replicas == 1 and has_few_processors())

    def problems(self, path: str) -> Iterable[Problem]:
        """Several replicas where there can be one."""
        for name, phase in (("filter", self.filter), ("score", self.score), ("bind", self.bind)):
            if self.local == IN_PROCESS and phase.local_replicas > 1:
                where = child(path, name, "localReplicas")
                yield invalid(where, phase.local_replicas, f"must be 1 where {child(path, 'local')} is {IN_PROCESS}")


@dataclass(frozen=True, slots=True)
class Insight:
    """Where insight runs, which explains pods and is not needed for scheduling."""

    endpoints: Annotated[
        tuple[str, ...],
        "As those of a phase. Empty: there is none, and `trireme explain` shows what filter last answered.",
        are_addresses,
    ] = ()
    deadline: Annotated[Duration, "The deadline of a call.", _LASTING] = Duration(10 * SECOND)
    allowed_identities: Annotated[
        tuple[str, ...],
        "Replaces `tls.allowedIdentities` for insight; empty: those of `tls`.",
        are_identities,
    ] = ()
    missed_wake_ups: Annotated[
        str,
        "What happens to waiting pods that insight finds to fit though no event has woken them (requeueing.md).",
        "`Wake`: they are tried again at once; `Report`: they are counted and shown, and wait on.",
        OneOf((WAKE, REPORT)),
    ] = WAKE
    self_check: Annotated[
        str,
        "Whether insight makes decisions again where it records, to find those that differ (recording.md). `Sample`:",
        "some of them, in 1 % of a processor; `Off`: none.",
        OneOf((SAMPLE, OFF)),
    ] = SAMPLE


@dataclass(frozen=True, slots=True)
class Fallback:
    """What happens when no endpoint of a phase answers."""

    mode: Annotated[
        str,
        "`local`: the frontend has a phase of its own until an endpoint answers again; `none`: pods wait.",
        OneOf(("local", "none")),
    ] = "local"
    after: Annotated[Duration, "The time without an answer from any endpoint after which this happens.", _LASTING] = (
        Duration(30 * SECOND)
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """How pods of one class are scheduled together."""

    max_pods: Annotated[
        int,
        f"Most pods in a batch; at most {MAX_BATCH_PODS}.",
        _POSITIVE,
        AtMost(MAX_BATCH_PODS, f"must not be greater than {MAX_BATCH_PODS}"),
    ] = 100
    linger: Annotated[
        Duration,
        "The longest time that a pod waits, under load, for more pods of its class to share its batch.",
        AtLeast(_NONE, "must be zero or positive"),
    ] = Duration(500 * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Handle:
    """HandleService, which plugins call."""

    listen: Annotated[
        str,
        "Where the frontend serves HandleService to plugins (`unix:/path` or `host:port`); empty: nowhere. Beyond",
        "loopback it takes mutual TLS, and the identities below.",
        _is_listening_address,
        Change.AT_RESTART,
    ] = ""
    allowed_identities: Annotated[
        tuple[str, ...],
        "Names (URI, DNS name, common name), one of which a plugin's certificate must have.",
        Change.AT_RESTART,
    ] = ()


@dataclass(frozen=True, slots=True)
class Admin:
    """What the frontend serves to its own user."""

    socket: Annotated[
        str,
        "The Unix socket on which the frontend serves its state to its own user; empty: none.",
        _is_socket_path,
        Change.AT_RESTART,
    ] = ""


@dataclass(frozen=True, slots=True)
class Reload:
    """How a changed configuration is put in force while the frontend runs."""

    # A reload that changes it goes by the new value: one that was refused for lack of time needs no restart.
    list_deadline: Annotated[
        Duration,
        "How long a reload waits until all pods and nodes are listed again, with the unit (`10m`). After that, it is",
        "refused if its plugins read more of them than before; pods of a new profile or share follow later.",
        _LASTING,
    ] = Duration(120 * SECOND)


def _names_trace(path: str, url: str) -> list[Problem]:
    """A URL with a place for the id of a trace; empty: none."""
    if url and not (url.startswith(("https://", "http://")) and TRACE_ID in url):
        return [invalid(path, url, f"must be an http:// or https:// URL with {TRACE_ID} in it")]
    return []


@dataclass(frozen=True, slots=True)
class Tracing:
    """Traces of pods. Whether they are exported, and where to, is up to the variables OTEL_* of each process."""

    slow_attempt: Annotated[
        Duration,
        "Attempts that take as long are traced whether their pods are sampled or not.",
        _LASTING,
    ] = Duration(5 * SECOND)
    url: Annotated[
        str,
        f"Where people see a trace, with `{TRACE_ID}` for its id: `trireme explain` prints it. Empty: the id alone.",
        _names_trace,
    ] = ""
    store_url: Annotated[
        str,
        f"Where `trireme trace` reads a trace as OTLP JSON, with `{TRACE_ID}` for its id: of Jaeger",
        f"`http://jaeger:16686/api/v3/traces/{TRACE_ID}`, of Tempo `http://tempo:3200/api/traces/{TRACE_ID}`.",
        _names_trace,
    ] = ""


@dataclass(frozen=True, slots=True)
class TriremeConfiguration:
    """Trireme's own settings."""

    phases: Annotated[Phases, "Where filter, score and bind run."] = Phases()
    insight: Annotated[Insight, "Where insight runs.", Change.AT_RESTART] = Insight()
    fallback: Annotated[Fallback, "What happens when no endpoint of a phase answers.", Change.AT_RESTART] = Fallback()
    remote_plugins: Annotated[tuple[RemotePlugin, ...], "Plugins that are services of their own."] = ()
    tls: Annotated[
        TLS,
        "TLS for the frontend's calls to the services; the frontend presents the same certificate to its own callers.",
        Change.AT_RESTART,
    ] = _NO_TLS
    batch: Annotated[Batch, "How pods of one class are scheduled together."] = Batch()
    handle: Annotated[Handle, "HandleService, which plugins call."] = Handle()
    admin: Annotated[Admin, "What the frontend serves to its own user."] = Admin()
    reload: Annotated[Reload, "How a changed configuration is put in force while the frontend runs."] = Reload()
    tracing: Annotated[Tracing, "Traces of pods by OpenTelemetry.", Change.AT_RESTART] = Tracing()
    compatibility: Annotated[
        str,
        "`Corrected`: where users reported that kube-scheduler decides wrongly, and its newest release still does,",
        "Trireme decides rightly. `Kubernetes`: it decides as that release. kubernetes-versions.md lists the cases.",
        OneOf((CORRECTED, KUBERNETES)),
        Change.AT_RESTART,
    ] = CORRECTED
    condition_message: Annotated[
        str,
        "What the message of the condition PodScheduled, or of a pod group's, is: `Text`, as kube-scheduler's, or",
        "`JSON` of that text as `message`, and `reasons` with `plugin`, `code`, `parameters` and `nodes`",
        "(reference/reason-codes.md).",
        OneOf((TEXT, JSON)),
        Change.AT_RESTART,
    ] = TEXT
    column_cache_classes: Annotated[
        int, "How many recent classes' columns a replica of filter and score caches.", _POSITIVE
    ] = 256

    @property
    def corrected(self) -> bool:
        """Whether Trireme departs from the newest kube-scheduler where that is known to be wrong."""
        return self.compatibility == CORRECTED

    @property
    def handle_has_tls(self) -> bool:
        """Whether HandleService is served with mutual TLS; else it is for callers on this machine alone."""
        listen = self.handle.listen
        return bool(listen) and not listen.startswith("unix:") and self.tls.mutual

    def phase(self, name: str) -> Phase:
        """One of `filter`, `score` and `bind`."""
        return {"filter": self.phases.filter, "score": self.phases.score, "bind": self.phases.bind}[name]

    def identities(self, name: str) -> tuple[str, ...]:
        """Whom the frontend expects at the endpoints of a phase, or of `insight`."""
        own = self.insight if name == "insight" else self.phase(name)
        return own.allowed_identities or self.tls.allowed_identities

    def remote_plugin(self, name: str) -> RemotePlugin | None:
        """The remote plugin of that name."""
        return next((plugin for plugin in self.remote_plugins if plugin.name == name), None)

    def problems(self, path: str) -> Iterable[Problem]:
        """Services without the TLS settings that they need, and remote plugins with one name."""
        for name in PHASES:
            yield from self._identity_problems(child(path, "phases", name), name, self.phase(name))
        yield from self._identity_problems(child(path, "insight"), "insight", self.insight)
        if not self.tls.mutual:
            for endpoint in self.phases.bind.endpoints:
                if not is_local(endpoint):
                    yield required("tls", f"{endpoint} of phases.bind is beyond loopback and Unix sockets")
        yield from self._handle_problems()
        names: set[str] = set()
        for position, plugin in enumerate(self.remote_plugins):
            where = index("remotePlugins", position)
            yield from self._plugin_identity_problems(where, plugin)
            if plugin.name in names:
                yield duplicate(child(where, "name"), plugin.name)
            names.add(plugin.name)

    def _identity_problems(self, path: str, name: str, service: Phase | Insight) -> Iterable[Problem]:
        """Whom the frontend expects where a service runs: certificates take TLS, and Services take identities."""
        if service.allowed_identities and not self.tls.enabled:
            yield required("tls", f"{path}.allowedIdentities are those of certificates")
        if self.tls.enabled and not self.identities(name):
            for endpoint in dict.fromkeys(service.endpoints):
                if endpoint.startswith(RESOLVED) and not address_problem(endpoint):
                    why = f"no certificate names the addresses that {endpoint} stands for"
                    yield required(child(path, "allowedIdentities"), why)

    def _plugin_identity_problems(self, path: str, plugin: RemotePlugin) -> Iterable[Problem]:
        """Whom to expect at a plugin's endpoints and as its caller, where TLS is configured."""
        tls = self.tls if plugin.tls is None else plugin.tls
        services = [address for address in (*plugin.endpoints, *plugin.canary.endpoints) if is_service(address)]
        if services and tls.enabled and not tls.allowed_identities:
            why = f"no certificate names the addresses that {services[0]} stands for"
            yield required(child(path, "tls", "allowedIdentities"), why)
        if self.handle_has_tls and ExtensionPoint.PERMIT in plugin.extension_points and not plugin.caller_identities:
            why = "handle.listen has TLS, and a plugin with permit is known there by its certificate"
            yield required(child(path, "handleIdentities"), why)

    def _handle_problems(self) -> Iterable[Problem]:
        """HandleService needs TLS and identities where others can connect to it."""
        listen = self.handle.listen
        if not listen or _is_listening_address("", listen) or is_local(listen):
            return
        why = f"{listen} is beyond loopback and Unix sockets"
        if not self.tls.mutual:
            yield required("tls", why)
        if not self.handle.allowed_identities:
            yield required("handle.allowedIdentities", why)


# From a file.


def load(path: str) -> TriremeConfiguration:
    """Read a file; without one, the defaults.

    Raises: ConfigurationError: it cannot be read, decoded or used; the message names the file.
    """
    if not path:
        return TriremeConfiguration()
    data = configuration_files.read_file(path)
    try:
        return parse(data)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}", [f"{path}: {problem}" for problem in error.problems]) from error


def parse(data: bytes) -> TriremeConfiguration:
    """Decode and check a configuration, as strictly as a KubeSchedulerConfiguration.

    Raises: ConfigurationError: it cannot be decoded, or something in it is invalid.
    """
    source = loading.parse(data)
    kind = configuration_files.read_kind(source.node)
    if (kind.api_version, kind.kind) != (API_VERSION, KIND):
        if not kind.kind or not kind.version:
            raise ConfigurationError(f"apiVersion must be {API_VERSION} and kind {KIND}")
        raise ConfigurationError(configuration_files.not_registered(kind))
    try:
        decoded = decode(source.node, declaration.schema_of(TriremeConfiguration, is_object=True))
    except DecodeError as error:
        raise ConfigurationError(_decode_error_text(error)) from error
    strict = [source.duplicates] * bool(source.duplicates) + list(decoded.strict)
    if strict:
        raise ConfigurationError(loading.strict_error(strict), loading.strict_problems(strict))
    config: TriremeConfiguration = declaration.read(TriremeConfiguration, decoded.value)
    problems = declaration.problems_of(config)
    if problems:
        raise ConfigurationError(join_messages(problems), problems)
    return replace(config, remote_plugins=with_canaries(config.remote_plugins))


def _decode_error_text(error: DecodeError) -> str:
    """The error for people who write this file: it is no Go program's."""
    if error.expected == DURATION:
        wanted = 'a duration with its unit, such as "30s" or "1m30s"'
    elif error.expected == "string":
        wanted = "a string"
    elif error.expected.startswith("int"):
        wanted = f"an integer of {error.expected.removeprefix('int')} bits"
    else:
        wanted = "a list" if error.expected.startswith("[]") else "an object"
    return f"{error.field}: must be {wanted}, not {error.found}"


# Remote plugins in profiles.


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
