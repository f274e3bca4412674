"""Random command lines: every flag with values that its type may and may not have, and lines that are no such.

`case` draws one from a source of chance alone. Each names a file for `--write-config-to`, so that a scheduler that
accepts all of the others ends there and does not begin to run.
"""

import random

from tests.conformance.config.drawn_files import Case
from trireme.config import command_flags
from trireme.config.gates import FeatureGates
from trireme_kube.componentbase.tls import tls_names

Draw = random.Random

TEXTS = ("", "x", "a b", "a,b", '"', "=", "é", "a=b", "-1", "true", "{DIR}/none", "two\nlines", '"a,b"', ",", " ")
BOOLS = ("true", "false", "1", "0", "t", "F", "True", "FALSE", "tRue", "yes", "", "2", " true")
NUMBERS = (
    *("0", "1", "-1", "+1", "65535", "65536", "10259", "2147483647", "2147483648", "-2147483649", "0x10", "0b1", "010"),
    *(
        "0o7",
        "1_000",
        "1.5",
        "1e3",
        "",
        " 1",
        "x",
        "9223372036854775807",
        "9223372036854775808",
        "08",
        "--1",
        "0_8",
        "_1",
    ),
    *("1__0", "0x", "0X_f", "٣"),
)
FLOATS = (
    *NUMBERS,
    "inf",
    "-Inf",
    "NaN",
    "1e39",
    "1e-50",
    ".5",
    "5.",
    "0x1p-2",
    "1e400",
    "+infinity",
    "1_0.5",
    "e5",
    ".",
)
DURATIONS = (
    *(
        "1s",
        "0",
        "0s",
        "-1s",
        "+5s",
        "1m30s",
        "1.5h",
        ".5s",
        "1us",
        "1µs",
        "1μs",
        "1d",
        "",
        "s",
        "5",
        "1h-1m",
        " 1s",
        "1s ",
    ),
    *(
        "9223372036s",
        "9223372037s",
        "-9223372036.854775808s",
        "1e3s",
        "1ns",
        "999ms",
        "100000h",
        "2562048h",
        "1.s",
        "1S",
    ),
)
ADDRESSES = (
    *("0.0.0.0", "127.0.0.1", "::", "::1", "x", "", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "::ffff:1.2.3.4"),
    *(
        " 127.0.0.1",
        "fe80::1%lo",
        "[::1]",
        "127.0.0.1:80",
        "2001:DB8:0:0::1",
        "1::2::3",
        "::1.2.3.4",
        "0::0",
        "00000::1",
    ),
)
QUANTITIES = (
    *(
        "0",
        "1",
        "1Ki",
        "1k",
        "1.5Gi",
        "-1",
        "1e3",
        "1E",
        "1x",
        "",
        "Ki",
        "1 Ki",
        "0.5",
        "1m",
        "1n",
        "10u",
        "1Ei",
        "9Ei",
    ),
    *("+1", ".5", "5.", "1e", "1i", "0x1", "100M", "1.123456789Ki"),
)
VERSIONS = (
    *(
        "1.37",
        "1.36",
        "1.35",
        "1.34",
        "1.33",
        "1.38",
        "v1.36",
        "1.36.0",
        "1.36.5",
        "kube=1.36",
        "kube=v1.35",
        "x=1.36",
        "1",
    ),
    *(
        "",
        "x",
        "1.x",
        "kube=",
        "=1.36",
        "1.36-alpha",
        "v",
        "1.36.1.2",
        "01.36",
        "kube=1.36,kube=1.35",
        "1.36,1.35",
        " 1.36",
    ),
    *("kube:1.36", "1.36+x", "kube=1.36=2"),
)
LEVELS = ("0", "1", "-1", "+1", "x", "", "1.5", "2147483648", "0x1", "1_0", "٣")
MODULES = (
    "a=1",
    "a=1,b*=2",
    "a",
    "=1",
    "a=x",
    "a=-1",
    "",
    "a=1,",
    ",",
    "a=0",
    "a=1=2",
    "x*=3",
    "a b=1",
    "[=1",
    "a=",
    "a=1,b",
)
SUITES = (
    *tls_names.PREFERRED_CIPHERS[:3],
    *tls_names.INSECURE_CIPHERS[:2],
    "TLS_FOO",
    "",
    "tls_rsa",
    "TLS_AES_128_GCM_SHA256",
)
TLS_VERSIONS = (*tls_names.VERSIONS, "VersionTLS14", "x", "versiontls12", "VersionTLS09", "VersionSSL30", "1.2")
CURVES = ("29", "23,24", "x", "", "29,", "0", "-1", "4588", "29,29", "99999999999", "1,2,3", "X25519", "65536", " 29")
PAIRS = (
    *("{DIR}/a.crt,{DIR}/a.key", "{DIR}/tls.crt,{DIR}/tls.key", "{DIR}/tls.crt,{DIR}/tls.key:*.a.com,b.com", "a", ""),
    *("a,b,c", "a,b:", ",", "a,", ":x", "a,b:x:y", "{DIR}/tls.crt,{DIR}/tls.key:", "{DIR}/tls.crt,{DIR}/tls.key:A b"),
)
LABELS = (
    *(
        "a,b=c",
        "a,b=c,d",
        "a=b",
        "",
        "a,b=",
        "x",
        '"a,b=c,d"',
        "a,b=c;d",
        "=",
        ",b=c",
        "a,=c",
        "a,b=c|d",
        '"a,b=c|d",e,f=g',
    ),
    *("scheduler_pending_pods,queue=active", "a,b=c=d", '"'),
)
FILES = (
    "{DIR}/none",
    "{DIR}",
    "{DIR}/empty",
    "{DIR}/text",
    "{DIR}/tls.crt",
    "{DIR}/tls.key",
    "{DIR}/kubeconfig",
    "",
    "relative",
)
LISTS = ("a", "a,b", "", ",", "a,,b", '"a,b"', '"', "a b", " ", "X-Remote-User", "a, ", "é", '"a""b"', 'a"b', "a\nb")
PATHS = ("/healthz", "/a,/b", "*", "/a/*", "a", "", "/*", "/a*b", "/", "/a/*/b", "**", "/healthz,*")
OUTPUT = ("text", "JSON", "", "xml", "klog")
GATE_VALUES = ("true", "false", "True", "0", "x", "", " true", "t")
CONTENT = ("application/json", "", "x", "application/vnd.kubernetes.protobuf")
LOCKS = ("leases", "endpoints", "", "x", "endpointsleases")
HIDDEN = ("1.36", "1.37", "1.35", "", "x", "1.36.0", "v1.36", "1.3.6.0")
ALL_GATES = tuple(FeatureGates().all())


