"""The example plugins keep to the contract, as `trireme plugin verify` checks it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.contract.contract_services import EXAMPLES, FOLLOWERS, PLUGINS, ROOT, Served, get

# The first test of a plugin builds it.
pytestmark = pytest.mark.timeout(600)

# Nodes that the plugins refuse, prefer and limit.
_OBJECTS = """
{apiVersion: v1, kind: Node, metadata: {name: down, labels: {example.com/maintenance: ""}}}
---
{apiVersion: v1, kind: Node, metadata: {name: wanted, labels: {example.com/preference: "70"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: full, labels: {example.com/pod-limit: "0"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: gpus, labels: {example.com/gpus: "2", example.com/gpu-memory: 80Gi}}}
"""

# Arguments of examples that need some. Nobody listens on the discard port, so pods wait for quota.
_ARGS = {
    "quota-permit-go": '{"url": "http://127.0.0.1:9"}',
    "floating-licences-java": '{"products": {"cad": 1}}',
}

# Examples that treat nodes or pods differently by something of their own: such objects, and the specification that says
# whether they did.
_OWN_OBJECTS = {
    "maintenance-windows-typescript": (
        """
{apiVersion: v1, kind: Node, metadata: {name: closed, annotations:
  {example.com/maintenance-windows: 2020-01-01T00:00:00Z/2120-01-01T00:00:00Z}}}
---
{apiVersion: v1, kind: Node, metadata: {name: open, annotations:
  {example.com/maintenance-windows: 2020-01-01T00:00:00Z/2020-01-02T00:00:00Z}}}
""",
        "P070",
    ),
    "data-locality-typescript": (
        """
{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {topology.kubernetes.io/zone: zone-a}}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-9, labels: {topology.kubernetes.io/zone: zone-a}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: reader, namespace: verify, annotations: {example.com/data-sets: imagenet}},
  spec: {containers: [{name: main, image: x}]}}
""",
        "P095",
    ),
    "cost-carbon-python": (
        """
{apiVersion: v1, kind: Node, metadata: {name: dear, labels: {node.kubernetes.io/instance-type: m7i.4xlarge,
  topology.kubernetes.io/zone: eu-west-1a}}}
---
{apiVersion: v1, kind: Node, metadata: {name: cheap, labels: {node.kubernetes.io/instance-type: m7g.4xlarge,
  topology.kubernetes.io/zone: eu-north-1a, karpenter.sh/capacity-type: spot}}}
""",
        "P095",
    ),
    "deadline-order-rust": (
        """
{apiVersion: v1, kind: Pod, metadata: {name: soon, namespace: verify, labels: {example.com/service-class: interactive},
  annotations: {example.com/deadline: "2026-11-27T18:00:00Z"}}, spec: {containers: [{name: main, image: x}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: whenever, namespace: verify}, spec: {containers: [{name: main, image: x}]}}
""",
        "P222",
    ),
    "floating-licences-java": (
        """
{apiVersion: v1, kind: Node, metadata: {name: node-1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: designer, namespace: verify, labels: {example.com/licence: cad}},
  spec: {containers: [{name: main, image: x}]}}
""",
        "",
    ),
}


@pytest.mark.parametrize("name", [*PLUGINS, *FOLLOWERS, *EXAMPLES])
def test_an_example_conforms(
    name: str, running: dict[str, Served], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If this fails, the example that people copy from violates the contract."""
    served = get(name, running, tmp_path_factory)
    objects, junit = tmp_path / "objects.yaml", tmp_path / "junit.xml"
    text, decides = _OWN_OBJECTS.get(name, (_OBJECTS, "" if name in EXAMPLES else "P070"))
    objects.write_text(text)
    flags = ["--objects", objects, "--junit", junit, "--latency-calls", "4", "-o", "json"]
    flags += ["--args", _ARGS.get(name, "{}")]
    command = [Path(sys.executable).with_name("trireme"), "plugin", "verify", served.address, *flags]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert report["conformant"] is True
    if decides:
        assert {each["number"]: each["outcome"] for each in report["specifications"]}[decides] == "met"
    # Calls of Filter and Score alone have a latency profile.
    measured = {"EXTENSION_POINT_FILTER": "Filter", "EXTENSION_POINT_SCORE": "Score"}
    if rpcs := {rpc for point, rpc in measured.items() if point in report["extensionPoints"]}:
        assert {each["rpc"] for each in report["latency"]["measurements"]} == rpcs
        assert report["latency"]["recommendation"]["deadlineMs"] >= 100
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert len(suite) == int(suite.get("tests", "0")) == len(report["specifications"])
