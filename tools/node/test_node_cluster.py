"""Trireme runs in containers on a node: the chart's pods become ready, and other pods run."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers import requirements
from tools.controlplane import build_controlplane, controlplane_fixture
from tools.image import build_image
from tools.node import leftovers, networks, node_cluster
from tools.node.installation import NAMESPACE, SERVICES, Installation
from tools.node.node_cluster import NodeCluster
from tools.programs import programs_fixture

# How long a frontend remembers a refusal, as kube-scheduler does, and more.
_REFUSALS_SECONDS = 30.0

pytestmark = [pytest.mark.timeout(1500), pytest.mark.processes, pytest.mark.slow]


def test_a_machine_without_rights_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert node_cluster.missing() == "no real node: it needs root"


def test_a_machine_without_programs_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert node_cluster.missing().startswith("no real node: install containerd, runc")


def test_nodes_share_no_addresses() -> None:
    addresses = [networks.Address(number) for number in range(3)]
    for attribute in ("name", "ip", "pods"):
        assert len({getattr(each, attribute) for each in addresses}) == 3


@pytest.mark.controlplane
def test_the_chart_runs_on_a_node_and_nothing_is_left(tmp_path: Path) -> None:
    if lack := node_cluster.missing():
        pytest.skip(lack)
    controlplane_fixture.require_built()
    requirements.require(build_controlplane.up_to_date(build_controlplane.NODE), "build/node is missing: `make node`")
    programs_fixture.require_programs()
    build_image.build()
    with NodeCluster() as cluster:
        here = Installation(cluster, tmp_path)
        here.make_certificates()
        here.install()
        here.await_ready()
        here.run_pods("smoke", 3)
        for service in SERVICES:
            assert all(pod["status"]["hostIP"] == cluster.addresses[0].ip for pod in here.pods(service))
        _ask_by_kubectl(here)
    assert str(node_cluster.FOLDER) not in Path("/proc/self/mountinfo").read_text()
    assert list(leftovers.cgroups(node_cluster.CGROUP)) == []
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert "trireme-node" not in namespaces


def _ask_by_kubectl(here: Installation) -> None:
    """The administrator asks the leader, and others if they have the chart's roles for readers."""
    status = here.trireme("status", "--output=json")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)["leadership"]["leading"]
    here.kubectl("create", "serviceaccount", "ann")
    account, token = f"--serviceaccount={NAMESPACE}:ann", here.kubectl("create", "token", "ann").strip()
    explain = ("explain", "default/none", f"--scheduler-namespace={NAMESPACE}")
    refused = here.trireme(*explain, token=token)
    assert refused.returncode == 1
    assert f'User "system:serviceaccount:{NAMESPACE}:ann" cannot list resource "pods"' in refused.stderr
    here.kubectl("create", "rolebinding", "ann", "--role=trireme-reader", account)
    refused = here.trireme(*explain, token=token)
    assert "Its role must allow `get` of the non-resource URL /trireme/v1/*" in refused.stderr
    here.kubectl("create", "clusterrolebinding", "ann", "--clusterrole=trireme-reader", account)
    ends = time.monotonic() + _REFUSALS_SECONDS
    while "forbidden" in (answered := here.trireme(*explain, token=token)).stderr:
        assert time.monotonic() < ends, answered.stderr
    assert "default/none" in answered.stderr, answered