def gates(draw: Draw) -> str:
    """What sets feature gates."""

    def one() -> str:
        name = draw.choice(
            (*(draw.choice(ALL_GATES) for _ in range(6)), "AllAlpha", "AllBeta", "NoSuch", "", "allalpha")
        )
        prefix = draw.choice(("", "", "", "", "kube:", "x:", ":", " "))
        equals = draw.choice(("=", "=", "=", "=", "=", "=", "", " = ", "=="))
        return f"{prefix}{name}{equals}{draw.choice(GATE_VALUES[:4] * 3 + GATE_VALUES)}"

    return draw.choice((",", ",", ",", ", ", ",,")).join(one() for _ in range(draw.choice((1, 1, 1, 2, 3))))


BY_NAME: dict[str, tuple[str, ...]] = {
    "config": ("{FILE}", "{FILE}", "{FILE}", *FILES),
    "master": (
        "http://127.0.0.1:1",
        "127.0.0.1:1",
        "https://x:1",
        "",
        "x",
        ":",
        "http://",
        "%zz",
        "http://a b",
        "tcp://x",
    ),
    "tls-cipher-suites": SUITES,
    "tls-curve-preferences": CURVES,
    "tls-min-version": TLS_VERSIONS,
    "authorization-always-allow-paths": PATHS,
    "kube-api-content-type": CONTENT,
    "leader-elect-resource-lock": LOCKS,
    "logging-format": OUTPUT,
    "show-hidden-metrics-for-version": HIDDEN,
    "emulated-version": VERSIONS,
    "min-compatibility-version": VERSIONS,
    "vmodule": MODULES,
    "leader-elect-resource-name": TEXTS,
    "leader-elect-resource-namespace": TEXTS,
    "disabled-metrics": (*LISTS, "scheduler_pending_pods", "no_such,a"),
    "help": BOOLS,
    "version": (
        "true",
        "raw",
        "v1.37.5",
        "v1.36.0",
        "1.37.0",
        "x",
        "",
        "v1.37.0-a.1",
        "v1.37.0+x",
        "v1.37",
        "false",
        "v1.37.00",
    ),
}
BY_TYPE: dict[str, tuple[str, ...]] = {
    "string": FILES,
    "bool": BOOLS,
    "int": NUMBERS,
    "int32": NUMBERS,
    "float32": FLOATS,
    "duration": DURATIONS,
    "ip": ADDRESSES,
    "quantity": QUANTITIES,
    "strings": LISTS,
    "Level": LEVELS,
    "namedCertKey": PAIRS,
    "stringToString": LABELS,
}
_OWN = "trireme"
STRANGERS = (
    *(
        "--nope",
        "--nope=1",
        "---x",
        "--=x",
        "-",
        "--",
        "-x",
        "-vh",
        "-v",
        "-v=1",
        "-v1",
        "-hx",
        "foo",
        "",
        " ",
        "-h",
        "-vx",
    ),
    *(
        "--Config",
        "--no-leader-elect",
        "--leader-elec",
        "--logtostderr",
        "--alsologtostderr=true",
        "--log-dir=/tmp",
        "-1",
    ),
    *("--test.v", "-=", "--leader-elect=", "--v", "--\u00e9", "-\u00e9", "--a b", "--nope value", "-v=", "--=", "-vv1"),
)
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FILES_OF_A_CASE = {
    "config.yaml": HEADER + "leaderElection: {leaseDuration: 40s, resourceName: file}\nclientConnection: {burst: 7}\n",
    "kubeconfig": KUBECONFIG,
    "empty": "",
    "text": "junk\n",
    "tls.crt": "{CERT}",
    "tls.key": "{KEY}",
}
SAFE_BASE = ("--write-config-to", "{OUT}", "--master", "http://127.0.0.1:1", "--secure-port", "0")
SERVING_BASE = (
    *("--write-config-to", "{OUT}", "--master", "http://127.0.0.1:1", "--bind-address", "127.0.0.1", "--secure-port"),
    "{PORT}",
)
#: Who takes that away starts to run.
NEVER = frozenset({"write-config-to"})
FLAGS = tuple(
    flag
    for section in command_flags.flag_set().sections
    for flag in section.flags
    if _OWN not in section.title.lower() and flag.name not in NEVER
)


