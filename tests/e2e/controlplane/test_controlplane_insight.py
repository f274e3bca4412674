"""Insight's HTTP API with a real API server that reviews its callers, and with the account that deploy/ gives it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.helpers import insight_http
from tools.controlplane import controlplane_fixture, launcher
from tools.controlplane.controlplane_fixture import start_controlplane
from trireme.insight import flags
from trireme.insight.http_api import http_server
from trireme.rpc import listen_flags
from trireme_kube.componentbase import supervision

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

NAMESPACE = "trireme-system"
COMPONENT = launcher.REPOSITORY / "deploy" / "components" / "insight-http"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:trireme-insight"


async def _get(url: str, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.get(url + insight_http.PATH, headers=headers) as response:
        return response.status, await response.text()


async def test_rights_of_the_cluster_are_rights_to_explanations(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """The fakes of other tests could review in another way than an API server does."""
    cluster = start_controlplane(launcher.Options(authorization="RBAC"))
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "serviceaccount", "trireme-insight", "--namespace", NAMESPACE)
    cluster.kubectl("apply", "-f", str(COMPONENT / "reviews.yaml"))
    tokens = {}
    for name in ("nobody", "developer", "operator"):
        cluster.kubectl("create", "serviceaccount", name)
        tokens[name] = cluster.kubectl("create", "token", name).strip()
    for name in ("developer", "operator"):
        cluster.kubectl("create", "role", name, "--verb=get", "--resource=pods", "--resource-name=large")
        cluster.kubectl("create", "rolebinding", name, f"--role={name}", f"--serviceaccount=default:{name}")
    cluster.kubectl("create", "clusterrole", "lister", "--verb=list", "--resource=nodes,pods")
    cluster.kubectl(
        "create", "clusterrolebinding", "lister", "--clusterrole=lister", "--serviceaccount=default:operator"
    )
    token = cluster.kubectl("create", "token", "trireme-insight", "--namespace", NAMESPACE).strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(launcher.kubeconfig(cluster.server, cluster.authority, "insight", token))

    address = listen_flags.parse_address("127.0.0.1:0")
    checked = flags.HttpFlags(address, "", "", "", str(kubeconfig), str(kubeconfig))
    async with http_server.serve(checked, await insight_http.replica(), supervision.Supervisor()) as url:
        assert (await _get(url, "wrong"))[0] == 401
        code, text = await _get(url, tokens["nobody"])
        assert code == 403
        assert 'User \\"system:serviceaccount:default:nobody\\" cannot get resource \\"pods\\"' in text
        code, text = await _get(url, tokens["developer"])
        assert (code, '"nodeCount": 3' in text, '"n0"' in text) == (200, True, False)
        code, text = await _get(url, tokens["operator"])
        assert (code, '"n0"' in text) == (200, True)


def test_the_account_may_have_callers_reviewed_and_nothing_else(
    start_controlplane: controlplane_fixture.StartControlPlane,
) -> None:
    """Insight sees the whole cluster and must stay unable to change it."""
    cluster = start_controlplane(launcher.Options(authorization="RBAC"))
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("create", "serviceaccount", "trireme-insight", "--namespace", NAMESPACE)
    cluster.kubectl("apply", "-f", str(COMPONENT / "reviews.yaml"))
    listed = cluster.kubectl("auth", "can-i", "--list", "--as", ACCOUNT, "--no-headers")
    writes = ("create", "update", "patch", "delete", "deletecollection", "*")
    found = {
        line.split()[0] for line in listed.splitlines() if any(f"[{verb}" in line.split(None, 1)[1] for verb in writes)
    }
    own = {name for name in found if "selfsubject" not in name}
    assert own == {"tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"}
