"""The pods of the simulated cluster are those of the cluster, whatever happens to nodes and to the watch."""

import asyncio
import random
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from tests.helpers.shadow_cluster import Json, Own, node_event
from trireme.shadow import measures
from trireme_kube.client.informers.watch import Event, EventKind

_NAMES = [f"n{number}" for number in range(4)]
_TERMINATING = "2026-01-01T00:00:00Z"
_DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}


class _Pod:
    """A pod of the cluster, as its API server has it."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind, self.node, self.terminating = name, kind, "", False
        self.node_uid = ""

    def event(self, cluster: "Cluster", kind: EventKind) -> Event:
        metadata: Json = {"deletionTimestamp": _TERMINATING} if self.terminating else {}
        spec: Json = {"cpu": "1", "priority": 0}
        if self.kind in ("alone", "claim"):
            metadata["ownerReferences"] = []
        if self.kind == "daemon":
            metadata["ownerReferences"] = [_DAEMON]
        if self.kind == "urgent":
            spec = {"cpu": "3", "priority": 1000}
        if self.kind == "claim":
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        if self.kind == "tolerant":
            spec["tolerations"] = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
        return cluster.own.pods.event(self.name, self.node, kind=kind, metadata=metadata, **spec)


class Cluster:
    """A cluster in which random things happen; the simulated cluster sees what a watch shows of them.

    While `connected` is False the watch is interrupted; the lists after it show what has become of everything.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.own = Own()
        self.pods: dict[str, _Pod] = {}
        self.nodes: dict[str, Json] = {}
        self.uids: dict[str, str] = {}
        self.connected = True
        self.number = 0

    # What happens

    def steps(self) -> list[Callable[[], object]]:
        nodes = [self.add_node, self.add_node, self.remove_node, self.cordon, self.drain, self.taint, self.clear]
        pods = [self.arrive, self.arrive, self.arrive, self.bind, self.bind, self.bind, self.terminate, self.delete]
        watch = [self.disconnect, self.reconnect, self.reconnect]
        return [*nodes, *pods, self.collect_garbage, self.let_time_pass, *watch]

    def add_node(self) -> None:
        gone = [name for name in _NAMES if name not in self.nodes]
        if gone:
            name = self.random.choice(gone)
            self.number += 1
            self.nodes[name], self.uids[name] = {}, f"node-{self.number}"
            self.show_node(name, EventKind.ADDED)

    def remove_node(self) -> None:
        if name := self.some_node():
            self.show_node(name, EventKind.DELETED)
            del self.nodes[name], self.uids[name]

    def cordon(self) -> str:
        name = self.some_node()
        self.change_node(name, {"unschedulable": True})
        return name

    def drain(self) -> None:
        name = self.cordon()
        for pod in list(self.pods.values()):
            if pod.node == name and pod.kind != "daemon":
                self.leave(pod)

    def taint(self) -> None:
        self.change_node(self.some_node(), {"taints": [{"key": "broken", "effect": "NoExecute"}]})

    def clear(self) -> None:
        self.change_node(self.some_node(), {})

    def arrive(self) -> None:
        self.number += 1
        kind = self.random.choice(["owned", "owned", "owned", "alone", "urgent", "claim", "daemon", "tolerant"])
        pod = self.pods[f"p{self.number}"] = _Pod(f"p{self.number}", kind)
        if self.random.random() < 0.2 and self.nodes:
            pod.node = self.some_node()
        self.show_pod(pod, EventKind.ADDED)

    def bind(self) -> None:
        waiting = [pod for pod in self.pods.values() if not pod.node]
        if waiting and self.nodes:
            pod = self.random.choice(waiting)
            pod.node = self.some_node()
            self.show_pod(pod, EventKind.MODIFIED)

    def terminate(self) -> None:
        if self.pods:
            pod = self.random.choice(list(self.pods.values()))
            pod.terminating = bool(pod.node)
            self.show_pod(pod, EventKind.MODIFIED)

    def delete(self) -> None:
        if self.pods:
            self.leave(self.random.choice(list(self.pods.values())))

    def collect_garbage(self) -> None:
        for pod in [pod for pod in self.pods.values() if pod.node and pod.node not in self.nodes]:
            self.leave(pod)

    def let_time_pass(self) -> None:
        self.own.clock.now += self.random.choice([1.0, 5.0])
        self.own.own.evict_by_taints()

    def disconnect(self) -> None:
        """From now on the watch shows nothing."""
        self.connected = False

    def reconnect(self) -> None:
        """Everything is listed again, in parts; other things happen between these."""
        if self.connected:
            return
        self.connected = True
        nodes = [self.node(name, EventKind.LISTED) for name in self.nodes]
        listed = [pod.event(self, EventKind.LISTED) for pod in self.pods.values()]
        start, end = Event(EventKind.LIST_START, None), Event(EventKind.LIST_END, None)
        half = len(listed) // 2
        nodes_first = self.random.random() < 0.5
        if nodes_first:
            self.own.own.on_nodes([start, *nodes, end])
        self.own.show(start, *listed[:half])
        if not nodes_first:
            self.own.own.on_nodes([start, *nodes, end])
        self.random.choice([self.remove_node, self.cordon, self.let_time_pass, self.clear])()
        self.own.show(*listed[half:], end)

    def leave(self, pod: _Pod) -> None:
        del self.pods[pod.name]
        self.show_pod(pod, EventKind.DELETED)

    # What the watch shows

    def some_node(self) -> str:
        return self.random.choice(sorted(self.nodes)) if self.nodes else ""

    def change_node(self, name: str, spec: Json) -> None:
        if name:
            self.nodes[name] = spec
            self.show_node(name, EventKind.MODIFIED)

    def node(self, name: str, kind: EventKind) -> Event:
        return node_event(name, kind=kind, uid=self.uids[name], spec=self.nodes[name])

    def show_node(self, name: str, kind: EventKind) -> None:
        if self.connected:
            self.own.own.on_nodes([self.node(name, kind)])

    def show_pod(self, pod: _Pod, kind: EventKind) -> None:
        event = pod.event(self, kind)
        if self.connected:
            self.own.show(event)

    # What must hold

    def check(self) -> None:
        own = self.own.own
        cached = list(own.model.cache.pods())
        placed = {pod.key.partition("/")[2]: pod.node_name for pod in cached if not pod.assumed}
        pending = {uid.partition("~")[0].removeprefix("uid-") for uid in own.model.scheduling.pending.uids()}
        here = [*placed, *pending]
        assert len(here) == len(set(here)), "a pod is there twice"
        assert set(here) <= set(self.pods), "a pod is there that the cluster has not"
        elsewhere = {name: pod for name, pod in self.pods.items() if name not in here}
        follows = {name for name, pod in elsewhere.items() if pod.kind == "claim" and not pod.node}
        missing = elsewhere.keys() - follows
        assert all(self.pods[name].kind in ("alone", "claim") for name in missing), missing
        assert own.missing == len(missing)
        assert len(missing) <= own.counts.evicted
        assert own.pending_here == len(pending)
        arrived = [pod for pod in self.pods.values() if not pod.node and pod.kind != "claim"]
        assert own.pending_there == len(arrived)
        self.check_places(placed)
        own.model.publish()
        measured = measures.measure(own.model.snap)
        assert measured.pods == sum(1 for pod in cached if pod.node_name in self.nodes)

    def check_places(self, placed: dict[str, str]) -> None:
        """Pods are on nodes that exist, but those that leave the cluster too; none is on a node that is drained."""
        for name, node in placed.items():
            pod = self.pods[name]
            leaves = pod.terminating or pod.node == node
            if node not in self.nodes:
                assert leaves, f"{name} is on {node}, which is removed"
            elif self.nodes[node].get("unschedulable") and pod.kind != "daemon" and not leaves:
                assert any(
                    each.node == node and each.kind != "daemon" and not each.terminating for each in self.pods.values()
                ), f"{name} is on {node}, which is drained"


async def _run(seed: int, choices: list[int]) -> None:
    cluster = Cluster(seed)
    steps = cluster.steps()
    async with cluster.own.scheduling():
        for choice in choices:
            steps[choice % len(steps)]()
            if cluster.connected:
                cluster.check()
            for _ in range(cluster.random.choice([0, 3, 50])):
                await asyncio.sleep(0)
            if cluster.connected:
                cluster.check()


# Without shrinking, which takes minutes here: what fails is a seed and the steps.
@settings(max_examples=60, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32), st.lists(st.integers(0, 1_000), min_size=40, max_size=100))
def test_every_pod_of_the_cluster_is_placed_pending_or_counted_as_missing(seed: int, choices: list[int]) -> None:
    """A pod that is lost makes the simulated cluster look better: less load, more room, shorter waits."""
    asyncio.run(_run(seed, choices))
