"""How the API server is reached: kubeconfigs, `--master`, a pod's own account, and what cannot work."""

import base64
import json
from pathlib import Path

import pytest

from trireme.config import connection, server_url
from trireme.config.connection import Connection
from trireme.config.loading import ConfigurationError
from trireme.config.model import ClientConnection
from trireme.config.trust import ClientTLS
from trireme_kube.componentbase.tls.self_signed import make_certificate

Value = dict[str, object]

CERTIFICATE, KEY = make_certificate("localhost", [])
_, OTHER_KEY = make_certificate("localhost", [])
#: The first certificate alone, without its authority's.
ALONE = CERTIFICATE.partition(b"-----END CERTIFICATE-----\n")[0] + b"-----END CERTIFICATE-----\n"


def _write(folder: Path, cluster: Value, user: Value | None = None, **more: object) -> str:
    value: Value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user or {}}],
        "current-context": "x",
        **more,
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(value))
    return str(path)


def _connect(path: str, master: str = "") -> Connection:
    return connection.from_kubeconfig(path, master, {})


def test_the_current_context_has_server_and_user(tmp_path: Path) -> None:
    path = _write(tmp_path, {"server": "https://one:6443", "tls-server-name": "n"}, {"token": "t"})
    found = _connect(path)
    assert (found.host, found.token, found.tls.server_name) == ("https://one:6443", "t", "n")
    assert (found.kubeconfig, found.in_cluster) == (path, False)


def test_master_replaces_the_server(tmp_path: Path) -> None:
    assert _connect(_write(tmp_path, {"server": "https://one"}, {"token": "t"}), "https://two").host == "https://two"


def test_files_of_a_kubeconfig_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE)
    found = _connect(_write(tmp_path, {"server": "https://one", "certificate-authority": "ca.crt"}))
    assert found.tls.ca_file == str(tmp_path / "ca.crt")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param({"current-context": "other"}, "context was not found for specified context: other", id="context"),
        pytest.param({"clusters": []}, "invalid configuration: no configuration has been provided", id="no-cluster"),
        pytest.param({"kind": "Other"}, 'no kind "Other" is registered for version "v1"', id="another-kind"),
    ],
)
def test_a_kubeconfig_without_a_usable_cluster_is_refused(tmp_path: Path, more: Value, message: str) -> None:
    path = _write(tmp_path, {"server": "https://one"}, **more)
    with pytest.raises(ConfigurationError) as caught:
        _connect(path)
    assert message in str(caught.value)


def test_nothing_at_all_is_refused() -> None:
    """Neither a kubeconfig nor --master is an error at the start."""
    logs: list[str] = []
    with pytest.raises(ConfigurationError, match="no configuration has been provided"):
        connection.connect(ClientConnection(), "", {}, logs.append)
    assert any("This might not work" in line for line in logs)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(ConfigurationError) as caught:
        _connect(path)
    assert str(caught.value) == f"stat {path}: no such file or directory"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        pytest.param({"token": "t", "username": "n", "password": "p"}, "more than one authentication method", id="two"),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, "command must be specified", id="exec"
        ),
        pytest.param({"client-certificate": "/nix", "client-key": "/nix"}, "/nix", id="missing-files"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(tmp_path: Path, user: Value, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _connect(_write(tmp_path, {"server": "https://one"}, user))


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    assert "hush-hush" not in repr(_connect(_write(tmp_path, {"server": "https://one"}, {"token": "hush-hush"})))


# TLS.


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        pytest.param(
            ClientTLS(ca_data=b"x"), "unable to load root certificates: unable to parse bytes as PEM", id="ca"
        ),
        pytest.param(
            ClientTLS(cert_data=CERTIFICATE, key_data=OTHER_KEY),
            "tls: private key does not match public key",
            id="pair",
        ),
        pytest.param(
            ClientTLS(cert_data=CERTIFICATE, key_data=ALONE),
            "tls: found a certificate rather than a key",
            id="certificate-as-key",
        ),
        pytest.param(
            ClientTLS(insecure=True, ca_data=CERTIFICATE), "with the insecure flag is not allowed", id="insecure"
        ),
        pytest.param(ClientTLS(ca_file="/nix"), "open /nix: no such file or directory", id="missing-ca"),
    ],
)
def test_tls_that_cannot_be_set_up_is_refused(tls: ClientTLS, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        connection.check_connection(Connection("https://x", tls))


def test_tls_that_can_be_set_up_is_taken() -> None:
    connection.check_connection(
        Connection("https://x", ClientTLS(ca_data=CERTIFICATE, cert_data=CERTIFICATE, key_data=KEY))
    )


def test_data_in_a_kubeconfig_is_decoded(tmp_path: Path) -> None:
    encoded = base64.b64encode(CERTIFICATE).decode()
    found = _connect(_write(tmp_path, {"server": "https://one", "certificate-authority-data": encoded}))
    assert found.tls.ca_data == CERTIFICATE


def test_requests_need_a_burst() -> None:
    with pytest.raises(ConfigurationError, match="burst is required to be greater than 0"):
        connection.check_connection(Connection("https://x"), qps=5.0, burst=0)
    connection.check_connection(Connection("https://x"), qps=-1.0, burst=0)


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("https://h:6443", True, "https://h:6443"),
        ("h:6443", True, "https://h:6443"),
        ("h", False, "http://h"),
        ("127.0.0.1:8080", False, "http://127.0.0.1:8080"),
        ("http://[::1]:8080", False, "http://[::1]:8080"),
    ],
)
def test_a_host_becomes_a_url(host: str, tls: bool, url: str) -> None:
    found = server_url.parse_server(host, tls=tls)
    assert f"{found.scheme}://{found.host}" == url


@pytest.mark.parametrize("host", ["http://%", "http://[::1", "http://h:port", "http://a b"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"host must be a URL or a host:port pair|parse"):
        server_url.parse_server(host, tls=False)
