"""A plugin for the end-to-end tests that reads nodes as the API server's JSON."""

from trireme import sdk


class Annotated:
    """Refuses nodes without the annotation `example.com/rack`, in words that say what it got."""

    info = sdk.Info(
        "Annotated",
        depends_on=sdk.Dependency.NODE,
        node_data=sdk.NodeData.JSON,
        events=(sdk.Event("Node", "Add", "UpdateNodeAnnotation"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Whether the node has the annotation."""
        found = node.json()
        assert (found["kind"], found["metadata"]["name"]) == ("Node", node.name)
        return None if "example.com/rack" in found["metadata"].get("annotations", {}) else sdk.unschedulable("no rack")


if __name__ == "__main__":
    raise SystemExit(sdk.main(Annotated()))
