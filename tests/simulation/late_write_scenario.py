"""A binding that its leader gave up arrives at the API server when the next leader has given the room to another pod.

Run in an interpreter of its own; exit code 1 if a node is overcommitted, as it is where the connection of a write that
was given up goes on being sent. The bindings' connection stalls while its process and all others work.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
import tempfile

from tests.simulation import substituted_sources
from tests.simulation.virtual_loop import VirtualLoop

_loop = VirtualLoop(1)
substituted_sources.install(_loop, 1)

from tests.simulation.invariants import Invariants  # noqa: E402  # `install` replaces what the product imports
from tests.simulation.simulated_cluster import API_HOST, Cluster  # noqa: E402  # as above
from tests.simulation.simulation import observe_bind_requests  # noqa: E402  # as above
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS  # noqa: E402  # as above
from trireme_kube.embedded.kubelet.simulated_nodes import NodeShape, node  # noqa: E402  # as above

BIND_HOST = "127.4.0.1"


async def main(folder: pathlib.Path) -> int:
    """Let the scenario happen; returns the exit code."""
    cluster = Cluster(_loop, folder, 1, lambda text: None)
    invariants = Invariants(cluster.store)
    cluster.store.listen_to_all(invariants.on_write)
    observe_bind_requests(lambda uid, _, node, epoch: invariants.on_bind_request(uid, node, epoch))
    cluster.build(2, 1, 1, 1)
    await cluster.start()
    classes = BY_KEY["priorityclasses.scheduling.k8s.io"]
    cluster.registry.create(classes, "", {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    record = cluster.registry.create(NODES, "", node(NodeShape(cpu="1", memory="4096Mi", pods=9), 0))
    cluster.registry.update_fields(NODES, record, spec={"taints": []})

    def create(name: str, cpu: str, **spec: str) -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        cluster.registry.create(PODS, "default", body)

    create("warm-up", "1m")  # opens the connection for writes
    await asyncio.sleep(20)
    until = _loop.now + 90
    for connection in _loop.network.connections(BIND_HOST, API_HOST):
        connection.stalled_until = until
    create("late", "900m")
    await asyncio.sleep(2)
    for frontend in cluster.kind("frontend"):
        if frontend.current is not None and frontend.current.name == _leader(cluster):
            frontend.kill()
    create("early", "900m", priorityClassName="high")
    await asyncio.sleep(until - _loop.now + 30)
    for violation in invariants.violations:
        print(violation)
    nodes = {pod.name: pod.object["spec"].get("nodeName") for pod in cluster.store.scan(PODS)}
    print(nodes)
    return 1 if invariants.violations or not nodes["early"] else 0


def _leader(cluster: Cluster) -> str:
    lease = cluster.store.get(BY_KEY["leases.coordination.k8s.io"], "kube-system", "kube-scheduler")
    assert lease is not None
    holder: str = lease.object["spec"]["holderIdentity"]
    return holder.partition("_")[0]


if __name__ == "__main__":
    substituted_sources.replace_what_leaves_the_process()
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        asyncio.set_event_loop(_loop)
        code = _loop.run_until_complete(main(pathlib.Path(directory)))
    sys.stdout.flush()
    os._exit(code)
