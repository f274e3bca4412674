"""Requests with JSON over HTTP: of a service, or of the API server with the account of the pod that this is in."""

import json
import os
import pathlib
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Client:
    """A service at a URL. `token_file` is read for each request, since tokens are renewed; `ca_file`: its authority."""

    url: str
    token_file: pathlib.Path | None = None
    ca_file: pathlib.Path | None = None
    timeout_seconds: float = 3.0

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and decoded body.

        Raises: OSError where no answer came, and nobody knows whether the request had its effect.
        """
        headers = {"Content-Type": "application/json"}
        if self.token_file is not None:
            headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
        data = None if body is None else json.dumps(body).encode()
        tls = ssl.create_default_context(cafile=str(self.ca_file)) if self.ca_file is not None else None
        made = urllib.request.Request(self.url.rstrip("/") + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(made, timeout=self.timeout_seconds, context=tls) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())


def api_server(url: str) -> Client:
    """The API server at a URL, such as kubectl proxy's; without one that of the cluster, with the pod's account.

    Raises: ValueError outside a cluster.
    """
    if url:
        return Client(url)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ValueError("--api-server: must be set where this is not a pod, for example to the URL of kubectl proxy")
    return Client(f"https://{host}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def _decoded(data: bytes) -> Any:
    """The JSON, None where it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return None
