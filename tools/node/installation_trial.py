"""Installs Trireme on a real cluster of two nodes, and scales, rolls, kills and drains it under load: `make test-node`.

Each step prints its seconds and ends only when all pods run that were created meanwhile. `--steps install,drain`
chooses some; all of one installation need `install`.

Tests: tools/node/test_node_cluster.py.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from tools.controlplane import launcher
from tools.image import build_image
from tools.image.image_archive import ImageArchive
from tools.node import (
    autoscaling_trial,
    certificate_trial,
    first_hour,
    networks,
    node_cluster,
    policy_trial,
    rare_trial,
    upgrade_trial,
)
from tools.node.installation import NAMESPACE, PHASES, SERVICES, Installation, TrialFailedError, until
from tools.node.load import Load
from tools.node.node_cluster import IMAGE, NodeCluster
from tools.node.runtime import RuntimeFailedError
from tools.release import versions

_DEFAULT = "default-scheduler"


class Trial:
    """The steps, in order; each is a method."""

    def __init__(self, installation: Installation) -> None:
        self._here = installation

    def install(self) -> None:
        """Install the chart; every Deployment is ready, and ten pods run."""
        self._here.make_certificates()
        self._here.install()
        self._here.await_ready()
        seconds = self._here.run_pods("first", 10)
        print(f"  ten pods run after {seconds:.1f} s")
        for service in SERVICES:
            sizes = ", ".join(f"{self._here.memory(pod):.0f}" for pod in self._here.pods(service))
            print(f"  {service}: {sizes} MB")

    def policies(self) -> None:
        """NetworkPolicies: every process reaches what it has to reach, and strangers reach nothing."""
        print(f"  {policy_trial.check(self._here)} connections are as the policies have them")

    def rare(self) -> None:
        """Readers ask, a pod preempts another, volumes are bound and provisioned: what plain pods do not need."""
        rare_trial.run(self._here)

    def scale(self) -> None:
        """Each Deployment gets another replica, and loses it."""
        with Load(self._here, "trireme"):
            for replicas in (3, 2):
                for service in SERVICES:
                    self._here.kubectl("scale", f"deployment/trireme-{service}", f"--replicas={replicas}")
                self._here.await_ready()

    def roll(self) -> None:
        """All Deployments are restarted at once."""
        with Load(self._here, "trireme"):
            self._restart_all()
            self._here.await_ready()

    def kill(self) -> None:
        """A container of each service is killed, one service after the other."""
        with Load(self._here, "trireme"):
            for service in SERVICES:
                self._kill_one(service)
                self._here.await_ready(service)

    def memory(self) -> None:
        """A container of each service runs out of memory, one service after the other."""
        with Load(self._here, "trireme"):
            for service in SERVICES:
                self._exhaust_one(service)
                self._here.await_ready(service)

    def leader(self) -> None:
        """The leader's pod is deleted; another frontend leads, and five pods run."""
        before = self._here.leader()
        self._here.kubectl("delete", "pod", before, "--wait=false")
        until(lambda: self._here.leader() not in ("", before), "another frontend leads")
        print(f"  five pods run after {self._here.run_pods('led', 5):.1f} s")
        self._here.await_ready()

    def phases(self) -> None:
        """All pods of filter, score and bind are deleted at once."""
        with Load(self._here, "trireme"):
            self._delete_phases()
            self._here.await_ready()

    def drain(self) -> None:
        """A node is drained, within the disruption budgets."""
        node = self._here.cluster.addresses[-1].name
        with Load(self._here, "trireme"):
            drained = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s")
            self._here.kubectl(*drained)
            self._here.await_ready()
        self._here.kubectl("uncordon", node)
        self._restart_all()  # pods stay where they are: both nodes get some again
        self._here.await_ready()

    def lost(self) -> None:
        """The node with the leader is cut off; a frontend on another node leads, and five pods run."""
        here = self._here
        before = here.leader()
        if len({pod["spec"]["nodeName"] for pod in here.pods("frontend")}) < 2:
            raise TrialFailedError("all frontends are on one node: there is none that could lead")
        (node,) = (pod["spec"]["nodeName"] for pod in here.pods("frontend") if pod["metadata"]["name"] == before)
        (address,) = (each for each in here.cluster.addresses if each.name == node)
        with Load(here, "trireme"):
            began = time.monotonic()
            networks.set_connected(address, False)
            until(lambda: here.leader() not in ("", before), "another frontend leads")
            print(f"  another frontend leads after {time.monotonic() - began:.0f} s", flush=True)
            # Pods may be placed on the node until it is seen to be gone.
            here.kubectl("wait", "--for=condition=Ready=Unknown", f"node/{node}", "--timeout=120s")
            print(f"  five pods run after {here.run_pods('elsewhere', 5):.1f} s")
            networks.set_connected(address, True)
            here.kubectl("wait", "--for=condition=Ready", f"node/{node}", "--timeout=120s")
            here.await_ready()

    def autoscale(self) -> None:
        """With metrics-server, filter gets another replica while it evaluates much, and loses it afterwards."""
        autoscaling_trial.scale_filter(self._here)

    def rotate(self) -> None:
        """cert-manager makes the certificates, and renews them under load."""
        self._here.uninstall()
        certificate_trial.rotate(self._here)

    def upgrade(self) -> None:
        """From the release before to this one and back under load, in any order, without a lost or doubled pod."""
        self._here.uninstall()
        upgrade_trial.upgrade_and_roll_back(self._here)

    def standalone(self) -> None:
        """One Deployment without certificates."""
        self._here.uninstall()
        self._here.install("mode=standalone")
        self._here.await_ready("frontend")
        print(f"  five pods run after {self._here.run_pods('alone', 5):.1f} s")

    def default(self) -> None:
        """In kube-scheduler's place; all its phase pods, which it schedules itself, are deleted at once."""
        self._here.uninstall()
        plane = self._here.cluster.plane
        with _without_kube_scheduler(plane) as stopped:
            self._here.install("scheduler.default=true")
            # Its pods name the scheduler that they are: kube-scheduler gives the first ones their nodes.
            until(lambda: all(self._has_node(service) for service in SERVICES), "pods of the scheduler have nodes")
            stopped()
            self._here.await_ready()
            print(f"  five pods run after {self._here.run_pods('replaced', 5, _DEFAULT):.1f} s")
            with Load(self._here, _DEFAULT):
                self._delete_phases()
                self._here.await_ready()
            self._here.uninstall()

    def static(self) -> None:
        """The static pod of kubeadm with the image, the command's name and the user changed."""
        cluster = self._here.cluster
        address = cluster.addresses[0]
        manifest = node_cluster.FOLDER / address.name / "manifests" / "kube-scheduler.yaml"
        with _without_kube_scheduler(cluster.plane) as stopped:
            stopped()
            manifest.write_text(yaml.safe_dump(_static_pod(cluster.plane)))
            pod = f"kube-scheduler-{address.name}"
            named = ("get", "pod", pod, "--namespace=kube-system", "--ignore-not-found", "--output=name")
            until(lambda: bool(cluster.plane.kubectl(*named)), "the kubelet starts the static pod")
            self._await("condition=Ready", pod)
            print(f"  five pods run after {self._here.run_pods('static', 5, _DEFAULT):.1f} s")
            self._here.check_requests()
            manifest.unlink()
            self._await("delete", pod)

    def hour(self) -> None:
        """A reader's first hour: the commands of docs/tutorials/replacing.md, each step in its time."""
        with tempfile.TemporaryDirectory(prefix="trireme-reader-") as home:
            first_hour.Reader(self._here, Path(home)).follow()

    def shadow(self) -> None:
        """Shadow alone, beside kube-scheduler: it reports what it would have decided."""
        with rare_trial.visible_kube_scheduler(self._here.cluster.plane):
            self._here.install("mode=shadow")
            self._here.await_ready("shadow")
            self._here.run_pods("compared", 5, _DEFAULT)
            until(lambda: self._comparison()["compared"] > 0, "shadow compares placements")
            print(f"  {self._comparison()}")
            self._here.uninstall()

    def permissions(self) -> None:
        """After all steps: the chart's roles give nothing that nobody used, but what has a reason."""
        print(f"  of {self._here.check_permissions()} permissions all are used, or have a reason")

    def _comparison(self) -> dict[str, int]:
        """What shadow's last report counts."""
        last = self._here.kubectl("logs", "deployment/trireme-shadow", "--tail=1")
        counts: dict[str, int] = json.loads(last)["comparison"]
        return counts

    def _restart_all(self) -> None:
        self._here.kubectl("rollout", "restart", *(f"deployment/trireme-{service}" for service in SERVICES))

    def _kill_one(self, service: str) -> None:
        before = self._here.restarts(service)
        self._here.kill(self._here.pods(service)[0])
        until(lambda: self._here.restarts(service) > before, "a killed container is restarted")

    def _exhaust_one(self, service: str) -> None:
        self._here.run_out_of_memory(self._here.pods(service)[0])
        until(lambda: "OOMKilled" in self._here.ends(service), f"a {service} is killed for its memory")

    def _delete_phases(self) -> None:
        names = ",".join(f"trireme-{phase}" for phase in PHASES)
        self._here.kubectl("delete", "pods", f"--selector=app.kubernetes.io/name in ({names})", "--wait=false")
        time.sleep(2)  # until the Deployments are seen to lack them

    def _await(self, state: str, pod: str) -> None:
        flags = ("--namespace=kube-system", "--timeout=110s")
        self._here.cluster.plane.kubectl("wait", f"--for={state}", f"pod/{pod}", *flags, timeout=120)

    def _has_node(self, service: str) -> bool:
        pods = self._here.pods(service)
        return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


