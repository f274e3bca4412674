"""The frontend's flags: every flag of kube-scheduler 1.37 in the sections that its help shows, and Trireme's own.

Names, types, defaults and sections are the interface that manifests rely on; the sentences are ours. Trireme's flags
have a section of their own at the end, so that what is not kube-scheduler's cannot be mistaken for it.
"""

from functools import cache

from trireme.config import gates
from trireme.config.gates import GateStage
from trireme_kube.apimachinery.golang import MINUTE, SECOND, Duration
from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.componentbase.cli import flag_values as kinds
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.cli.flags import Flag, FlagSet, Section
from trireme_kube.componentbase.cli.versions import Effective
from trireme_kube.componentbase.tls import tls_names

PROGRAM = "kube-scheduler"

_IGNORED = "Ignored when --config is given."
_TEN_SECONDS = Duration(10 * SECOND)
_NO_BYTES = Quantity(0)


def _misc_flags() -> Section:
    """Declare the flags of the configuration file and the API server's address."""
    return Section(
        "misc",
        (
            Flag("config", kinds.STRING, "", "File with the KubeSchedulerConfiguration."),
            Flag("write-config-to", kinds.STRING, "", "Write the completed configuration to this file and exit."),
            Flag("master", kinds.STRING, "", "Address of the API server; overrides the kubeconfig's."),
        ),
    )


def _secure_serving_flags() -> Section:
    """Declare the flags of the HTTPS server: address, certificates, ciphers."""
    preferred, insecure = ", ".join(tls_names.PREFERRED_CIPHERS), ", ".join(tls_names.INSECURE_CIPHERS)
    return Section(
        "secure serving",
        (
            Flag(
                "bind-address",
                kinds.IP,
                "0.0.0.0",
                "Address on which --secure-port listens; an unspecified one (0.0.0.0, ::) means all interfaces.",
            ),
            Flag("secure-port", kinds.INT, 10259, "Port that serves HTTPS, with authentication; 0 turns it off."),
            Flag("disable-http2-serving", kinds.BOOL, False, "Serve HTTP/1.1 alone."),
            Flag(
                "cert-dir",
                kinds.STRING,
                "",
                "Directory of the serving certificate, made there when missing; unused with --tls-cert-file.",
            ),
            Flag(
                "tls-cert-file",
                kinds.STRING,
                "",
                "Serving certificate, followed by its chain. Without one a self-signed certificate is made.",
            ),
            Flag("tls-private-key-file", kinds.STRING, "", "Private key of --tls-cert-file."),
            Flag(
                "tls-cipher-suites",
                kinds.STRINGS,
                (),
                "Cipher suites to offer, separated by commas. \n"
                f"Preferred values: {preferred}. \nInsecure values: {insecure}.",
            ),
            Flag(
                "tls-curve-preferences",
                kinds.INT32_LIST,
                (),
                "Numbers of the key exchange mechanisms to allow, in any order: "
                + ", ".join(f"{number} ({name})" for number, name in tls_names.CURVES.items())
                + ".",
            ),
            Flag(
                "tls-min-version",
                kinds.STRING,
                "",
                f"Oldest TLS version to accept. Possible values: {', '.join(tls_names.VERSIONS)}",
            ),
            Flag(
                "tls-sni-cert-key",
                kinds.NAMED_CERT_KEYS,
                (),
                'Certificate and key for some host names, as "file.crt,file.key" or "file.crt,file.key:*.a.com,a.com"; '
                "without names, those of the certificate. Repeat the flag for more pairs.",
            ),
            Flag(
                "http2-max-streams-per-connection",
                kinds.INT,
                0,
                "Most streams in an HTTP/2 connection; 0 leaves it to the server.",
            ),
            Flag("permit-port-sharing", kinds.BOOL, False, "Listen with SO_REUSEPORT: others may share the port."),
            Flag(
                "permit-address-sharing",
                kinds.BOOL,
                False,
                "Listen with SO_REUSEADDR, so that sockets in TIME_WAIT are no hindrance.",
            ),
        ),
    )


