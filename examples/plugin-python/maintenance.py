"""The scheduler plugin Maintenance: it keeps pods off nodes under maintenance, and prefers nodes that say they are
wanted.

    python examples/plugin-python/maintenance.py --listen 127.0.0.1:9000
"""

from trireme import sdk

# A node with this label, whatever its value, gets no new pods.
MAINTENANCE = "example.com/maintenance"

# How much a node is wanted: a whole number from 0 to 100. Without it: 0.
PREFERENCE = "example.com/preference"


class Maintenance:
    """Its answers depend on the node alone, so it is asked once for each node and class of pods."""

    info = sdk.Info(
        "Maintenance",
        version="1.0.0",
        depends_on=sdk.Dependency.NODE,
        node_data=sdk.NodeData.MESSAGES,
        # Nothing else of the pod matters, so nothing else is sent.
        pod_fields=("metadata.namespace",),
        # These changes may help a pod that was refused.
        events=(sdk.Event("Node", "Add", "UpdateNodeLabel"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Refuses the nodes under maintenance. Evicting pods from them would not help."""
        if MAINTENANCE in node.labels:
            return sdk.unresolvable("node(s) were under maintenance", "underMaintenance", label=MAINTENANCE)
        return None

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """The node's preference."""
        try:
            preference = int(node.labels.get(PREFERENCE, ""))
        except ValueError:
            return 0
        return min(max(preference, 0), 100)


if __name__ == "__main__":
    raise SystemExit(sdk.main(Maintenance()))