STEPS: dict[str, Callable[[Trial], None]] = {
    each.__name__: each
    for each in (
        Trial.install, Trial.policies, Trial.rare, Trial.scale, Trial.roll, Trial.kill, Trial.memory, Trial.leader,
        Trial.phases, Trial.drain, Trial.lost, Trial.autoscale, Trial.rotate, Trial.upgrade, Trial.standalone,
        Trial.default, Trial.static, Trial.shadow, Trial.hour, Trial.permissions,
    )
}  # fmt: skip


@contextlib.contextmanager
def _without_kube_scheduler(plane: launcher.ControlPlane) -> Iterator[Callable[[], None]]:
    """A function that stops it; it runs again afterwards."""
    yield lambda: plane.stop_program("kube-scheduler")
    if "kube-scheduler" not in plane.children:
        plane.start_scheduler()


def _static_pod(plane: launcher.ControlPlane) -> dict[str, object]:
    """What kubeadm writes, with the changes that docs/deployment.md has."""
    kubeconfig = str(plane.kubeconfig_of(node_cluster.SCHEDULER))
    flags = [
        f"--{name}={kubeconfig}" for name in ("authentication-kubeconfig", "authorization-kubeconfig", "kubeconfig")
    ]
    probe = {"httpGet": {"host": "127.0.0.1", "path": "/readyz", "port": 10259, "scheme": "HTTPS"}}
    folder = str(plane.directory)
    container = {
        "name": "kube-scheduler",
        "image": f"{IMAGE}:{versions.current()}",
        "command": ["trireme-frontend", *flags, "--bind-address=127.0.0.1", "--leader-elect=true"],
        "securityContext": {"runAsUser": 0},
        "readinessProbe": probe,
        "volumeMounts": [{"name": "kubeconfig", "mountPath": folder, "readOnly": True}],
    }
    volume = {"name": "kubeconfig", "hostPath": {"path": folder, "type": "Directory"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {"hostNetwork": True, "containers": [container], "volumes": [volume]},
    }


def run(steps: Sequence[str], nodes: int) -> None:
    """Run the steps on a new cluster. Raises: what a step raises."""
    began = time.monotonic()
    with NodeCluster(nodes) as cluster, tempfile.TemporaryDirectory(prefix="trireme-trial-") as home:
        image = ImageArchive(build_image.archive())
        print(f"nodes ready: {time.monotonic() - began:.0f} s; the image has {image.compressed_bytes / 1e6:.0f} MB")
        trial = Trial(Installation(cluster, Path(home)))
        for name in steps:
            print(f"{name}: {' '.join((STEPS[name].__doc__ or '').split())}", flush=True)
            began = time.monotonic()
            try:
                STEPS[name](trial)
            except Exception:
                print(cluster.describe(NAMESPACE), file=sys.stderr)
                raise
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen steps; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description="Install Trireme on a real cluster, and break it.")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--steps", default=",".join(STEPS), help="of " + ", ".join(STEPS))
    chosen = parser.parse_args(arguments)
    steps = chosen.steps.split(",")
    if unknown := [name for name in steps if name not in STEPS]:
        parser.error(f"--steps: there is no {unknown[0]}; there are {', '.join(STEPS)}")
    if lack := node_cluster.missing():
        print(f"skipped: {lack}")
        return 0
    node_cluster.build()
    try:
        run(steps, chosen.nodes)
    except (launcher.ControlPlaneError, RuntimeFailedError, TrialFailedError) as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
