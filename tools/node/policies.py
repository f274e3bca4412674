"""NetworkPolicies enforced: nftables rules of the nodes, from the policies and pods of the cluster.

The CNI plugins of Debian ignore policies, and those that do not come as images. Connections of pods are routed through
their node, so one chain of the node's namespace sees all of them; traffic of the node itself, as probes are, passes as
Kubernetes has it. An address that a Service had is replaced by the endpoint's before these rules see it.

Tests: tools/node/test_policies.py, tools/node/test_node_cluster.py.
"""

import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tools.controlplane import launcher
from tools.node.networks import Address
from trireme_kube.embedded.api import selectors

_TABLE = "ip trireme-policies"
_INTERVAL_SECONDS = 0.5
_PATHS = ("/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/pods", "/api/v1/namespaces")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Direction:
    """What differs between connections to a pod and from it."""

    kind: str
    peers: str
    own: str
    other: str


_DIRECTIONS = (_Direction("Egress", "to", "saddr", "daddr"), _Direction("Ingress", "from", "daddr", "saddr"))


class _Cluster:
    """The pods with an address of their own, and the labels of namespaces."""

    def __init__(self, pods: Sequence[Json], namespaces: Sequence[Json]) -> None:
        self._pods = [pod for pod in pods if _has_own_address(pod)]
        self._labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}

    def selected(self, selector: Json, namespaces: set[str]) -> list[Json]:
        """The pods of these namespaces with these labels."""
        matches = selectors.compile_label_selector(selector)
        return [
            pod
            for pod in self._pods
            if pod["metadata"]["namespace"] in namespaces and matches(pod["metadata"].get("labels") or {})
        ]

    def peers(self, peer: Json, namespace: str) -> list[Json]:
        """The pods that a peer of a policy in this namespace selects."""
        namespaces = {namespace}
        if "namespaceSelector" in peer:
            matches = selectors.compile_label_selector(peer["namespaceSelector"])
            namespaces = {name for name, labels in self._labels.items() if matches(labels)}
        return self.selected(peer.get("podSelector", {}), namespaces)


def _has_own_address(pod: Json) -> bool:
    running = pod["status"].get("phase") not in ("Succeeded", "Failed")
    return running and bool(pod["status"].get("podIP")) and not pod["spec"].get("hostNetwork")


def ruleset(policies: Sequence[Json], pods: Sequence[Json], namespaces: Sequence[Json]) -> str:
    """What `nft -f` reads: it replaces the earlier rules."""
    cluster = _Cluster(pods, namespaces)
    jumps, chains = [], []
    for direction in _DIRECTIONS:
        for address, allowed in _isolated(cluster, policies, direction).items():
            chain = f"{direction.kind.lower()}-{address.replace('.', '-')}"
            jumps.append(f"ip {direction.own} {address} jump {chain}")
            chains.append([f"chain {chain} {{", *allowed, "counter drop", "}"])
    forward = [
        "type filter hook forward priority filter; policy accept;",
        "ct state established,related accept",
        *jumps,
    ]
    body = [line for chain in chains for line in chain] + ["chain forward {", *forward, "}"]
    return "\n".join([f"table {_TABLE}", f"delete table {_TABLE}", f"table {_TABLE} {{", *body, "}", ""])


def _isolated(cluster: _Cluster, policies: Sequence[Json], direction: _Direction) -> dict[str, list[str]]:
    """The rules that let connections of each pod pass that a policy of this direction selects, by its address."""
    found: dict[str, list[str]] = {}
    for policy in policies:
        spec, namespace = policy["spec"], policy["metadata"]["namespace"]
        if direction.kind not in spec["policyTypes"]:
            continue
        for pod in cluster.selected(spec["podSelector"], {namespace}):
            rules = found.setdefault(pod["status"]["podIP"], [])
            for rule in spec.get(direction.kind.lower()) or ():
                for match, peer in _peers(cluster, rule.get(direction.peers), namespace, direction):
                    called = pod if direction.kind == "Ingress" else peer
                    rules.extend(f"{match} {port} return" for port in _ports(rule.get("ports"), called))
    return found


def _peers(
    cluster: _Cluster, peers: Sequence[Json] | None, namespace: str, direction: _Direction
) -> Iterator[tuple[str, Json | None]]:
    """What matches each peer, and the peer if it is a pod."""
    if not peers:
        yield "", None
    for peer in peers or ():
        if block := peer.get("ipBlock"):
            but = "".join(f" ip {direction.other} != {each}" for each in block.get("except") or ())
            yield f"ip {direction.other} {block['cidr']}{but}", None
            continue
        for pod in cluster.peers(peer, namespace):
            yield f"ip {direction.other} {pod['status']['podIP']}", pod


def _ports(ports: Sequence[Json] | None, called: Json | None) -> Iterator[str]:
    """What matches each port; a name is that of a port of the pod that is called."""
    if not ports:
        yield ""
    for each in ports or ():
        protocol, port = each.get("protocol", "TCP").lower(), each.get("port")
        if port is None:
            yield f"meta l4proto {protocol}"
        elif isinstance(port, int):
            yield f"{protocol} dport " + (f"{port}-{each['endPort']}" if "endPort" in each else str(port))
        else:
            containers = called["spec"]["containers"] if called else ()
            named = (one for container in containers for one in container.get("ports") or ())
            yield from (f"{protocol} dport {one['containerPort']}" for one in named if one.get("name") == port)


class Enforcer:
    """Keeps the rules of all nodes up to date, in a thread."""

    def __init__(self, plane: launcher.ControlPlane, addresses: Sequence[Address]) -> None:
        self._plane = plane
        self._addresses = addresses
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policies")
        self._rules = ""

    def start(self) -> None:
        """Return once the rules are there. Raises: URLError, CalledProcessError."""
        self._update()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the rules end with the namespaces."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECONDS):
            try:
                self._update()
            except urllib.error.URLError:  # the API server is busy; the next time
                continue

    def _update(self) -> None:
        rules = ruleset(*(self._list(path) for path in _PATHS))
        if rules != self._rules:
            for address in self._addresses:
                command = [*address.inside(), "nft", "--file", "-"]
                subprocess.run(command, input=rules, text=True, check=True, capture_output=True)
            self._rules = rules

    def _list(self, path: str) -> list[Json]:
        headers = {"Authorization": f"Bearer {self._plane.token()}"}
        request = urllib.request.Request(self._plane.server + path, headers=headers)
        context = ssl.create_default_context(cafile=str(self._plane.authority))
        with urllib.request.urlopen(request, timeout=10, context=context) as response:
            items: list[Json] = json.load(response)["items"]
        return items
