"""The pages of simulations: a SimulateRequest as JSON, or manifests as they are, is answered by a SimulateResponse.

An answer names nodes and pods of all namespaces, so it is for those alone who may list both in the whole cluster.

Also change: console/src/views/simulation.tsx, internal/trireme/cli/simulation_display.py,
console/src/documents.ts (what a simulation is asked and answers).
Also change: docs/simulate.md.
Also change: internal/trireme/frontend/serving/simulation_relay.py (what a request may have).
Also change: protos/trireme/v1/simulation.proto (the messages).

Tests: tests/security/test_simulation_http.py.
"""

from aiohttp import web
from google.protobuf import json_format

from trireme.insight import request_errors
from trireme.insight.http_api import failures
from trireme.v1 import simulation_pb2
from trireme_kube.apimachinery import yaml_stream

PATH = "/v1/simulation"
MANIFESTS_PATH = "/v1/simulation/manifests"
PATHS = (PATH, MANIFESTS_PATH)
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


async def read_request(request: web.Request, path: str) -> simulation_pb2.SimulateRequest:
    """The question at one of the paths. Raises: HttpFailure."""
    wanted = "a SimulateRequest as JSON" if path == PATH else "manifests as YAML or JSON"
    if request.method != "POST":
        text = f"only POST is served here: send {wanted}"
        raise failures.HttpFailure(405, "MethodNotAllowed", text, {"Allow": "POST"})
    types = ("application/json",) if path == PATH else ("application/json", *_YAML)
    if request.content_type not in types:
        text = f"the body must be {wanted}: send Content-Type: {' or '.join(types[:2])}"
        raise failures.HttpFailure(415, "UnsupportedMediaType", text)
    known = ("pretty",) if path == PATH else ("pretty", "namespace")
    if any(name not in known for name in request.query):
        raise failures.bad_request(str(request_errors.unknown_name()))
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise failures.body_too_large() from error
    return _parse(body) if path == PATH else _submit(body, request.query.get("namespace", ""))


def _parse(body: bytes) -> simulation_pb2.SimulateRequest:
    """The request in the body. Raises: HttpFailure."""
    try:
        return json_format.Parse(body, simulation_pb2.SimulateRequest())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"the body is no SimulateRequest: {error}") from error


def _submit(body: bytes, namespace: str) -> simulation_pb2.SimulateRequest:
    """The request to submit the manifests in the body. Raises: HttpFailure."""
    request = simulation_pb2.SimulateRequest()
    request.scenario.namespace = namespace
    try:
        for _, manifest in yaml_stream.read_all(body):
            request.scenario.manifests.add().update(manifest)
    except ValueError as error:
        raise failures.bad_request(f"the body has no manifests: {error}") from error
    if not request.scenario.manifests:
        raise failures.bad_request("the body has no manifest: send them as `kubectl apply` takes them")
    return request
