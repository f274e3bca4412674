"""What a pod has logged, and the subresources that the embedded cluster leaves out."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.e2e.embedded_process import eventually
from tests.e2e.test_embedded_http import DEADLINE, PODS_PATH, Client, serving

LOG = f"{PODS_PATH}/p/log"


async def text(client: Client, query: str = "", path: str = LOG) -> tuple[int, str, str]:
    """Status code, media type and body of a log."""
    async with client.session.get(f"{client.cluster.url}{path}?{query}") as response:
        return response.status, response.content_type, await response.text()


async def place(client: Client, **spec: object) -> None:
    """Creates a pod on the only node and waits until it runs."""
    body = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}], **spec},
    }
    code, _ = await client.call("POST", PODS_PATH, body)
    assert code == 201

    async def runs() -> bool:
        return (await client.call("GET", f"{PODS_PATH}/p"))[1]["status"]["phase"] != "Pending"

    await eventually(runs)


async def test_a_log_is_text() -> None:
    """It was JSON without a body, at which clients stumbled."""
    async with serving(1) as client:
        await place(client)
        code, kind, body = await text(client)
        assert (code, kind) == (200, "text/plain")
        assert body == "default/p: container c is simulated and logs nothing but this\n"
        assert (await text(client, "tailLines=0"))[2] == ""
        assert (await text(client, "limitBytes=9"))[2] == "default/p"
        assert (await text(client, "timestamps=true"))[2].partition(" ")[0].endswith("Z")


async def test_a_log_is_followed_to_the_end_of_the_pod() -> None:
    """`kubectl run --rm` and `kubectl logs -f` end when the pod does."""
    async with serving(1) as client:
        await place(client)
        following = asyncio.create_task(text(client, "follow=true"))
        await asyncio.sleep(0.1)
        assert not following.done()
        await client.call("DELETE", f"{PODS_PATH}/p")
        assert (await asyncio.wait_for(following, DEADLINE))[0] == 200


async def test_logs_that_are_refused() -> None:
    """In the words of the API server and the kubelet."""
    async with serving(1) as client:
        await client.create_pod("waiting")
        assert (await text(client, path=f"{PODS_PATH}/waiting/log"))[2] == ""  # no node, no log
        containers = [{"name": name, "image": "i"} for name in ("a", "b")]
        await place(client, containers=containers)
        for query, message in (
            ("", "a container name must be specified for pod p, choose one of: [a b]"),
            ("container=x", "container x is not valid for pod p"),
            ("container=a&previous=true", 'previous terminated container "a" in pod "p" not found'),
        ):
            code, kind, body = await text(client, query)
            assert (code, kind) == (400, "application/json")
            assert orjson.loads(body.encode())["message"] == message
        assert (await text(client, path=f"{PODS_PATH}/nobody/log"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PODS_PATH}/p/exec?command=ls"),
        ("GET", f"{PODS_PATH}/p/attach"),
        ("GET", f"{PODS_PATH}/p/portforward"),
        ("GET", f"{PODS_PATH}/p/proxy/metrics"),
        ("GET", "/api/v1/nodes/node-0/proxy/stats/summary"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
    ],
)
async def test_unimplemented_log_requests_are_refused_with_a_reason(method: str, path: str) -> None:
    """501 and a sentence, not a 404 that looks like a mistake of the client's."""
    async with serving() as client:
        code, body = await client.call(method, path)
        assert (code, body["code"], body["reason"]) == (501, 501, "NotImplemented")
        assert "https://trireme.dev/docs/embedded-cluster.html" in body["message"]
