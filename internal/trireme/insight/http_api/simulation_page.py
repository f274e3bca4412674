"""The page of simulations: a SimulateRequest as JSON is posted, and answered by a SimulateResponse.

An answer names nodes and pods of all namespaces, so it is for those alone who may list both in the whole cluster.
"""

from aiohttp import web
from google.protobuf import json_format

from trireme.insight import request_errors
from trireme.insight.http_api import failures
from trireme.v1 import simulation_pb2

PATH = "/v1/simulation"


async def read_request(request: web.Request) -> simulation_pb2.SimulateRequest:
    """The question. Raises: HttpFailure."""
    if request.method != "POST":
        text = "only POST is served here: send a SimulateRequest as JSON"
        raise failures.HttpFailure(405, "MethodNotAllowed", text, {"Allow": "POST"})
    if request.content_type != "application/json":
        text = "the body must be JSON: send Content-Type: application/json"
        raise failures.HttpFailure(415, "UnsupportedMediaType", text)
    if any(name != "pretty" for name in request.query):
        raise failures.bad_request(str(request_errors.unknown_name()))
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        text = "the body has more than 1 MiB: ask about fewer pods or nodes at once"
        raise failures.HttpFailure(413, "RequestEntityTooLarge", text) from error
    try:
        return json_format.Parse(body, simulation_pb2.SimulateRequest())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"the body is no SimulateRequest: {error}") from error
