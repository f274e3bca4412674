"""What the trial concludes from the API server's audit log."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from tools.node import installation
from tools.node.installation import Installation, TrialFailedError
from tools.node.load import Load
from tools.node.node_cluster import NodeCluster

Json = dict[str, Any]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setattr(installation, "FOLDER", tmp_path)
    plane = SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", kubectl=lambda *arguments, **more: "")
    return Installation(cast(NodeCluster, SimpleNamespace(plane=plane)), tmp_path)


def log(folder: Path, *events: Json) -> None:
    with (folder / "audit.log").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in events)


def binding(name: str, code: int = 201, decision: str = "allow", account: str = "trireme-bind") -> Json:
    return {
        "user": {"username": f"system:serviceaccount:trireme-system:{account}"},
        "verb": "create",
        "objectRef": {"resource": "pods", "subresource": "binding", "namespace": "default", "name": name},
        "annotations": {"authorization.k8s.io/decision": decision},
        "responseStatus": {"code": code},
    }


def test_a_refused_request_of_the_scheduler_fails_the_trial(here: Installation, tmp_path: Path) -> None:
    log(tmp_path, binding("one"), binding("one", code=409), binding("two", 403, "forbid", account="stranger"))
    log(tmp_path, {**binding("two", 401, ""), "user": {}})
    here.check_requests()
    log(tmp_path, binding("two", 403, "forbid"))
    with pytest.raises(TrialFailedError, match=r"refused: .*name='two'"):
        here.check_requests()


def test_what_is_refused_once_the_permissions_are_gone_does_not(
    here: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path, binding("one"))
    refused = binding("two", 403, "forbid")
    monkeypatch.setattr(installation.programs_fixture, "helm", lambda *arguments, **more: log(tmp_path, refused))
    here.uninstall()
    here.check_requests()


def test_a_permission_that_nobody_uses_fails_the_trial(
    here: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "trireme-bind"}}
    subject = {"kind": "ServiceAccount", "name": "trireme-bind", "namespace": "trireme-system"}
    rendered = [
        {**role, "rules": [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}]},
        {"kind": "ClusterRoleBinding", "metadata": {"name": "bound"}, "roleRef": role | role["metadata"],
         "subjects": [subject]},
    ]  # fmt: skip
    monkeypatch.setattr(
        installation.programs_fixture,
        "helm",
        lambda command, *arguments, **more: yaml.safe_dump_all(rendered) if command == "get" else "",
    )
    log(tmp_path, binding("one", account="stranger"))
    here.install()
    with pytest.raises(TrialFailedError, match=r"trireme-bind \(trireme-bind\): create pods/binding"):
        here.check_permissions()
    log(tmp_path, binding("one"))
    assert here.check_permissions() == 1


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([binding("load-0"), binding("load-0", code=409)], ""),
        ([binding("load-0"), binding("load-0")], "{'load-0': 2}"),
        ([binding("other-0")], "{'load-0': 0}"),
    ],
    ids=["once", "doubled", "lost"],
)
def test_each_pod_of_the_load_is_bound_once(
    here: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: list[Json], wrong: str
) -> None:
    monkeypatch.setattr(Load, "_create", lambda self: self._prefixes.append("load"))
    log(tmp_path, *events)
    load = Load(here, "trireme")
    load.__enter__()
    if not wrong:
        load.__exit__(None, None, None)
        return
    with pytest.raises(TrialFailedError, match=f"not bound once: {wrong}"):
        load.__exit__(None, None, None)
