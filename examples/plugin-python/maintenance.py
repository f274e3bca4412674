"""The scheduler plugin Maintenance.

It keeps pods off nodes under maintenance, and prefers nodes that say they are wanted.

    python examples/plugin-python/maintenance.py --listen 127.0.0.1:9000

Also change: examples/plugin-go/maintenance.go,
examples/plugin-java/src/main/java/dev/trireme/examples/Maintenance.java,
examples/plugin-typescript/src/maintenance.ts (the same plugin).
"""

import re

from trireme import sdk

# A node with this label, whatever its value, gets no new pods. A profile's args may name another one.
MAINTENANCE = "example.com/maintenance"

# A label's key.
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

# How much a node is wanted: a whole number from 0 to 100. Without it: 0.
PREFERENCE = "example.com/preference"


class Maintenance:
    """Its answers depend on the node alone, so it is called once for each node and class of pods."""

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

    def configure(self, configuration: sdk.Configuration) -> str:
        """The label of nodes under maintenance: `maintenanceLabel` of the profile's args."""
        args = configuration.args
        if not isinstance(args, dict):
            raise sdk.InvalidArguments(("args", "must be an object"))
        problems = [(f"args.{name}", "unknown field") for name in args if name != "maintenanceLabel"]
        label = args.get("maintenanceLabel", MAINTENANCE)
        if not isinstance(label, str) or not _KEY.fullmatch(label):
            problems.append(("args.maintenanceLabel", "must be the key of a label"))
        if problems:
            raise sdk.InvalidArguments(*problems)
        return label

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Refuses the nodes under maintenance. Evicting pods from them would not help."""
        label: str = call.config
        if label in node.labels:
            return sdk.unresolvable("node(s) were under maintenance", "underMaintenance", label=label)
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
