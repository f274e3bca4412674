"""deploy/components/plugin-endpoints: the frontend, and no other process, may read where plugins are."""

import pathlib

import yaml

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"


def test_the_frontend_may_list_and_watch_endpoint_slices_and_nothing_else() -> None:
    """If this fails, plugins behind a Service are never found, or an account may do more than that takes."""
    role, binding = yaml.safe_load_all((DEPLOY / "components/plugin-endpoints/plugin-endpoints.yaml").read_text())
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {"plugins"}
    (frontend,) = (
        entry
        for entry in yaml.safe_load_all((DEPLOY / "base/frontend.yaml").read_text())
        if entry["kind"] == "Deployment"
    )
    account = frontend["spec"]["template"]["spec"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "trireme-system"}]