def one(draw: Draw) -> list[str]:
    """A flag, one of several ways."""
    flag = draw.choice(FLAGS)
    name, value = flag.name, _value(draw, flag.name, flag.type.name)
    chance = draw.random()
    if chance < 0.06:
        name = name.replace("-", "_")
    elif chance < 0.08:
        name = name.replace("-", "_", 1)
    if flag.letter and draw.random() < 0.4:
        return draw.choice(([f"-{flag.letter}", value], [f"-{flag.letter}{value}"], [f"-{flag.letter}={value}"]))
    if chance > 0.97:
        return [f"--{name}"]
    if chance > 0.85:
        return [f"--{name}", value]
    return [f"--{name}={value}"]


def _value(draw: Draw, name: str, type_name: str) -> str:
    if name == "feature-gates":
        return gates(draw)
    values = BY_NAME.get(name) or BY_TYPE.get(type_name) or TEXTS
    if draw.random() < 0.05:
        values = TEXTS
    value = draw.choice(values)
    if name == "tls-cipher-suites":
        value = ",".join([value, *draw.sample(SUITES, draw.choice((0, 0, 1, 2)))])
    return value


def case(draw: Draw, name: str) -> Case:
    """A command line, and the files that it may name."""
    words: list[str] = []
    for _ in range(draw.choice((1, 1, 1, 1, 1, 2, 2, 3, 4))):
        words.extend(one(draw) if draw.random() < 0.93 else [draw.choice(STRANGERS)])
    base = draw.choice((SAFE_BASE, SAFE_BASE, SERVING_BASE))
    if draw.random() < 0.15:
        base = ("--config", "{FILE}", *base)
    if draw.random() < 0.04:
        base = ("--write-config-to", "{OUT}", "--secure-port", "0")
    flags = [*base, *words] if draw.random() < 0.8 else [*words, *base]
    return {"kind": "case", "name": f"case/{name}", "files": FILES_OF_A_CASE, "flags": flags, "stdout": ""}
