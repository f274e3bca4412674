"""What may be listened on, and what the line on stderr says when it may not."""

from typing import Any

import pytest

from trireme.rpc.listen_flags import ListenError, make_listener, parse_address

TLS = {"certificate": "c", "private_key": "k"}
MUTUAL = {**TLS, "client_ca": "a", "identities": ("trireme-frontend",)}


@pytest.mark.parametrize(
    ("text", "expected", "local"),
    [
        pytest.param("unix:/run/bind.sock", "unix:/run/bind.sock", True, id="unix"),
        pytest.param("unix:///run/bind.sock", "unix:/run/bind.sock", True, id="unix-with-slashes"),
        pytest.param("127.0.0.1:0", "127.0.0.1:0", True, id="loopback"),
        pytest.param("127.1.2.3:9", "127.1.2.3:9", True, id="all-of-127"),
        pytest.param("[::1]:9", "[::1]:9", True, id="ipv6-loopback"),
        pytest.param("localhost:9", "localhost:9", True, id="localhost"),
        pytest.param("0.0.0.0:9", "0.0.0.0:9", False, id="everywhere"),
        pytest.param(":9", "0.0.0.0:9", False, id="no-host-is-everywhere"),
        pytest.param("[::]:9", "[::]:9", False, id="ipv6-everywhere"),
        pytest.param("10.0.0.5:9", "10.0.0.5:9", False, id="an-address"),
        pytest.param("bind.example.com:9", "bind.example.com:9", False, id="a-name"),
    ],
)
def test_addresses_are_read(text: str, expected: str, local: bool) -> None:
    """Only a Unix socket and loopback count as local: a wrong yes would open bind to the network."""
    address = parse_address(text)
    assert (address.text, address.local) == (expected, local)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9000",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:65536",
        "unix:",
        "unix:relative",
        "unix:/" + "x" * 200,
        "a:b:1",
    ],
    ids=["empty", "port", "host", "word-port", "big-port", "no-path", "relative", "long-path", "two-colons"],
)
def test_other_texts_are_refused(text: str) -> None:
    """The message names the flag."""
    with pytest.raises(ListenError, match="--listen"):
        parse_address(text)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param({"certificate": "c"}, "--tls-private-key-file", id="certificate-without-key"),
        pytest.param({"private_key": "k"}, "--tls-cert-file", id="key-without-certificate"),
        pytest.param({"client_ca": "a"}, "--client-ca-file", id="ca-without-certificate"),
        pytest.param({**TLS, "identities": ("x",)}, "--allowed-identities", id="identities-without-ca"),
        pytest.param({**MUTUAL, "identities": ("x", " ")}, "--allowed-identities", id="empty-identity"),
    ],
)
def test_flags_of_tls_belong_together(flags: dict[str, Any], named: str) -> None:
    """A half-configured server would not be the guarded one that was meant."""
    with pytest.raises(ListenError, match=named):
        make_listener("127.0.0.1:0", **flags)


@pytest.mark.parametrize(
    ("listen", "flags", "allowed"),
    [
        pytest.param("0.0.0.0:9", {}, False, id="network-plain"),
        pytest.param("0.0.0.0:9", TLS, False, id="network-tls"),
        pytest.param("0.0.0.0:9", {**TLS, "client_ca": "a"}, False, id="network-mtls-anybody"),
        pytest.param("0.0.0.0:9", MUTUAL, True, id="network-mtls-identities"),
        pytest.param("127.0.0.1:9", {}, True, id="loopback-plain"),
        pytest.param("unix:/x", {}, True, id="unix-plain"),
    ],
)
def test_a_guarded_service_is_never_open_to_the_network(listen: str, flags: dict[str, Any], allowed: bool) -> None:
    """Bind deletes pods for every caller that it admits."""
    if allowed:
        make_listener(listen, guarded=True, **flags)
    else:
        with pytest.raises(ListenError, match="other machines"):
            make_listener(listen, guarded=True, **flags)
    make_listener(listen, **flags)
