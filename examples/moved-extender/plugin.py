"""The same rule as a plugin: `python plugin.py --listen 127.0.0.1:9000`.

Called once for each node and class of pods, until the node changes; the extender is called with all nodes for each pod.

Also change: docs/moving-to-plugins.md.
"""

import racks

from trireme import sdk


class Racks:
    """Keeps pods off closed racks, and prefers those with free power."""

    info = sdk.Info(
        "Racks",
        version="1.0.0",
        depends_on=sdk.Dependency.NODE,
        node_data=sdk.NodeData.MESSAGES,
        pod_fields=("metadata.namespace",),
        events=(sdk.Event("Node", "Add", "UpdateNodeLabel"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """What the extender's filterVerb answers; `failedAndUnresolvableNodes` are unresolvable refusals."""
        text = racks.refusal(node.labels)
        return sdk.unresolvable(text, "closedRack", rack=node.labels[racks.RACK]) if text else None

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """What prioritizeVerb answers, times ten: a plugin's scores are 0 to 100, an extender's 0 to 10."""
        return racks.free_kilowatts(node.labels) * 10


if __name__ == "__main__":
    raise SystemExit(sdk.main(Racks()))
