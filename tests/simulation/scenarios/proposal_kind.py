"""The kind of scenario about proposals: a pod pends, and each change that insight proposes for it is made by the API.

With each of them the pod has to be bound, to one of as many nodes as the proposal says; then the change is undone. How
many nodes there are is counted for some: copies of the pod are bound one after the other, each on a node that has not
had one, until one pends.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any

from tests.simulation.scenarios import pending_pods, proposal_changes
from tests.simulation.scenarios.compared_cluster import NODES, PODS
from tests.simulation.scenarios.comparison import Comparison

Json = dict[str, Any]

# So many nodes are always counted; more of them in one of so many cases.
_FEW_NODES = 3
_CHANCE_TO_COUNT_MORE = 0.1


async def compare_proposals(compared: Comparison) -> None:
    """A pod pends, and each proposal for it is carried out."""
    if compared.draw.random() < 0.3:
        await compared.add_budgets(2)
    pod = await pending_pods.draw_pending_pod(compared)
    await _Scene(compared, pod).run()


class _Scene:
    """A pod, and the cluster to which it comes."""

    def __init__(self, compared: Comparison, pod: pending_pods.PendingPod) -> None:
        self._compared = compared
        self._cluster = compared.cluster
        self._pod = pod
        self._numbers = itertools.count()
        self._prefix = f"wanted-{next(compared.numbers)}"
        # By name, as manifests with their nodes: the pods without the pending one, and the nodes.
        self._placed: dict[str, Json] = {}
        self._nodes: dict[str, Json] = {}

    async def run(self) -> None:
        """Let the pod pend, and make each proposed change."""
        self._placed = {pod["metadata"]["name"]: _manifest_with_node(pod) for pod in await self._cluster.list(PODS)}
        self._nodes = {node["metadata"]["name"]: node for node in await self._cluster.list(NODES)}
        counts = self._compared.findings.counts
        name = self._new_name()
        if await self._create(self._pod.manifest(name)):
            counts["pods that got a node at once"] += 1
            return
        pod = await self._cluster.get(PODS, name)
        assert pod is not None
        answer = await self._cluster.first.explain(name, pod["metadata"]["uid"])
        if answer.get("feasibleCount") and self._pod.members == 1:
            self._differ({}, f"pends, though {answer['feasibleCount']} nodes are feasible")
        proposals: Sequence[Json] = answer.get("proposals", ())
        counts["pods with proposals" if proposals else "pods without a proposal"] += 1
        await self._delete_copies(name)
        of = " for groups" if self._pod.members > 1 else ""
        for proposal in proposals:
            counts[f"{proposal_changes.kind_of(proposal)}{of}"] += 1
            await self._renew()
            if proposal_changes.changes_pod(proposal):
                await self._try_changed_pod(proposal)
            else:
                await self._try_changed_cluster(proposal)
            await self._restore()

    # The changes

    async def _try_changed_pod(self, proposal: Json) -> None:
        """Make the pod anew with the change."""
        changed = proposal_changes.changed_pod(self._pod.manifest(self._new_name()), proposal)
        await self._compare(proposal, await self._create(changed))
        await self._count_nodes(proposal, changed)

    async def _try_changed_cluster(self, proposal: Json) -> None:
        """Let the pod pend as it is, and change the cluster."""
        waiting = self._pod.manifest(self._new_name())
        name = waiting["metadata"]["name"]
        if await self._create(waiting):
            self._differ(proposal, "has a node before the change is made")
            return
        added, labelled, leaving = "", "", list[str]()
        if "addNode" in proposal:
            added = f"added-{next(self._compared.numbers)}"
            like = self._nodes[proposal["addNode"]["likeNode"]]
            await self._cluster.create(NODES, proposal_changes.node_like(like, added))
        elif "labelNode" in proposal:
            labelled = proposal["labelNode"]["nodeName"]
            labels = {"metadata": {"labels": proposal["labelNode"]["labels"]}}
            await self._cluster.patch(NODES, labelled, labels)
        else:
            leaving = [pod["name"] for pod in proposal["deletePods"]["pods"]]
            await self._delete_as_in_clusters(leaving)
        await self._compare(proposal, await self._settled_node(name), added)
        await self._restore(without=leaving, changed=[name for name in (added, labelled) if name])
        await self._count_nodes(proposal, waiting)

    async def _delete_as_in_clusters(self, names: Sequence[str]) -> None:
        """Delete pods, for which their controllers make others at once.

        Pods need time to end, longer than those that were tried once back off.
        """
        for each in self._cluster.triremes:
            await each.until(lambda each=each: not each.has_recent_failures(), "backed off")
        pods = {pod["metadata"]["name"]: pod for pod in await self._cluster.list(PODS)}
        async with self._cluster.held():
            for name in names:
                await self._cluster.delete(PODS, name)
                await self._compared.controllers.replace(pods[name])

    async def _compare(self, proposal: Json, node: str, added: str = "") -> None:
        """Compare where the pod is with what the proposal says."""
        if not node:
            self._differ(proposal, "pends with the change")
        examples = [*proposal.get("exampleNodes", ()), *([added] if added else [])]
        if node and proposal["feasibleCount"] <= len(examples) and node not in examples:
            self._differ(proposal, f"is on {node}")

    async def _count_nodes(self, proposal: Json, changed: Json) -> None:
        """Count the nodes that take the pod with the change: the copy on a node leaves, and the node is cordoned."""
        said: int = proposal["feasibleCount"]
        if self._pod.renewals or (said > _FEW_NODES and self._compared.draw.random() >= _CHANCE_TO_COUNT_MORE):
            return
        never = f"{changed['spec']['priorityClassName'].removesuffix('-never')}-never"
        spec = {**changed["spec"], "priorityClassName": never, "preemptionPolicy": "Never"}
        await self._delete_copies(changed["metadata"]["name"])
        found: list[str] = []
        while True:
            name = self._new_name()
            metadata = {**changed["metadata"], "name": name}
            node = await self._create({**changed, "metadata": metadata, "spec": spec})
            async with self._cluster.held():
                await self._cluster.delete(PODS, name)
                if node:
                    await self._compared.controllers.cordon(node)
            if not node:
                break
            found.append(node)
        self._compared.findings.counts[f"{proposal_changes.kind_of(proposal)}, nodes counted"] += 1
        if len(found) != said or not set(proposal.get("exampleNodes", ())) <= set(found):
            self._differ(proposal, f"fits on {sorted(found)}")

    # Pods and nodes

    def _new_name(self) -> str:
        """A name for the pod."""
        return f"{self._prefix}-{next(self._numbers)}"

    async def _create(self, manifest: Json) -> str:
        """Create the pod with its group, and return its node once nothing more happens; empty: it has none."""
        async with self._cluster.held():
            for name in self._names(manifest["metadata"]["name"]):
                await self._cluster.create(PODS, {**manifest, "metadata": {**manifest["metadata"], "name": name}})
        return await self._settled_node(manifest["metadata"]["name"])

    async def _settled_node(self, name: str) -> str:
        """The node of a pod once nothing more happens; empty: it, or another member of its group, has none."""
        await self._cluster.until_seen()
        pods = {pod["metadata"]["name"]: pod for pod in await self._compared.controllers.settle()}
        nodes = [str(pods[each]["spec"].get("nodeName", "")) for each in self._names(name)]
        return nodes[0] if all(nodes) else ""

    def _names(self, name: str) -> list[str]:
        """The name of the pod, and those of the other members of its group."""
        return [name, *(f"{name}-{number}" for number in range(1, self._pod.members))]

    async def _delete_copies(self, name: str) -> None:
        """Delete the pod with its group, as far as they are there."""
        async with self._cluster.held():
            for each in self._names(name):
                await self._compared.delete_if_there(PODS, each)

    async def _renew(self) -> None:
        """Make anew what a pod with a node changes."""
        for renew in self._pod.renewals:
            await renew()

    async def _restore(self, without: Collection[str] = (), changed: Collection[str] = ()) -> None:
        """Bring pods and nodes back to what they were.

        But for some pods that are deleted, and some nodes that are added or labelled.
        """
        wanted = {name: pod for name, pod in self._placed.items() if name not in without}
        async with self._cluster.held():
            for pod in await self._cluster.list(PODS):
                name = pod["metadata"]["name"]
                if name in wanted and pod["spec"].get("nodeName") == wanted[name]["spec"]["nodeName"]:
                    del wanted[name]
                else:
                    await self._cluster.delete(PODS, name)
            for node in await self._cluster.list(NODES):
                name = node["metadata"]["name"]
                if name not in self._nodes and name not in changed:
                    await self._cluster.delete(NODES, name)
                elif node["spec"].get("unschedulable"):
                    await self._cluster.patch(NODES, name, {"spec": {"unschedulable": None}})
                if name in self._nodes and name not in changed:
                    await self._remove_added_labels(name, node["metadata"].get("labels", {}))
            for pod in wanted.values():
                await self._cluster.create(PODS, pod)
        await self._compared.controllers.settle()

    async def _remove_added_labels(self, name: str, labels: Json) -> None:
        """Remove the labels that a node did not have."""
        added = labels.keys() - self._nodes[name]["metadata"].get("labels", {}).keys()
        if added:
            await self._cluster.patch(NODES, name, {"metadata": {"labels": dict.fromkeys(added)}})

    def _differ(self, proposal: Json, text: str) -> None:
        """Note a difference."""
        self._compared.findings.differ(
            f"{self._pod.cause}: {text}: {json.dumps(proposal, ensure_ascii=False)} for {json.dumps(self._pod.spec)}"
        )


def _manifest_with_node(pod: Json) -> Json:
    """A pod of the API as the manifest of one that has its node already."""
    kept = ("name", "namespace", "labels", "ownerReferences")
    metadata = {name: value for name, value in pod["metadata"].items() if name in kept}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
