"""Random kubeconfig files: with a server, users and contexts that may fit together."""

import json

from tests.conformance.config.drawn_files import BOOL, Draw, Tree, either, listed, one_of, struct
from tests.conformance.config.drawn_texts import mistype, scribble, spoil, written

NAMES = one_of("c", "u", "x", bad=("", "a b", "other"))
FILE = one_of("{DIR}/tls.crt", bad=("{DIR}/none", "none", "{DIR}", "tls.crt", "{DIR}/text", "{DIR}/empty", ""))
KEY = one_of("{DIR}/tls.key", bad=("{DIR}/none", "tls.key", "{DIR}/tls.crt", "{DIR}/text", ""))
DATA = one_of("", bad=("YQ==", "!", "YQ", "LS0tLS1CRUdJTg=="))
CLUSTER = struct(
    0.25,
    tls_server_name=one_of("x", ""),
    insecure_skip_tls_verify=BOOL,
    certificate_authority=FILE,
    certificate_authority_data=DATA,
    proxy_url=one_of(
        "http://127.0.0.1:3", "", "socks5://x:1", bad=("ftp://x", ":", "x", "%zz", "http://a b", "HTTP://x")
    ),
    disable_compression=BOOL,
    min_connection_pool_size=one_of(0, 1, 2, 100, bad=(-1, 101, "2", 2**31)),
)
SERVER = one_of(
    *("http://127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1:1/", "https://127.0.0.1:1/a/b"),
    bad=(
        "",
        "127.0.0.1:1",
        "127.0.0.1",
        "ftp://x",
        ":",
        "%zz",
        "http://",
        "http://a b",
        "https://x:y",
        "/x",
        "x?y=1",
        "[::1",
    ),
)
USER = struct(
    0.18,
    client_certificate=FILE,
    client_certificate_data=DATA,
    client_key=KEY,
    client_key_data=DATA,
    token=one_of("t", "", "a\nb"),
    tokenFile=one_of("{DIR}/text", bad=("{DIR}/none", "{DIR}/empty", "text")),
    as_=one_of("x", ""),
    as_uid=one_of("x", ""),
    as_groups=listed(one_of("g", "")),
    as_user_extra=either(
        lambda _: {"a": ["b"]}, lambda _: {"a": ["b", 1]}, lambda _: {"a": "b"}, lambda _: {"a": None}, lambda _: {}
    ),
    username=one_of("x", ""),
    password=one_of("x", ""),
    auth_provider=struct(0.8, name=one_of("gcp", "azure", "x", ""), config=lambda _: {"a": "b"}),
    exec=struct(
        0.7,
        command=one_of("true", "/bin/true", bad=("", "none")),
        args=listed(one_of("a", "")),
        env=listed(struct(0.8, name=one_of("A", ""), value=one_of("b", ""))),
        apiVersion=one_of(
            "client.authentication.k8s.io/v1",
            "client.authentication.k8s.io/v1beta1",
            bad=("client.authentication.k8s.io/v1alpha1", "x", ""),
        ),
        interactiveMode=one_of("Never", "IfAvailable", "Always", bad=("", "x")),
        provideClusterInfo=BOOL,
        installHint=one_of("x", ""),
    ),
)


def _dashed(entry: Tree) -> Tree:
    """Field names as the file has them."""
    return {name.replace("_", "-"): value for name, value in entry.items()}


def kubeconfig(draw: Draw) -> str:
    """The text of one."""
    cluster = _dashed(CLUSTER(draw))
    if draw.random() >= 0.3 * draw.carelessness:
        cluster["server"] = SERVER(draw)
    root: Tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": _dashed(USER(draw))}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    if draw.random() < draw.carelessness:
        root["current-context"] = NAMES(draw)
        section = draw.choice(("clusters", "contexts"))
        root[section].append({**root[section][0], "name": NAMES(draw)})
    if draw.random() < draw.carelessness:
        root["contexts"][0]["context"] = {"cluster": NAMES(draw), "user": NAMES(draw), "namespace": NAMES(draw)}
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2))):
        spoil(draw, root)
    if draw.random() < 0.05:
        mistype(draw, root)
    text = written(draw, json.loads(json.dumps(root)))
    return scribble(draw, text) if draw.random() < 0.1 else text
