"""A plugin for the end-to-end tests whose author forgot an event: it refuses nodes by a label that may go."""

from trireme import sdk

LABEL = "example.com/closed"


class Forgetful:
    """Filter; a label that is removed from a node is an update, for which it did not register."""

    info = sdk.Info(
        "Forgetful",
        depends_on=sdk.Dependency.NODE,
        node_data=sdk.NodeData.MESSAGES,
        pod_fields=("metadata.namespace",),
        events=(sdk.Event("Node", "Add"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Refuse the nodes with the label."""
        return sdk.unschedulable("node(s) were closed") if LABEL in node.labels else None


if __name__ == "__main__":
    raise SystemExit(sdk.main(Forgetful()))
