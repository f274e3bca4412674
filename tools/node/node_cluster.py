"""A real cluster on this machine: the control plane, and nodes with containerd, kubelet and kube-proxy.

    python -m tools.node.node_cluster --nodes 2 -- kubectl get nodes

Everything is built from package registries, so no container registry is needed. A node is a network namespace with a
runtime of its own, where nftables enforces NetworkPolicies; it shares the machine's processors and memory with the
others. Needs root on Debian, and ends its containers, mounts and namespaces when it ends. One such cluster runs on a
machine at a time.

Tests: tools/node/test_node_cluster.py.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import yaml

from tools.controlplane import access_log, build_controlplane, launcher
from tools.image import build_image
from tools.node import addons, leftovers, networks
from tools.node.networks import Address
from tools.node.policies import Enforcer
from tools.node.runtime import Runtime, RuntimeFailedError, build_pause

FOLDER = Path("/run/trireme-nodes")
LOGS = launcher.REPOSITORY / "build" / "node-logs"
IMAGE = "docker.io/library/trireme"
SCHEDULER = "system:kube-scheduler"
"""The user of the scheduler that kubeadm installs."""

CGROUP = "trireme-nodes"
_LOCK = Path("/run/trireme-nodes.lock")
_PROGRAMS = ("containerd", "runc", "buildah", "mmdebstrap", "iptables", "nft", "nsenter", "ip", "sysctl", "cc", "go")
_READY_SECONDS = 120.0
_AGGREGATION = FOLDER / "aggregation"
# NetworkPolicies name it.
_API_SERVER_PORT = 6443


def missing() -> str:
    """What this machine lacks for a cluster with nodes, in a line, or an empty text."""
    if os.geteuid() != 0:
        return "no real node: it needs root"
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"no real node: install {', '.join(absent)}"
    if not Path("/usr/lib/cni/bridge").exists():
        return "no real node: install containernetworking-plugins"
    namespace = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if namespace.returncode == 0 else "no real node: network namespaces are not allowed"


def build() -> None:
    """Build what is missing of programs and images: a quarter of an hour the first time. Raises: SystemExit."""
    for binary in (build_controlplane.BINARY, build_controlplane.NODE):
        if not build_controlplane.up_to_date(binary):
            build_controlplane.build(binary)
    build_image.build()


class NodeCluster:
    """A running cluster, as a context manager: its nodes are ready on entry, all is gone on exit but logs."""

    def __init__(self, nodes: int = 1) -> None:
        self.addresses = [Address(number) for number in range(nodes)]
        users = [launcher.User(f"system:node:{each.name}", ("system:nodes",)) for each in self.addresses]
        self.plane = launcher.ControlPlane(
            launcher.Options(
                authorization="Node,RBAC",
                users=(*users, launcher.User("system:kube-proxy"), launcher.User(SCHEDULER)),
                disable_admission=(),
                controllers=True,
                scheduler=True,
                kubelets=True,
                address=networks.GATEWAY,
                port=_API_SERVER_PORT,
                extra={
                    "kube-scheduler": ("--leader-elect=true",),
                    # By default autoscalers wait five minutes before they remove a replica.
                    "kube-controller-manager": ("--horizontal-pod-autoscaler-downscale-stabilization=30s",),
                    # Nodes' names are in no DNS; ports of pods are forwarded by the kubelets.
                    "kube-apiserver": (
                        "--kubelet-preferred-address-types=InternalIP",
                        *access_log.flags(FOLDER),
                        *addons.aggregation_flags(_AGGREGATION),
                    ),
                },
            ),
            directory=FOLDER / "controlplane",
        )
        self._enforcer = Enforcer(self.plane, self.addresses)
        self._runtimes: list[Runtime] = []
        self._children: list[launcher.Child] = []
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if lack := missing():
            raise SystemExit(lack)
        self._lock = _LOCK.open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("node: waiting for another cluster on this machine to end", flush=True)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._remove()  # of a cluster whose owner was killed
        try:
            FOLDER.mkdir()
            addons.make_aggregation_certificates(_AGGREGATION)
            networks.make(self.addresses)
            self.plane.__enter__()
            build_pause(FOLDER / "pause.tar")
            for address in self.addresses:
                self._start_node(address)
            self._await_nodes()
            self._enforcer.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self, namespace: str) -> str:
        """Pods and the newest events of a namespace, for the message of a failure."""
        pods = self.plane.kubectl("get", "pods", "--all-namespaces", "--output=wide")
        events = self.plane.kubectl("get", "events", f"--namespace={namespace}", "--sort-by=.lastTimestamp")
        return "\n".join([pods, *events.splitlines()[-20:]])

    def close(self) -> None:
        """End everything, and keep the logs in build/node-logs."""
        self._enforcer.stop()
        for child in reversed(self._children):
            launcher.stop(child)
        self._children.clear()
        self.plane.close()
        shutil.rmtree(LOGS, ignore_errors=True)
        LOGS.mkdir(parents=True)
        for log in FOLDER.glob("*/*.log"):
            shutil.copy(log, LOGS / f"{log.parent.name}-{log.name}")
        self._remove()
        if self._lock:
            self._lock.close()

    def load_image(self, archive: Path) -> None:
        """Give an archive of Trireme's image to all nodes. Raises: RuntimeFailedError."""
        for runtime in self._runtimes:
            runtime.load(archive, IMAGE)

    @staticmethod
    def _remove() -> None:
        leftovers.remove(FOLDER, CGROUP)
        networks.remove()

    def _start_node(self, address: Address) -> None:
        folder = FOLDER / address.name
        runtime = Runtime(address, folder)
        self._children.append(runtime.start())
        self._runtimes.append(runtime)
        runtime.load(FOLDER / "pause.tar", "localhost/pause")
        runtime.load(build_image.archive(), IMAGE)
        cgroup = f"{CGROUP}/{address.name}"
        leftovers.make_cgroup(cgroup)
        kubelet = folder / "kubelet.yaml"
        kubelet.write_text(yaml.safe_dump(_kubelet(runtime, folder, cgroup)))
        (folder / "manifests").mkdir()
        self._start(
            address,
            "kubelet",
            f"--config={kubelet}",
            f"--kubeconfig={self.plane.kubeconfig_of(f'system:node:{address.name}')}",
            f"--hostname-override={address.name}",
            f"--node-ip={address.ip}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'certificates'}",
        )
        proxy = folder / "kube-proxy.yaml"
        proxy.write_text(yaml.safe_dump(_kube_proxy(self.plane.kubeconfig_of("system:kube-proxy"), address)))
        self._start(address, "kube-proxy", f"--config={proxy}")

    def _start(self, address: Address, program: str, *flags: str) -> None:
        command = [*address.inside(), str(build_controlplane.NODE), program, *flags]
        self._children.append(launcher.spawn(program, command, FOLDER / address.name / f"{program}.log"))

    def _await_nodes(self) -> None:
        wanted = [f"node/{each.name}" for each in self.addresses]
        ends = time.monotonic() + _READY_SECONDS
        while True:
            for child in self._children:
                if child.process.poll() is not None:
                    raise RuntimeFailedError(f"{child.name} ended\n{child.tail()}")
            try:
                self.plane.kubectl("wait", "--for=condition=Ready", *wanted, "--timeout=10s")
                return
            except launcher.ControlPlaneError as error:
                if time.monotonic() > ends:
                    raise RuntimeFailedError(f"nodes are not ready: {error}; logs are in {LOGS}") from error
                time.sleep(0.5)


def _kubelet(runtime: Runtime, folder: Path, cgroup: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Only this machine reaches it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # a lower one needs CAP_SYS_RESOURCE
        "readOnlyPort": 0,
        "staticPodPath": str(folder / "manifests"),
        "podLogsDir": str(folder / "pod-logs"),
        # Images cannot be pulled again, and the disk is the machine's.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
    }


def _kube_proxy(kubeconfig: Path, address: Address) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": address.name,
        "clusterCIDR": "10.98.0.0/16",
        # A namespace may not change what the machine tracks of connections.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def main(arguments: Sequence[str]) -> int:
    """Run a cluster until Ctrl-C, or for as long as a command takes; returns its exit code."""
    parser = argparse.ArgumentParser(description="Run a real cluster with nodes on this machine.")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("command", nargs="*", help="a command to run with KUBECONFIG set")
    chosen = parser.parse_args(arguments)
    if lack := missing():
        print(lack, file=sys.stderr)
        return 1
    build()
    try:
        with NodeCluster(chosen.nodes) as cluster:
            return launcher.serve(cluster.plane, chosen.command)
    except (launcher.ControlPlaneError, RuntimeFailedError) as error:
        print(f"node: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
