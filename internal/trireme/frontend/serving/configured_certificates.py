"""The certificates that a frontend presents: to its callers, to phases and plugins, and to the API server."""

from collections.abc import Iterator, Mapping

from trireme.config import commandline, connection
from trireme.config.loading import ConfigurationError
from trireme_kube.componentbase.tls.certificate_expiry import Certificate, of_file


def certificates_of(completed: commandline.CompletedConfig, environment: Mapping[str, str]) -> Iterator[Certificate]:
    """Yield every certificate that the configuration names, for the metrics of their expiry, by use.

    `environment` is what kubeconfigs may refer to. Settings that are not in use (no HTTPS server, no TLS) yield none.
    """
    if completed.serving is not None:
        options = completed.serving.options
        if completed.serving.certificate:
            yield Certificate("serving", "generated", content=completed.serving.certificate)
        else:
            yield from of_file("serving", options.cert_file)
        for pair in options.sni_cert_keys:
            yield from of_file("serving", pair.cert_file)
    own = completed.trireme
    if own.handle_has_tls:
        yield from of_file("serving", own.tls.cert_file)
    yield from of_file("client", own.tls.cert_file)
    for plugin in own.remote_plugins:
        if plugin.tls is not None:
            yield from of_file("client", plugin.tls.cert_file)
    yield from _for_api_servers(completed, environment)


def _for_api_servers(completed: commandline.CompletedConfig, environment: Mapping[str, str]) -> Iterator[Certificate]:
    connections = [completed.connection]
    for path in (completed.options.authentication.kubeconfig, completed.options.authorization.kubeconfig):
        if path and path not in [each.kubeconfig for each in connections]:
            try:
                connections.append(connection.from_kubeconfig(path, "", environment))
            except ConfigurationError:
                continue  # the user of the file reports it
    for each in connections:
        if each.tls.cert_data:
            yield Certificate("client", each.kubeconfig, content=each.tls.cert_data)
        else:
            yield from of_file("client", each.tls.cert_file)
