"""The page of simulations: a SimulateRequest as JSON is posted, and answered by a SimulateResponse.

An answer names nodes and pods of all namespaces, so it is for those alone who may list both in the whole cluster.
"""

from aiohttp import web
from google.protobuf import json_format

from trireme.insight.http_api import failures
from trireme.insight.http_api.visibility import Viewer
from trireme.v1 import simulation_pb2
from trireme_kube.componentbase.server.authentication import User

PATH = "/v1/simulation"


def check_may_simulate(user: User, viewer: Viewer) -> None:
    """Refuse users who may not see the whole cluster. Raises: HttpFailure."""
    for resource, allowed in (("nodes", viewer.lists_nodes), ("pods", viewer.lists_pods)):
        if not allowed:
            text = (
                f'{resource} is forbidden: User "{user.name}" cannot list resource "{resource}" at the cluster scope; '
                "who may list nodes and pods in the whole cluster may simulate"
            )
            raise failures.HttpFailure(403, "Forbidden", text)


async def read_request(request: web.Request) -> simulation_pb2.SimulateRequest:
    """The question. Raises: HttpFailure."""
    if request.method != "POST":
        text = "only POST is served here: send a SimulateRequest as JSON"
        raise failures.HttpFailure(405, "MethodNotAllowed", text, {"Allow": "POST"})
    if request.content_type != "application/json":
        text = "the body must be JSON: send Content-Type: application/json"
        raise failures.HttpFailure(415, "UnsupportedMediaType", text)
    unknown = [name for name in request.query if name != "pretty"]
    if unknown:
        raise failures.bad_request("the query has an unknown name; known is pretty")
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        text = "the body has more than 1 MiB: ask about fewer pods or nodes at once"
        raise failures.HttpFailure(413, "RequestEntityTooLarge", text) from error
    try:
        return json_format.Parse(body, simulation_pb2.SimulateRequest())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"the body is no SimulateRequest: {error}") from error
