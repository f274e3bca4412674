"""A plugin for the end-to-end tests: a pod may run only on the node that its annotation names.

Neither annotations nor all labels are read for other plugins, so the scheduler must read more of pods when it joins.
"""

from trireme import sdk

ANNOTATION = "example.com/node"


class Chooser:
    """Filter by an annotation of the pod."""

    info = sdk.Info(
        "Chooser",
        version="2.1",
        depends_on=sdk.Dependency.NODE,
        pod_fields=("metadata.annotations", "metadata.labels"),
    )

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Refuse all other nodes."""
        wanted = call.pod.metadata.annotations.get(ANNOTATION, "")
        return None if node.name == wanted else sdk.unschedulable("node(s) were not chosen")


if __name__ == "__main__":
    raise SystemExit(sdk.main(Chooser()))