def _authentication_flags() -> Section:
    """Declare the flags of how callers of the HTTPS server are identified."""
    return Section(
        "authentication",
        (
            Flag(
                "authentication-kubeconfig",
                kinds.STRING,
                "",
                "kubeconfig of the API server that reviews tokens. Without one, requests with tokens are anonymous.",
            ),
            Flag(
                "authentication-token-webhook-cache-ttl", kinds.DURATION, _TEN_SECONDS, "How long a review is cached."
            ),
            Flag("client-ca-file", kinds.STRING, "", "Authorities whose client certificates identify their callers."),
            Flag(
                "requestheader-username-headers",
                kinds.STRINGS,
                ("x-remote-user",),
                "Headers in which a proxy names the user.",
            ),
            Flag("requestheader-uid-headers", kinds.STRINGS, (), "Headers in which a proxy names the user's UID."),
            Flag(
                "requestheader-group-headers",
                kinds.STRINGS,
                ("x-remote-group",),
                "Headers in which a proxy names the user's groups.",
            ),
            Flag(
                "requestheader-extra-headers-prefix",
                kinds.STRINGS,
                ("x-remote-extra-",),
                "Prefixes of headers in which a proxy adds attributes of the user.",
            ),
            Flag(
                "requestheader-client-ca-file",
                kinds.STRING,
                "",
                "Authorities of the proxies whose headers are trusted.",
            ),
            Flag(
                "requestheader-allowed-names",
                kinds.STRINGS,
                (),
                "Common names of the proxies whose headers are trusted; empty means all.",
            ),
            Flag(
                "authentication-skip-lookup",
                kinds.BOOL,
                False,
                "Do not look for missing authentication settings in the cluster.",
            ),
            Flag(
                "authentication-tolerate-lookup-failure",
                kinds.BOOL,
                True,
                "Continue if the settings cannot be read from the cluster; all callers may then be anonymous.",
            ),
        ),
    )


def _authorization_flags() -> Section:
    """Declare the flags of what callers of the HTTPS server may read."""
    return Section(
        "authorization",
        (
            Flag(
                "authorization-kubeconfig",
                kinds.STRING,
                "",
                "kubeconfig of the API server that reviews access. Without one, what needs a review is forbidden.",
            ),
            Flag(
                "authorization-webhook-cache-authorized-ttl",
                kinds.DURATION,
                _TEN_SECONDS,
                "How long a review that allows a request is cached.",
            ),
            Flag(
                "authorization-webhook-cache-unauthorized-ttl",
                kinds.DURATION,
                _TEN_SECONDS,
                "How long a review that denies a request is cached.",
            ),
            Flag(
                "authorization-always-allow-paths",
                kinds.STRINGS,
                ("/healthz", "/readyz", "/livez"),
                "Paths that everybody may read, without a review.",
            ),
        ),
    )


def _deprecated_flags() -> Section:
    """Declare the deprecated flags; most count only without a configuration file."""
    return Section(
        "deprecated",
        (
            Flag("profiling", kinds.BOOL, True, f"DEPRECATED: serve /debug/pprof/. {_IGNORED}"),
            Flag("contention-profiling", kinds.BOOL, True, f"DEPRECATED: profile blocking, too. {_IGNORED}"),
            Flag("kubeconfig", kinds.STRING, "", f"DEPRECATED: kubeconfig of the API server. {_IGNORED}"),
            Flag(
                "kube-api-content-type",
                kinds.STRING,
                "application/vnd.kubernetes.protobuf",
                f"DEPRECATED: content type of requests to the API server. {_IGNORED}",
            ),
            Flag("kube-api-qps", kinds.FLOAT32, 50.0, f"DEPRECATED: requests a second to the API server. {_IGNORED}"),
            Flag("kube-api-burst", kinds.INT32, 100, f"DEPRECATED: burst of requests to the API server. {_IGNORED}"),
            Flag(
                "pod-max-in-unschedulable-pods-duration",
                kinds.DURATION,
                Duration(5 * MINUTE),
                "DEPRECATED: how long a pod stays parked as unschedulable before it is tried again in any case.",
            ),
        ),
    )


def _leader_election_flags() -> Section:
    """Declare the flags of leader election, which take precedence over the configuration file."""
    only = "Only with leader election."
    return Section(
        "leader election",
        (
            Flag("leader-elect", kinds.BOOL, True, "Schedule only while holding the Lease; needed with replicas."),
            Flag(
                "leader-elect-lease-duration",
                kinds.DURATION,
                Duration(15 * SECOND),
                f"How long a standby waits for a renewal before it takes over. {only}",
            ),
            Flag(
                "leader-elect-renew-deadline",
                kinds.DURATION,
                _TEN_SECONDS,
                f"How long the leader tries to renew before it stops leading; less than the lease. {only}",
            ),
            Flag(
                "leader-elect-retry-period",
                kinds.DURATION,
                Duration(2 * SECOND),
                f"How long to wait between two attempts. {only}",
            ),
            Flag("leader-elect-resource-lock", kinds.STRING, "leases", "Kind of the lock; 'leases' is the only one."),
            Flag("leader-elect-resource-name", kinds.STRING, "kube-scheduler", "Name of the lock."),
            Flag("leader-elect-resource-namespace", kinds.STRING, "kube-system", "Namespace of the lock."),
        ),
    )


