"""A plugin for the end-to-end tests: its first version refuses all nodes, any other none. No event lifts a refusal."""

import os

from trireme import sdk

VERSION = os.environ.get("VERSION", "1")


class Versioned:
    """Filter by the plugin's own version."""

    info = sdk.Info(
        "Versioned",
        version=VERSION,
        depends_on=sdk.Dependency.NODE,
        # Without `events` any event would have the pods tried again.
        events=(sdk.Event("TargetPod", "UpdatePodLabel"),),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Refuse by the first version."""
        return sdk.unschedulable("node(s) were refused by version 1") if VERSION == "1" else None


if __name__ == "__main__":
    raise SystemExit(sdk.main(Versioned()))
