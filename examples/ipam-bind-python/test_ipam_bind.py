"""The plugin's own tests, with an IPAM service and an API server that are two dictionaries behind HTTP."""

import http.server
import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import http_json
import ipam_bind
import pytest

from trireme import sdk
from trireme.v1 import bind_pb2, core_pb2


class Services(http.server.ThreadingHTTPServer):
    """An IPAM service of one network, and an API server. `fail_binding` is what the next POST of a binding answers."""

    daemon_threads = True

    def __init__(self, *addresses: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.free = list(addresses)
        self.given: dict[str, str] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.fail_binding = 0
        self.bind_before_failing = False
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and body of an answer."""
        self.requests.append(f"{method} {path}")
        uid = name = path.rpartition("/")[2]
        if path.startswith("/networks/"):
            return self._allocate(uid) if method == "PUT" else self._release(uid)
        if method == "GET":
            return (200, self.pods[name]) if name in self.pods else (404, {})
        pod = self.pods[path.split("/")[-2]]
        failure, self.fail_binding = self.fail_binding, 0
        if not failure or self.bind_before_failing:
            if pod["spec"].get("nodeName"):
                return 409, {"message": "already assigned"}
            pod["spec"]["nodeName"] = body["target"]["name"]
            pod["metadata"]["annotations"] = body["metadata"]["annotations"]
        return failure or 201, {"message": "as told"}

    def _allocate(self, uid: str) -> tuple[int, Any]:
        if uid not in self.given:
            if not self.free:
                return 409, {}
            self.given[uid] = self.free.pop()
        return 200, {"address": self.given[uid]}

    def _release(self, uid: str) -> tuple[int, Any]:
        if uid not in self.given:
            return 404, {}
        self.free.append(self.given.pop(uid))
        return 200, {}


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Services

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        code, answer = self.server.answer(self.command, self.path, body)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  # names of http.server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def services() -> Iterator[Services]:
    """Services with one address, and the pods a and b."""
    with Services("10.0.0.1") as server:
        server.pods = {name: {"metadata": {"uid": f"uid-{name}"}, "spec": {}} for name in "ab"}
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def bind(services: Services, name: str, network: str = "blue", unknown: bool = False) -> Any:
    """Bind a pod to the node n."""
    client = http_json.Client(services.url)
    pod = core_pb2.Pod()
    if network:
        pod.metadata.annotations[ipam_bind.NETWORK] = network
    item = bind_pb2.BindItem(node_name="n", outcome_unknown=unknown)
    item.pod.namespace, item.pod.name, item.pod.uid = "default", name, f"uid-{name}"
    return await ipam_bind.IpamBind(client, client).bind(sdk.Call(pod, "p"), item)


async def test_a_pod_is_bound_with_an_address(services: Services) -> None:
    """If this fails, pods run without the address that their network needs."""
    assert await bind(services, "a") is None
    assert services.pods["a"]["spec"] == {"nodeName": "n"}
    assert services.pods["a"]["metadata"]["annotations"] == {ipam_bind.ADDRESS: "10.0.0.1"}


async def test_the_same_again_binds_once_and_takes_one_address(services: Services) -> None:
    """If this fails, a call that is repeated takes a second address, or fails the pod that runs."""
    services.free.append("10.0.0.2")
    assert [await bind(services, "a"), await bind(services, "a"), await bind(services, "a", unknown=True)] == [None] * 3
    assert services.given == {"uid-a": services.pods["a"]["metadata"]["annotations"][ipam_bind.ADDRESS]}


async def test_a_pod_of_no_network_is_left_to_the_next_binder(services: Services) -> None:
    """If this fails, all pods need the IPAM service."""
    assert await bind(services, "a", network="") == sdk.SKIP
    assert services.requests == []


async def test_without_a_free_address_a_pod_is_not_bound(services: Services) -> None:
    """If this fails, two pods share an address, or one runs without."""
    await bind(services, "a")
    refused = await bind(services, "b")
    assert refused.message == "network blue has no free address"
    assert services.pods["b"]["spec"] == {}


async def test_a_pod_that_is_elsewhere_returns_its_address(services: Services) -> None:
    """If this fails, addresses leak until none is left."""
    services.pods["a"]["spec"]["nodeName"] = "other"
    refused = await bind(services, "a")
    assert "409: already assigned" in refused.message
    assert (services.given, services.free) == ({}, ["10.0.0.1"])


@pytest.mark.parametrize("bound", [True, False])
async def test_an_unknown_outcome_is_no_answer_and_cleared_up_by_the_next_call(services: Services, bound: bool) -> None:
    """If this fails, a pod that is bound is reported as not bound, and scheduled again."""
    services.fail_binding, services.bind_before_failing = 504, bound
    with pytest.raises(OSError, match="answered 504"):
        await bind(services, "a")
    assert services.given == {"uid-a": "10.0.0.1"}
    assert await bind(services, "a", unknown=True) is None
    assert services.pods["a"]["spec"] == {"nodeName": "n"}


async def test_a_service_that_is_not_there_is_an_unknown_outcome(services: Services) -> None:
    """If this fails, the pod counts as bound or failed though nobody knows."""
    nobody = http_json.Client("http://127.0.0.1:9", timeout_seconds=1)
    pod = core_pb2.Pod()
    pod.metadata.annotations[ipam_bind.NETWORK] = "blue"
    with pytest.raises(OSError, match="refused"):
        await ipam_bind.IpamBind(nobody, nobody).bind(sdk.Call(pod, "p"), bind_pb2.BindItem())


def test_the_account_of_the_pod_is_used_in_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it cannot run where it is meant to."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.9")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    client = http_json.api_server("")
    folder = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
    assert client == http_json.Client("https://10.0.0.9:443", folder / "token", folder / "ca.crt")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [([], "--ipam: must be the URL"), (["--ipam", "http://x"], "--api-server: must be set where this is not a pod")],
)
def test_missing_addresses_are_told(
    flags: list[str], problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, it starts and binds nothing."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert ipam_bind.main(flags) == 1
    assert problem in capsys.readouterr().err
