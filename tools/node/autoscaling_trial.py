"""Filter's autoscaler, with metrics-server: a replica comes while filter evaluates many pods, and goes afterwards.

Tests: tools/node/test_node_cluster.py.
"""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from tools.node import addons
from tools.node.installation import Installation, pod, until

# The autoscaler reads every 15 seconds what is measured every ten, and waits for pods that are new.
_SCALED_SECONDS = 240.0
# On two nodes a pod costs filter less than a thousandth of a second of a processor: replicas that ask for little have
# work enough from some dozens of pods a second.
_REQUESTS = "filter.resources.requests.cpu=10m"
_PODS = 100


def scale_filter(here: Installation) -> None:
    """Raises: TrialFailedError: there is no third replica under load, or it stays."""
    here.upgrade(_REQUESTS)
    here.await_ready("filter")
    with addons.metrics_server(here.cluster.plane):
        until(lambda: "unknown" not in _autoscaler(here), "the autoscaler knows filter's CPU", _SCALED_SECONDS)
        print(f"  idle: {_autoscaler(here)}", flush=True)
        began, work = time.monotonic(), _refused_pods(here)
        until(lambda: next(work) > 0 and _replicas(here) > 2, "filter has another replica", _SCALED_SECONDS)
        seconds, pods = time.monotonic() - began, next(work)
        print(f"  another replica after {seconds:.0f} s and {pods} refused pods: {_autoscaler(here)}", flush=True)
        here.await_ready("filter")
        began = time.monotonic()
        until(lambda: _replicas(here) == 2, "filter has two replicas again", _SCALED_SECONDS)
        print(f"  two replicas {time.monotonic() - began:.0f} s afterwards: {_autoscaler(here)}", flush=True)


def _refused_pods(here: Installation) -> Iterator[int]:
    """Create pods, each unlike the others and taken by no node, and delete them; how many so far."""
    plane = here.cluster.plane
    for number in itertools.count(1):
        items = [_refused(f"refused-{number}-{each}") for each in range(_PODS)]
        plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        plane.kubectl("delete", "pods", "--selector=trial=refused", "--wait=false")
        yield number * _PODS


def _refused(name: str) -> dict[str, Any]:
    body = pod(name, "refused", "trireme")
    body["spec"]["nodeSelector"] = {"example.com/nowhere": name}
    return body


def _autoscaler(here: Installation) -> str:
    return " ".join(here.kubectl("get", "hpa", "trireme-filter", "--no-headers").split())


def _replicas(here: Installation) -> int:
    return int(here.kubectl("get", "deployment/trireme-filter", "--output=jsonpath={.spec.replicas}"))
