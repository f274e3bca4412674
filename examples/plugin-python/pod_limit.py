"""A scheduler plugin that follows the cluster: nodes with the label `example.com/pod-limit` take only so many pods.

    python examples/plugin-python/pod_limit.py --listen 127.0.0.1:9000

How many pods a node has is not part of the node, so this plugin asks for the snapshot stream and reads it there.

Also change: examples/plugin-go/podlimit/main.go, examples/plugin-java/src/main/java/dev/trireme/examples/PodLimit.java,
examples/plugin-typescript/src/pod_limit.ts (the same plugin).
"""

from trireme import sdk

LIMIT = "example.com/pod-limit"


class PodLimit:
    """Counts the pods on nodes, and prefers those with room."""

    info = sdk.Info(
        "PodLimit",
        version="1.1.0",
        depends_on=sdk.Dependency.NODE_PODS,  # called again about a node whose pods have changed
        node_data=sdk.NodeData.SNAPSHOT,
        pod_fields=("metadata.namespace",),
        events=(sdk.Event("Node", "Add", "UpdateNodeLabel"), sdk.Event("AssignedPod", "Delete")),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """As many copies of the pod as the limit leaves room for."""
        limit = node.labels.get(LIMIT, "")
        if not limit.isdecimal():
            return None
        # In a dry run of preemption pods are taken to be gone, or there.
        count = len(node.pods) - len(call.removed_pods) + len(call.added_pods)
        return max(int(limit) - count, 0) or sdk.unschedulable("node(s) had as many pods as they may")

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """How much of the limit is left, in percent; also with pods of a batch on the node that are not there yet."""
        limit = node.labels.get(LIMIT, "")
        if not limit.isdecimal():
            return 100
        return max(int(limit) - len(node.pods), 0) * 100 // max(int(limit), 1)


if __name__ == "__main__":
    raise SystemExit(sdk.main(PodLimit()))
