"""Filter's autoscaler, with metrics-server: a replica comes while filter's processors are busy, and goes afterwards.

Tests: tools/node/test_node_cluster.py.
"""

import concurrent.futures
import time

from tools.node import addons
from tools.node.installation import Installation, until

# The autoscaler reads every 15 seconds what is measured every ten, and waits for pods that are new.
_SCALED_SECONDS = 240.0
# What two nodes have filter evaluate is a few thousandths of a processor, so the containers get other work.
_WORK = "import time; ends = time.monotonic() + 30\nwhile time.monotonic() < ends: pass"


def scale_filter(here: Installation) -> None:
    """Raises: TrialFailedError: there is no third replica under load, or it stays."""
    with addons.metrics_server(here.cluster.plane):
        until(lambda: "unknown" not in _autoscaler(here), "the autoscaler knows filter's CPU", _SCALED_SECONDS)
        print(f"  idle: {_autoscaler(here)}", flush=True)
        began = time.monotonic()
        until(lambda: _replicas_after_work(here) > 2, "filter has another replica", _SCALED_SECONDS)
        print(f"  another replica after {time.monotonic() - began:.0f} s: {_autoscaler(here)}", flush=True)
        here.await_ready("filter")
        began = time.monotonic()
        until(lambda: _replicas(here) == 2, "filter has two replicas again", _SCALED_SECONDS)
        print(f"  two replicas {time.monotonic() - began:.0f} s afterwards: {_autoscaler(here)}", flush=True)


def _replicas_after_work(here: Installation) -> int:
    """Keep all of filter's pods busy for half a minute."""
    pods = [pod["metadata"]["name"] for pod in here.pods("filter")]
    with concurrent.futures.ThreadPoolExecutor(len(pods)) as pool:
        list(pool.map(lambda name: here.kubectl("exec", name, "--", "python", "-c", _WORK), pods))
    return _replicas(here)


def _autoscaler(here: Installation) -> str:
    return " ".join(here.kubectl("get", "hpa", "trireme-filter", "--no-headers").split())


def _replicas(here: Installation) -> int:
    return int(here.kubectl("get", "deployment/trireme-filter", "--output=jsonpath={.spec.replicas}"))
