"""A namespace with quotas that its workloads exceed: their pods are refused, and created when others have gone."""

from __future__ import annotations

import copy
import random

from tests.simulation.pod_demands import is_terminating
from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import NAMESPACES, PODS, Object
from trireme_kube.embedded.controllers.deployments import REPLICA_SETS
from trireme_kube.embedded.kubelet.kubelets import RUN_SECONDS_ANNOTATION
from trireme_kube.embedded.registry.quotas.evaluators import QUOTAS
from trireme_kube.embedded.registry.registry import Registry

NAMESPACE = "limited"
# The limits, and those of pods of a priority class, and of pods with a deadline.
_LIMITS: tuple[tuple[str, Object], ...] = (
    ("all", {"hard": {"pods": "12", "count/pods": "14", "requests.cpu": "6", "requests.memory": "8Gi"}}),
    (
        "urgent",
        {
            "hard": {"pods": "3", "cpu": "3"},
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
    ),
    ("timed", {"hard": {"pods": "4"}, "scopes": ["Terminating"]}),
)
# By the name of a ReplicaSet: how many replicas it may have, what each requests, and the class.
_REPLICA_SETS = (("web", 10, "500m", "512Mi", ""), ("urgent", 5, "1", "1024Mi", "high"))
# A change of pods of the cluster comes with one here so often.
_SHARE = 0.4


class LimitedWorkloads:
    """Changes the namespace. Its random draws come after those of the change that it comes with."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._number = 0
        #: How many pods were refused, those of the ReplicaSets left out.
        self.refused = 0

    def prepare(self) -> None:
        """Create the namespace, the quotas, and ReplicaSets that have no pods yet."""
        self._registry.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        for name, spec in _LIMITS:
            self._registry.create(QUOTAS, NAMESPACE, {"metadata": {"name": name}, "spec": copy.deepcopy(spec)})
        for name, _, cpu, memory, priority_class in _REPLICA_SETS:
            labels = {"app": name}
            spec = _pod_spec(cpu, memory)
            if priority_class:
                spec["priorityClassName"] = priority_class
            template = {"metadata": {"labels": labels}, "spec": spec}
            body = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
            self._registry.create(REPLICA_SETS, NAMESPACE, {"metadata": {"name": name}, "spec": body})

    def change(self, pick: random.Random) -> None:
        """Perhaps change something."""
        if pick.random() < _SHARE:
            pick.choice((self._scale, self._scale, self._delete_pods, self._delete_pods, self._create_jobs))(pick)

    def _scale(self, pick: random.Random) -> None:
        name, most, *_ = pick.choice(_REPLICA_SETS)
        record = self._registry.get(REPLICA_SETS, NAMESPACE, name)
        spec = {**record.object["spec"], "replicas": pick.randint(most // 2, most)}
        self._registry.update_fields(REPLICA_SETS, record, spec=spec)

    def _delete_pods(self, pick: random.Random) -> None:
        found = [record for record in self._registry.store.scan(PODS, NAMESPACE) if not is_terminating(record.object)]
        for record in pick.sample(found, min(pick.randint(1, 4), len(found))):
            self._registry.delete(PODS, NAMESPACE, record.name, {})

    def _create_jobs(self, pick: random.Random) -> None:
        """Create pods that run for a while, and stay when they have ended, as those of a Job do."""
        for _ in range(pick.randint(1, 4)):
            self._number += 1
            annotations = {RUN_SECONDS_ANNOTATION: str(pick.choice((3, 30, 120)))}
            spec = {**_pod_spec("250m", "256Mi"), "restartPolicy": "Never"}
            if pick.random() < 0.7:
                spec["activeDeadlineSeconds"] = 600
            metadata = {"name": f"job-{self._number}", "annotations": annotations}
            try:
                self._registry.create(PODS, NAMESPACE, {"metadata": metadata, "spec": spec})
            except api_errors.ApiError as error:
                if error.code != 403 or "exceeded quota: " not in error.message:
                    raise
                self.refused += 1


def _pod_spec(cpu: str, memory: str) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"containers": [{"name": "c", "image": "registry.example/app:1", "resources": resources}]}
