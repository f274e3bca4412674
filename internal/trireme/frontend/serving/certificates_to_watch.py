"""The certificates that a frontend presents, and the authorities by which it knows others.

To and of its callers, phases and plugins, and the API server.

Tests: tests/contract/test_serving_metrics.py.
"""

from collections.abc import Iterator, Mapping

from trireme.config import commandline
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig import connection
from trireme_kube.componentbase.tls.certificate_expiry import AUTHORITY, CLIENT, SERVING, Certificate, of_file


def certificates_of(completed: commandline.CompletedConfig, environment: Mapping[str, str]) -> Iterator[Certificate]:
    """Yield every certificate that the configuration names, for the metrics of their expiry, by use.

    `environment` is what kubeconfigs may refer to. Settings that are not in use (no HTTPS server, no TLS) yield none.
    """
    if completed.serving is not None:
        options = completed.serving.options
        if completed.serving.certificate:
            yield Certificate(SERVING, "generated", content=completed.serving.certificate)
        else:
            yield from of_file(SERVING, options.cert_file)
        for pair in options.sni_cert_keys:
            yield from of_file(SERVING, pair.cert_file)
    yield from of_file(AUTHORITY, completed.options.authentication.client_ca_file)
    own = completed.trireme
    if own.handle_has_tls:
        yield from of_file(SERVING, own.tls.cert_file)
    yield from of_file(CLIENT, own.tls.cert_file)
    yield from of_file(AUTHORITY, own.tls.ca_file)
    for plugin in own.remote_plugins:
        if plugin.tls is not None:
            yield from of_file(CLIENT, plugin.tls.cert_file)
            yield from of_file(AUTHORITY, plugin.tls.ca_file)
    yield from _of_api_connections(completed, environment)


def _of_api_connections(
    completed: commandline.CompletedConfig, environment: Mapping[str, str]
) -> Iterator[Certificate]:
    """The certificates and authorities of the connections to the API server, reviews included."""
    connections = [completed.connection]
    for path in (completed.options.authentication.kubeconfig, completed.options.authorization.kubeconfig):
        if path and path not in [each.kubeconfig for each in connections]:
            try:
                connections.append(connection.from_kubeconfig(path, "", environment))
            except ConfigurationError:
                continue  # the user of the file reports it
    for each in connections:
        tls = each.tls
        for use, data, file in ((CLIENT, tls.cert_data, tls.cert_file), (AUTHORITY, tls.ca_data, tls.ca_file)):
            yield from (Certificate(use, each.kubeconfig, content=data),) if data else of_file(use, file)
