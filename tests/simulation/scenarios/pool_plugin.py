"""A remote plugin for comparisons: refuses some nodes, and prefers others, by the numbers in their names.

    python pool_plugin.py --listen ADDRESS

A pod with the label `team` may not use the nodes of other teams; some numbers score higher than others.
"""

from __future__ import annotations

from trireme import sdk

NAME = "Teams"
TEAMS = 3


def number_of(node: str) -> int:
    """The number in a node's name."""
    return int(node.rpartition("-")[2])


class Teams:
    """Filter and score."""

    info = sdk.Info(
        NAME,
        depends_on=sdk.Dependency.NODE,
        node_data=sdk.NodeData.NAMES,
        pod_fields=("metadata.labels['team']",),
        events=(sdk.Event("Node", "Add"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Status | None:
        """Refuse the nodes of other teams."""
        team = call.pod.metadata.labels.get("team")
        if team is not None and number_of(node.name) % TEAMS != int(team):
            return sdk.unresolvable("node(s) were of another team")
        return None

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """Prefer high numbers."""
        return number_of(node.name) * 7 % 101


if __name__ == "__main__":
    raise SystemExit(sdk.main(Teams()))
