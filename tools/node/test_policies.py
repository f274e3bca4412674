"""Which connections the rules of NetworkPolicies let pass; that they are enforced is a step of `make test-node`."""

import shutil
import subprocess
from typing import Any

import pytest

from tools.node import policies

Json = dict[str, Any]
GRPC = {"name": "grpc", "containerPort": 7001}


def pod(name: str, address: str, namespace: str = "system", **status: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"containers": [{"ports": [GRPC]}]},
        "status": {"podIP": address, "phase": "Running", **status},
    }


PODS = (pod("filter", "10.98.0.2"), pod("frontend", "10.98.0.3"), pod("prometheus", "10.98.1.2", "monitoring"))
NAMESPACES = tuple({"metadata": {"name": name, "labels": {"name": name}}} for name in ("system", "monitoring"))


def policy(kind: str, *rules: Json) -> Json:
    selector = {"matchLabels": {"app": "filter"}}
    spec = {"podSelector": selector, "policyTypes": [kind], **({kind.lower(): rules} if rules else {})}
    return {"metadata": {"name": "one", "namespace": "system"}, "spec": spec}


def selected(app: str, **more: Json) -> Json:
    return {"podSelector": {"matchLabels": {"app": app}}, **more}


@pytest.mark.parametrize(
    ("kind", "rule", "passes"),
    [
        ("Ingress", {"from": [selected("frontend")], "ports": [{"port": "grpc"}]}, "ip saddr 10.98.0.3 tcp dport 7001"),
        ("Ingress", {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]}, "ip saddr 10.98.1.2 "),
        ("Ingress", {"from": [selected("prometheus", namespaceSelector={})]}, "ip saddr 10.98.1.2 "),
        ("Ingress", {"ports": [{"port": 80, "endPort": 90}]}, " tcp dport 80-90"),
        ("Egress", {"ports": [{"port": 53, "protocol": "UDP"}]}, " udp dport 53"),
        ("Egress", {"to": [selected("frontend")], "ports": [{"port": "grpc"}]}, "ip daddr 10.98.0.3 tcp dport 7001"),
        ("Egress", {"ports": [{"protocol": "UDP"}]}, " meta l4proto udp"),
        (
            "Egress",
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
            "ip daddr 10.0.0.0/8 ip daddr != 10.1.0.0/16 ",
        ),
    ],
    ids=["pods", "namespace", "pods-elsewhere", "range", "anywhere", "named", "protocol", "block"],
)
def test_a_rule_lets_its_connections_pass_and_no_others(kind: str, rule: Json, passes: str) -> None:
    rules = policies.ruleset([policy(kind, rule)], PODS, NAMESPACES).splitlines()
    chain = f"chain {kind.lower()}-10-98-0-2 {{"
    assert rules[rules.index(chain) + 1 : rules.index(chain) + 3] == [f"{passes} return", "counter drop"]
    own = "daddr" if kind == "Ingress" else "saddr"
    assert [line for line in rules if "jump" in line] == [f"ip {own} 10.98.0.2 jump {kind.lower()}-10-98-0-2"]


def test_a_selector_without_a_namespace_selects_no_pod_of_another_namespace() -> None:
    rules = policies.ruleset([policy("Ingress", {"from": [selected("prometheus")]})], PODS, NAMESPACES)
    assert "return" not in rules


def test_a_policy_without_rules_lets_nothing_pass() -> None:
    rules = policies.ruleset([policy("Egress")], PODS, NAMESPACES)
    assert "return" not in rules
    assert "counter drop" in rules


@pytest.mark.parametrize(
    "gone",
    [pod("filter", "10.98.0.2", phase="Succeeded"), pod("filter", ""), {**PODS[0], "spec": {"hostNetwork": True}}],
    ids=["ended", "no-address", "of-the-node"],
)
def test_a_pod_without_an_address_of_its_own_has_no_rules(gone: Json) -> None:
    assert "jump" not in policies.ruleset([policy("Ingress")], [gone], NAMESPACES)


def test_nft_reads_the_rules() -> None:
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
    ports = [{"port": "grpc"}, {"port": 80, "endPort": 90}, {"port": 53, "protocol": "UDP"}, {"protocol": "SCTP"}]
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    chosen = policy("Ingress", {"from": [selected("frontend"), block], "ports": ports}, {})
    rules = policies.ruleset([chosen, policy("Egress")], PODS, NAMESPACES)
    done = subprocess.run(["nft", "--check", "--file", "-"], input=rules, text=True, capture_output=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("only root may read rules")
    assert done.returncode == 0, done.stderr
