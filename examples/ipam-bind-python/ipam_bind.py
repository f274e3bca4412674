"""The scheduler plugin IpamBind: a pod gets an address of its network in the moment in which it is bound.

`python ipam_bind.py --ipam http://ipam.example.com --listen 127.0.0.1:9000` serves it.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import http_json

from trireme import sdk
from trireme.v1 import bind_pb2, cycle_pb2

# A pod's network. Pods without it are left to the next binder.
NETWORK = "example.com/network"
# The address that the pod was given.
ADDRESS = "example.com/address"

log = logging.getLogger(__name__)


class IpamBind:
    """Binds the pods of networks: first an address from the IPAM service, then the Binding, with the address in it.

    Each step may be repeated, and does the same then. An answer that does not come (`OSError`) ends the call with a
    gRPC error: the scheduler then calls again until it knows what became of the pod.
    """

    info = sdk.Info(
        "IpamBind",
        version="1.0.0",
        depends_on=sdk.Dependency.NODE,
        pod_fields=(f"metadata.annotations['{NETWORK}']",),
    )

    def __init__(self, ipam: http_json.Client, api: http_json.Client) -> None:
        self._ipam = ipam
        self._api = api

    async def bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        """None: the pod is bound to the node, with an address; `SKIP`; or an error, and it is not bound."""
        network = call.pod.metadata.annotations.get(NETWORK, "")
        if not network:
            return sdk.SKIP
        # A thread: other pods are bound meanwhile.
        return await asyncio.to_thread(self._bind, network, item)

    def _bind(self, network: str, item: bind_pb2.BindItem) -> Any:
        pod = item.pod
        if item.outcome_unknown and self._is_bound(pod, item.node_name):
            return None
        allocation = f"/networks/{quote(network, safe='')}/addresses/{pod.uid}"
        code, answer = self._ipam.request("PUT", allocation, {"node": item.node_name})
        if code == 409:
            return sdk.error(f"network {network} has no free address")
        if code != 200:
            return sdk.error(f"the IPAM service answered {code}")
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            # The API server puts the annotations of a Binding on the pod.
            "metadata": {"name": pod.name, "uid": pod.uid, "annotations": {ADDRESS: answer["address"]}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": item.node_name},
        }
        code, answer = self._api.request("POST", f"{_path(pod)}/binding", binding)
        if code == 201 or (code == 409 and self._is_bound(pod, item.node_name)):
            return None
        if code >= 500 or code == 429:
            raise OSError(f"binding {pod.namespace}/{pod.name}: the API server answered {code}")
        # Certain: the pod is gone, or on another node. Nobody else would return its address.
        code_of_release, _ = self._ipam.request("DELETE", allocation)
        if code_of_release not in (200, 204, 404):
            log.error("address of %s/%s is not returned: %d", pod.namespace, pod.name, code_of_release)
        return sdk.error(f"binding: the API server answered {code}: {(answer or {}).get('message', '')}")

    def _is_bound(self, pod: cycle_pb2.PodIdentity, node: str) -> bool:
        """Whether this very pod is on the node."""
        code, found = self._api.request("GET", _path(pod))
        if code == 404:
            return False
        if code != 200:
            raise OSError(f"reading {pod.namespace}/{pod.name}: the API server answered {code}")
        return bool(found["metadata"]["uid"] == pod.uid and found["spec"].get("nodeName") == node)


def _path(pod: cycle_pb2.PodIdentity) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the plugin; returns the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--ipam", default="")
    parser.add_argument("--api-server", default="")
    options, others = parser.parse_known_args(argv)
    try:
        if not options.ipam.startswith(("http://", "https://")):
            raise ValueError("--ipam: must be the URL of the IPAM service")
        plugin = IpamBind(http_json.Client(options.ipam), http_json.api_server(options.api_server))
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return sdk.main(plugin, others)


if __name__ == "__main__":
    raise SystemExit(main())
