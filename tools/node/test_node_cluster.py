"""Trireme runs in containers on a node: the chart's pods become ready, and other pods run."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers import requirements
from tools.controlplane import build_controlplane, controlplane_fixture
from tools.image import build_image
from tools.node import leftovers, networks, node_cluster, rare_trial
from tools.node.installation import SERVICES, Installation
from tools.node.node_cluster import NodeCluster
from tools.programs import programs_fixture

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
def test_the_chart_is_installed_upgraded_and_uninstalled_on_a_node_and_nothing_is_left(tmp_path: Path) -> None:
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
        rare_trial.ask_by_kubectl(here)
        here.run_chart_test()
        here.upgrade("pods.labels.upgraded=yes")
        here.await_ready()
        here.run_pods("upgraded", 3)
        here.uninstall()
    assert str(node_cluster.FOLDER) not in Path("/proc/self/mountinfo").read_text()
    assert list(leftovers.cgroups(node_cluster.CGROUP)) == []
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert "trireme-node" not in namespaces
