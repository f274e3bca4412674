"""A plugin for the end-to-end tests: at each extension point it writes to a file what it was called about.

A line has the method and the annotation `example.com/mark` of the pod.
"""

import os
import pathlib
from typing import Any

from trireme import sdk
from trireme.v1 import bind_pb2, core_pb2, filter_pb2

MARK = "example.com/mark"
#: The mark of pods that Permit refuses, and of those that Reserve refuses.
REFUSED = "refused"
UNRESERVED = "unreserved"
METHODS = (
    "pre_enqueue",
    "sort_key",
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "normalize_scores",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)


class AllPoints:
    """Takes part everywhere, and decides nothing but that Reserve and Permit refuse the pods with their marks."""

    info = sdk.Info("AllPoints", depends_on=sdk.Dependency.NODE, pod_fields=(f"metadata.annotations['{MARK}']",))

    def _note(self, method: str, pod: core_pb2.Pod) -> None:
        with pathlib.Path(os.environ["CALLS"]).open("a") as file:
            file.write(f"{method} {pod.metadata.annotations[MARK]}\n")

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> None:
        """Let the pod in."""
        self._note("pre_enqueue", pod)

    def sort_key(self, pod: core_pb2.Pod, profile: str) -> int:
        """The order by priority."""
        self._note("sort_key", pod)
        return -pod.spec.priority

    def pre_filter(self, call: sdk.Call) -> None:
        """Nothing to prepare."""
        self._note("pre_filter", call.pod)

    def filter(self, call: sdk.Call, node: sdk.Node) -> None:
        """Take every node."""
        self._note("filter", call.pod)

    def post_filter(self, call: sdk.Call, columns: filter_pb2.NodeColumns) -> sdk.Verdict:
        """Make no room."""
        self._note("post_filter", call.pod)
        return sdk.unschedulable("no room")

    def pre_score(self, call: sdk.Call, nodes: Any) -> bytes:
        """Some state."""
        self._note("pre_score", call.pod)
        return b"state"

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        """The same for every node."""
        self._note("score", call.pod)
        return 7

    def normalize_scores(self, call: sdk.Call, nodes: Any, scores: Any) -> Any:
        """Leave the scores."""
        self._note("normalize_scores", call.pod)
        return scores

    def reserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> sdk.Verdict:
        """Refuse pods with the mark."""
        self._note("reserve", call.pod)
        if call.pod.metadata.annotations[MARK] == UNRESERVED:
            return sdk.unschedulable("no licence is free", "noFreeLicence", product="cad", licences=3)
        return None

    def unreserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> None:
        """Give nothing back."""
        self._note("unreserve", call.pod)

    def permit(self, call: sdk.Call, item: bind_pb2.BindItem) -> sdk.Verdict:
        """Refuse pods with the mark."""
        self._note("permit", call.pod)
        return sdk.unschedulable("refused") if call.pod.metadata.annotations[MARK] == REFUSED else None

    def pre_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> None:
        """Prepare nothing."""
        self._note("pre_bind", call.pod)

    def bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> Any:
        """Leave the pod to the next binder."""
        self._note("bind", call.pod)
        return sdk.SKIP

    def post_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> None:
        """See that the pod is bound."""
        self._note("post_bind", call.pod)


if __name__ == "__main__":
    raise SystemExit(sdk.main(AllPoints()))
