"""A plugin for the end-to-end tests: it prefers the node that the environment names."""

import os

from trireme import sdk

NODE = os.environ["PREFERRED_NODE"]


class Prefers:
    """Scores one node 100."""

    info = sdk.Info("Prefers", version=NODE, depends_on=sdk.Dependency.NODE, pod_fields=("metadata.namespace",))

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """100 for the preferred node."""
        return 100 if node.name == NODE else 0


if __name__ == "__main__":
    raise SystemExit(sdk.main(Prefers()))
