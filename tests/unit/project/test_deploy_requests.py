"""What deploy/base requests fits a small node, and the document says how much it is."""

import pathlib

import yaml

from trireme_kube.apimachinery import quantity

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy/base"
REPLICAS = 2  # of the frontend by its Deployment, of the phases by their autoscalers


def _requested(resource: str) -> float:
    total = 0
    for name in ("frontend", "filter", "score", "bind"):
        (deployment,) = (
            entry
            for entry in yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text())
            if entry["kind"] == "Deployment"
        )
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            total += REPLICAS * quantity.parse_quantity(container["resources"]["requests"][resource]).nanos
    return total / 1e9


def test_all_of_it_fits_a_node_of_two_cpus() -> None:
    """Two CPUs are what many a test cluster has; a filter and a score stayed pending there."""
    assert _requested("cpu") == 1.0
    assert _requested("memory") / 2**30 < 1.5
    document = " ".join((DEPLOY.parents[1] / "docs/deployment.md").read_text().split())
    assert "request 1 CPU and 1.3 GiB in all" in document


def test_no_policy_has_an_empty_list() -> None:
    """The API server drops it, so `kubectl diff -k` would differ forever."""
    for policy in yaml.safe_load_all((DEPLOY / "network-policies.yaml").read_text()):
        assert all(policy["spec"].get(rules, True) for rules in ("ingress", "egress"))