def known_gates(effective: Effective = versions.DEFAULT) -> list[str]:
    """The gates that help lists: those of alpha and beta features, with stage and default."""
    table = gates.table()
    lines: list[str] = []
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


def _feature_gate_flags() -> Section:
    """Declare the flags of compatibility versions and feature gates; help lists the gates."""
    component = 'Without a component, "kube" is meant.'
    return Section(
        "feature gate",
        (
            Flag(
                "emulated-version",
                kinds.STRINGS,
                (),
                "Versions to behave as, by component, for example 'kube=1.36', with the defaults of that version."
                f"\nOptions are: kube={versions.emulation_range()}\n{component}",
            ),
            Flag(
                "min-compatibility-version",
                kinds.STRINGS,
                (),
                "Oldest versions in the control plane, by component; not above --emulated-version."
                f"\nOptions are: kube={versions.oldest_peer_range()}\n{component}",
            ),
            Flag(
                "feature-gates",
                kinds.COMPONENT_VALUES,
                {},
                "Features to turn on or off, as component:name=true|false, separated by commas; may be repeated. "
                f"{component} Options are:\n" + "\n".join(known_gates()),
            ),
        ),
    )


def _metrics_flags() -> Section:
    """Declare the flags that hide metrics or limit their labels."""
    return Section(
        "metrics",
        (
            Flag(
                "show-hidden-metrics-for-version",
                kinds.STRING,
                "",
                "Show what that version deprecated; only the previous minor version is taken, as in '1.36'.",
            ),
            Flag("disabled-metrics", kinds.STRINGS, (), "Full names of metrics to switch off."),
            Flag(
                "allow-metric-labels",
                kinds.STRING_MAP,
                {},
                "Values that a label may have, others become 'unexpected'; as metric,label='a,b'.",
            ),
            Flag(
                "allow-metric-labels-manifest",
                kinds.STRING,
                "",
                "File with the same under allowListMapping; not together with --allow-metric-labels.",
            ),
        ),
    )


def _logging_flags() -> Section:
    """Declare the flags of the log's format, level and streams."""
    buffer = "Bytes of info messages to hold back when streams are split; 0 holds none. Needs LoggingAlphaOptions."
    split = "Errors to stderr, the rest to stdout, instead of one stream. Needs LoggingAlphaOptions."
    return Section(
        "logs",
        (
            Flag("logging-format", kinds.STRING, "text", 'Format of the log. Permitted formats: "json", "text".'),
            Flag("log-flush-frequency", kinds.DURATION, Duration(5 * SECOND), "Longest time between two flushes."),
            Flag("v", kinds.LEVEL, 0, "How much to log; 0 is least.", letter="v"),
            Flag("vmodule", kinds.VMODULE, (), "Levels for the files that match a pattern; text format only."),
            Flag("log-text-split-stream", kinds.BOOL, False, f"[Alpha] Text format: {split}"),
            Flag("log-text-info-buffer-size", kinds.QUANTITY, _NO_BYTES, f"[Alpha] Text format: {buffer}"),
            Flag("log-json-split-stream", kinds.BOOL, False, f"[Alpha] JSON format: {split}"),
            Flag("log-json-info-buffer-size", kinds.QUANTITY, _NO_BYTES, f"[Alpha] JSON format: {buffer}"),
        ),
    )


def _global_flags() -> Section:
    """Declare the flags that every Kubernetes component has."""
    return Section(
        "global",
        (
            Flag(
                "version",
                kinds.VERSION,
                "false",
                "Print the version and exit; raw prints all details of the build, vX.Y.Z... reports another one.",
            ),
            Flag("help", kinds.BOOL, False, f"help for {PROGRAM}", letter="h"),
        ),
    )


def _trireme_flags() -> Section:
    """Declare the flags that kube-scheduler does not have."""
    return Section(
        "Trireme",
        (
            Flag(
                "trireme-config",
                kinds.STRING,
                "",
                "File with the TriremeConfiguration: where the phases run, remote plugins, TLS between services.",
                own=True,
            ),
        ),
    )


@cache
def flag_set() -> FlagSet:
    """Every flag of the frontend."""
    return FlagSet(
        (
            _misc_flags(),
            _secure_serving_flags(),
            _authentication_flags(),
            _authorization_flags(),
            _deprecated_flags(),
            _leader_election_flags(),
            _feature_gate_flags(),
            _metrics_flags(),
            _logging_flags(),
            _global_flags(),
            _trireme_flags(),
        )
    )
