"""The flags of insight's HTTP API: what is refused at the start, and which flag the error names."""

import pytest

from trireme.insight import flags
from trireme.phases import phase_process, process_flags
from trireme.rpc import listen_flags
from trireme_kube.componentbase.cli import arguments

REVIEWS = ["--authentication-kubeconfig=/a", "--authorization-kubeconfig=/b"]
TLS = ["--tls-cert-file=/c", "--tls-private-key-file=/k"]


def _check(*texts: str) -> flags.HttpFlags | None:
    parser = phase_process.flag_parser("insight")
    arguments.add(parser, flags.InsightFlags)
    values = parser.parse_args(texts)
    return arguments.read(flags.InsightFlags, values).http(arguments.read(process_flags.ProcessFlags, values))


def test_nothing_is_served_by_default() -> None:
    """An update would open a port."""
    assert _check() is None
    assert _check(*TLS) is None


@pytest.mark.parametrize(
    ("texts", "reviews"),
    [
        (["--http-listen=127.0.0.1:0"], False),
        (["--http-listen=localhost:7005", *TLS], False),
        (["--http-listen=[::1]:7005", *REVIEWS], True),
        (["--http-listen=0.0.0.0:7005", *TLS, *REVIEWS], True),
        (["--http-listen=:7005", *TLS, *REVIEWS, "--http-client-ca-file=/u"], True),
    ],
)
def test_what_is_served(texts: list[str], reviews: bool) -> None:
    """A setup of the documentation would not start."""
    checked = _check(*texts)
    assert checked is not None
    assert checked.reviews is reviews


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        (["--http-listen=0.0.0.0:7005", *REVIEWS], "--http-listen: .* needs --tls-cert-file"),
        (["--http-listen=:7005", *TLS], "--http-listen: .* needs --authentication-kubeconfig and --authorization-"),
        (["--http-listen=10.0.0.1:7005"], "--http-listen: .* needs --tls-cert-file"),
        (["--http-listen=insight.example.com:7005"], "--http-listen: .* needs --tls-cert-file"),
        (["--http-listen=127.0.0.1:0", REVIEWS[0]], "--authorization-kubeconfig need each other"),
        (["--http-listen=127.0.0.1:0", REVIEWS[1]], "--authentication-kubeconfig and"),
        (["--http-listen=unix:/run/x"], "--http-listen: .* is not host:port"),
        (["--http-listen=7005"], "--http-listen: '7005' is neither"),
        (["--http-listen=127.0.0.1:0", "--http-client-ca-file=/u"], "--http-client-ca-file needs --tls-cert-file"),
        (["--http-listen=127.0.0.1:0", *TLS, "--http-client-ca-file=/u"], "--http-client-ca-file needs .*kubeconfig"),
        ([REVIEWS[0]], "--authentication-kubeconfig is for --http-listen"),
        ([REVIEWS[1]], "--authorization-kubeconfig is for --http-listen"),
        (["--http-client-ca-file=/u"], "--http-client-ca-file is for --http-listen"),
    ],
)
def test_an_unsafe_or_pointless_combination_does_not_start(texts: list[str], match: str) -> None:
    """An explanation names everybody's nodes: a forgotten flag must not publish them."""
    with pytest.raises(listen_flags.ListenError, match=match):
        _check(*texts)
