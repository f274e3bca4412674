"""Deployments and their scale, jobs, stateful sets, daemon sets and services."""

from __future__ import annotations

from tests.e2e.apiserver_requests import APPS, BATCH, MERGE, SPACE, Step

WORKLOADS: tuple[Step, ...] = (
    Step(
        "deploy",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "deploy bad sel",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w2"},
            "spec": {
                "selector": {"matchLabels": {"a": "c"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "deploy no sel",
        "POST",
        f"{APPS}/deployments",
        {
            "metadata": {"name": "w2"},
            "spec": {
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            },
        },
    ),
    Step("deploy empty", "POST", f"{APPS}/deployments", {"metadata": {"name": "w2"}}),
    Step("scale get", "GET", f"{APPS}/deployments/w/scale"),
    Step("scale neg", "PATCH", f"{APPS}/deployments/w/scale", {"spec": {"replicas": -1}}, MERGE),
    Step(
        "job",
        "POST",
        f"{BATCH}/jobs",
        {
            "metadata": {"name": "j"},
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
    Step(
        "job always",
        "POST",
        f"{BATCH}/jobs",
        {"metadata": {"name": "j2"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
    ),
    Step(
        "sts",
        "POST",
        f"{APPS}/statefulsets",
        {
            "metadata": {"name": "s"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "d"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
                    }
                ],
            },
        },
    ),
    Step(
        "ds",
        "POST",
        f"{APPS}/daemonsets",
        {
            "metadata": {"name": "s"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "i"}]},
                },
            },
        },
    ),
    Step(
        "svc",
        "POST",
        f"{SPACE}/services",
        {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    ),
    Step(
        "svc headless",
        "POST",
        f"{SPACE}/services",
        {"metadata": {"name": "s2"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}},
    ),
)
