"""The network of nodes on one machine: a network namespace for each, with a bridge between them and the control plane.

Each pod has a link to its node, which the CNI plugins make; the node routes between them, so that its rules see every
connection, and has a route to the pods of the others. Nothing of it is reachable from outside the machine.

Tests: tools/node/test_node_cluster.py.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

BRIDGE = "trireme-nodes"
GATEWAY = "10.99.0.1"
"""The control plane's address."""

_NAMES = "trireme-node-"


@dataclass(frozen=True, slots=True)
class Address:
    """What a node, counted from 0, has of the network."""

    number: int

    @property
    def name(self) -> str:
        """The name of its namespace, and of its Node."""
        return f"{_NAMES}{self.number}"

    @property
    def ip(self) -> str:
        """Its address on the bridge."""
        return f"10.99.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """The range of its pods."""
        return f"10.98.{self.number}.0/24"

    def inside(self) -> list[str]:
        """The beginning of a command that runs in its namespace; `ip netns exec` would hide the cgroups."""
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def cni_configuration(self, folder: Path) -> str:
        """For the CNI plugins of Debian's containernetworking-plugins; what they note goes into the folder."""
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": self.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(folder),
        }
        link = {"type": "ptp", "ipam": addresses}
        return json.dumps({"cniVersion": "0.4.0", "name": self.name, "plugins": [link]})


def make(addresses: list[Address]) -> None:
    """Make the bridge and the namespaces. Raises: CalledProcessError: the machine lets us not."""
    _run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    _run(["ip", "address", "add", f"{GATEWAY}/24", "dev", BRIDGE])
    _run(["ip", "link", "set", BRIDGE, "up"])
    for address in addresses:
        _add(address)
    for address in addresses:
        _run(["ip", "route", "add", address.pods, "via", address.ip])
        for other in addresses:
            if other != address:
                _run([*address.inside(), "ip", "route", "add", other.pods, "via", other.ip])


def _outer(address: Address) -> str:
    return f"node{address.number}"


def _add(address: Address) -> None:
    outer = _outer(address)
    _run(["ip", "netns", "add", address.name])
    _run(["ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", address.name])
    _run(["ip", "link", "set", outer, "master", BRIDGE, "up"])
    commands = (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "address", "add", f"{address.ip}/24", "dev", "eth0"],
        ["ip", "link", "set", "eth0", "up"],
        ["ip", "route", "add", "default", "via", GATEWAY],
        ["sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1"],
    )
    for command in commands:
        _run([*address.inside(), *command])


def set_connected(address: Address, connected: bool) -> None:
    """Cut a node off from all others and the control plane, or connect it again."""
    _run(["ip", "link", "set", _outer(address), "up" if connected else "down"])


def remove() -> None:
    """Remove the bridge and all namespaces of nodes, as far as they are there."""
    for namespace in Path("/run/netns").glob(f"{_NAMES}*"):
        subprocess.run(["ip", "netns", "delete", namespace.name], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
