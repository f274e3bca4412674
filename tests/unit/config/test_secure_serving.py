"""What the HTTPS server needs before it starts: certificates, the port, and who vouches for callers."""

import socket
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.config_starts import Desk, Ended
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.componentbase.tls.self_signed import make_certificate

CERTIFICATE, KEY = make_certificate("localhost", ["127.0.0.1"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to start in."""
    (tmp_path / "tls.crt").write_bytes(CERTIFICATE)
    (tmp_path / "tls.key").write_bytes(KEY)
    return Desk(tmp_path)


def _serve(desk: Desk, *flags: str) -> Ended:
    """Starts with a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return desk.start("--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", f"--secure-port={port}", *flags)


def test_without_a_port_nothing_is_served(desk: Desk) -> None:
    assert desk.start("--kubeconfig=kubeconfig", "--secure-port=0").completed.serving is None


def test_a_certificate_is_made_in_memory(desk: Desk) -> None:
    ended = _serve(desk)
    assert ended.completed.serving is not None
    assert ended.completed.serving.certificate.startswith(b"-----BEGIN CERTIFICATE")
    assert "I Generated self-signed cert in-memory" in ended.logs
    assert not list(desk.folder.glob("*kube-scheduler*"))


def test_a_self_signed_certificate_is_stored_in_its_folder(desk: Desk) -> None:
    for logged in (True, False):
        ended = _serve(desk, "--cert-dir=certs")
        assert ended.completed.serving is not None
        assert any("Generated self-signed cert (" in line for line in ended.logs) is logged
    key = desk.folder / "certs" / "kube-scheduler.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    (desk.folder / "certs" / "kube-scheduler.crt").unlink()
    assert "certificate and key must be supplied as a pair" in _serve(desk, "--cert-dir=certs").error


def test_a_port_that_is_taken_ends_the_start(desk: Desk) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = desk.start("--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", f"--secure-port={port}")
    where = f"127.0.0.1:{port}"
    assert ended.error == (
        f"failed to create listener: failed to listen on {where}: listen tcp {where}: bind: address already in use"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--tls-cert-file=tls.crt"], "missing filename for serving cert", id="no-key"),
        pytest.param(
            ["--tls-cert-file=none", "--tls-private-key-file=tls.key"],
            "open none: no such file or directory",
            id="missing",
        ),
        pytest.param(
            ["--tls-cert-file=tls.key", "--tls-private-key-file=tls.key"],
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched",
            id="switched",
        ),
        pytest.param(["--tls-cipher-suites=X"], "Cipher suite X not supported or doesn't exist", id="cipher"),
        pytest.param(["--tls-min-version=X"], 'unknown tls version "X"', id="version"),
        pytest.param(["--tls-curve-preferences=1"], "curve preference 1 is not supported", id="curve"),
        pytest.param(["--tls-sni-cert-key=none,none"], "failed to load SNI cert and key: open none", id="names"),
        pytest.param(["--client-ca-file=none"], "unable to load client CA provider: open none", id="client-ca"),
        pytest.param(["--client-ca-file=tls.key"], "data does not contain any valid RSA or ECDSA", id="client-ca-key"),
        pytest.param(
            ["--authentication-kubeconfig=none"],
            "failed to get delegated authentication kubeconfig: failed to get delegated authentication kubeconfig: "
            "stat none: no such file or directory",
            id="authentication",
        ),
        pytest.param(
            ["--authorization-kubeconfig=none"],
            "failed to get delegated authorization kubeconfig: stat none: no such file or directory",
            id="authorization",
        ),
    ],
)
def test_unusable_serving_options_end_the_start(desk: Desk, flags: list[str], message: str) -> None:
    ended = _serve(desk, *flags)
    assert (ended.outcome.code, ended.outcome.stage) == (1, "load")
    assert message in ended.error


def test_a_port_is_free_again_after_a_start_that_failed(desk: Desk) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ["--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    assert desk.start(*flags, "--tls-min-version=X").outcome.code == 1
    assert desk.start(*flags).outcome.code == 0


def test_the_clusters_authentication_settings_are_looked_up(desk: Desk) -> None:
    asked: list[str] = []

    def lookup(connection: Connection) -> Mapping[str, str]:
        asked.append(connection.host)
        return {"client-ca-file": "pem"}

    desk.lookup = lookup
    ended = _serve(desk, "--authentication-kubeconfig=kubeconfig")
    assert ended.completed.serving is not None
    assert ended.completed.serving.cluster_settings == {"client-ca-file": "pem"}
    assert asked == ["https://127.0.0.1:6443"]
    assert _serve(desk, "--authentication-kubeconfig=kubeconfig", "--authentication-skip-lookup").completed.serving
    assert len(asked) == 1


@pytest.mark.parametrize("tolerated", [True, False])
def test_a_lookup_that_fails_is_tolerated_or_not(desk: Desk, tolerated: bool) -> None:
    def lookup(_connection: Connection) -> Mapping[str, str]:
        raise ConfigurationError("no answer")

    desk.lookup = lookup
    flag = f"--authentication-tolerate-lookup-failure={str(tolerated).lower()}"
    ended = _serve(desk, "--authentication-kubeconfig=kubeconfig", flag)
    assert ended.outcome.code == (0 if tolerated else 1)
    if tolerated:
        assert "W Error looking up in-cluster authentication configuration: no answer" in ended.logs
    else:
        assert ended.error.endswith("no answer")
