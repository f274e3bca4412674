"""The namespace with quotas of the simulated load, and the checks of what its pods use."""

from __future__ import annotations

import random

import pytest

from tests.helpers.embedded_harness import Cluster
from tests.simulation.quota_checks import QuotaChecks
from tests.simulation.simulated_quotas import NAMESPACE, LimitedWorkloads
from trireme_kube.embedded.api.resources import PODS


@pytest.fixture
def cluster() -> Cluster:
    """With the priority class of the load."""
    cluster = Cluster(3)
    cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 1000})
    return cluster


def test_pods_are_refused_and_created_again_and_no_quota_is_exceeded(cluster: Cluster) -> None:
    """If nothing is refused, a simulation shows nothing about quotas."""
    checks, limited = QuotaChecks(cluster.store, cluster.time.clock), LimitedWorkloads(cluster.registry)
    limited.prepare()
    cluster.run(1)
    pick, names = random.Random(1), set()
    for _ in range(200):
        limited.change(pick)
        cluster.run(2)
        if checks.differences():  # of a moment ago, which the controller gathers
            cluster.run(0.1)
        assert checks.violations + checks.differences() == []
        names |= {record.name for record in cluster.store.scan(PODS, NAMESPACE)}
    assert limited.refused > 5
    messages = [event["message"] for event in cluster.objects("events") if event["reason"] == "FailedCreate"]
    for quota in ("all", "urgent"):
        assert any(f"exceeded quota: {quota}, requested: " in message for message in messages)
    assert len([name for name in names if name.startswith("web-")]) > 20


def test_a_violation_and_a_wrong_status_are_found(cluster: Cluster) -> None:
    """If this fails, the checks see nothing."""
    checks, limited = QuotaChecks(cluster.store, cluster.time.clock), LimitedWorkloads(cluster.registry)
    limited.prepare()
    assert checks.differences()[0] == "quota all does not say what there may be"
    cluster.run(1)
    assert checks.differences() == []
    resources = {"requests": {"cpu": "5", "memory": "64Mi"}}
    for number in range(2):
        # Past admission.
        metadata = {"name": f"p{number}", "namespace": NAMESPACE, "uid": f"p{number}"}
        spec = {"containers": [{"name": "c", "resources": resources}]}
        cluster.store.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    assert checks.violations == ["with pod p1 quota all is exceeded: 10000 of 6000 requests.cpu"]
    assert [text.partition(" says")[0] for text in checks.differences()] == ["quota all"]
