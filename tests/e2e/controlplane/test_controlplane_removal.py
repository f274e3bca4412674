"""Removing what deploy/ installs, with `kubectl delete`, while it leads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e import installation
from tests.e2e.controlplane import access_scenario
from tests.e2e.controlplane.test_controlplane_access import NAMESPACE, kubeconfig_of
from tools.controlplane import controlplane_fixture, deploy_manifests, launcher
from tools.controlplane.controlplane_fixture import start_controlplane

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

FOREIGN = ("Issuer", "Certificate")  # of cert-manager, which this cluster lacks
ELECTION = {"leaderElect": True, "resourceName": "kube-scheduler", "resourceNamespace": "kube-system"}


async def test_the_lease_is_released(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler, which takes over when Trireme is removed, would wait until the Lease runs out.

    When the frontends get their SIGTERM, the roles that let them give it back are gone.
    """
    cluster = start_controlplane(launcher.Options(authorization="RBAC"))
    installed = [
        entry for entry in deploy_manifests.objects("overlays/default-scheduler") if entry["kind"] not in FOREIGN
    ]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(installed))
    monkeypatch.setenv("POD_NAMESPACE", NAMESPACE)
    async with access_scenario.opened(cluster, tmp_path, nodes=1) as here:
        here.kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-frontend")
        here.bind_kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-bind")
        here.bind_flags = [
            "--leader-elect-resource-name=kube-scheduler",
            "--leader-elect-resource-namespace=kube-system",
        ]
        await here.start(configuration={"leaderElection": ELECTION})
        await here.logged(here.frontends[0], "Successfully acquired lease")
        # In the order of `kubectl delete -k`, each by a command of its own: this API server answers in 2 ms, so one
        # command would race with the frontend, which needs some tens.
        for entry in installed:
            cluster.kubectl("delete", "-f", "-", "--wait=false", stdin=yaml.safe_dump(entry))
        await here.logged(here.frontends[0], "namespace is being deleted, so this frontend leads no more", 10)

        def holder() -> str:
            lease = cluster.kubectl("get", "lease", "kube-scheduler", "--namespace", "kube-system", "-o", "json")
            identity: str = json.loads(lease)["spec"]["holderIdentity"]
            return identity

        await installation.until(lambda: not holder(), 10, holder)
        assert here.frontends[0].running
