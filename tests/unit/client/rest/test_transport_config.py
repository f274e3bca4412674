"""What requests are sent with, made of the configured connection."""

import pathlib

import pytest

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.client.rest import transport_config
from trireme_kube.componentbase.tls.client_tls import ClientTLS


@pytest.mark.parametrize(
    ("server", "url"),
    [
        pytest.param("https://10.0.0.1:6443/", "https://10.0.0.1:6443", id="slash-at-the-end"),
        pytest.param("10.0.0.1:8080", "http://10.0.0.1:8080", id="bare-host"),
        pytest.param("HTTPS://10.0.0.1", "https://10.0.0.1", id="upper-case"),
        pytest.param("https://rancher/k8s/clusters/c-1", "https://rancher/k8s/clusters/c-1", id="path-prefix"),
        pytest.param("", "http://localhost", id="empty"),
    ],
)
def test_a_server_in_any_of_its_forms_becomes_a_url(server: str, url: str) -> None:
    assert transport_config.of_connection(Connection(server)).host == url


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        pytest.param("ftp://x", "'ftp://x': not an http(s) URL", id="scheme"),
        pytest.param("https://x:99999", "'https://x:99999': Port out of range 0-65535", id="port"),
    ],
)
def test_a_server_that_no_request_can_reach_is_refused(server: str, problem: str) -> None:
    """client-go notices it at the first request; here it is known at the start."""
    connection = Connection(server, kubeconfig="/k", cluster_name="west")
    with pytest.raises(ConfigurationError) as caught:
        transport_config.of_connection(connection)
    assert str(caught.value) == f"kubeconfig /k: clusters[west].cluster.server: {problem}"


@pytest.mark.parametrize(
    ("connection", "header"),
    [
        pytest.param(Connection("https://x", token="t"), "Bearer t", id="token"),
        pytest.param(Connection("https://x", username="u", password="p"), "Basic dTpw", id="password"),
        pytest.param(Connection("https://x"), "", id="none"),
    ],
)
def test_credentials_become_the_authorization_header(connection: Connection, header: str) -> None:
    assert transport_config.of_connection(connection).authorization == header


def test_certificates_in_the_kubeconfig_become_files_in_memory() -> None:
    """OpenSSL reads files only, and a key is not to be written to a disk."""
    config = transport_config.of_connection(Connection("https://x", ClientTLS(ca_data=b"CA", cert_file="/c")))
    assert config.ca_file is not None
    assert transport_config.is_in_memory(config.ca_file)
    assert pathlib.Path(config.ca_file).read_bytes() == b"CA"
    assert (config.cert_file, config.key_file) == ("/c", None)
