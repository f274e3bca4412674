"""A plugin for the end-to-end tests: orders pods by their label `rank`, within it by priority; none is last."""

from trireme import sdk
from trireme.v1 import core_pb2


class FairOrder:
    """QueueSort alone."""

    info = sdk.Info("FairOrder", pod_fields=("metadata.labels['rank']",), version="1")

    def sort_key(self, pod: core_pb2.Pod, profile: str) -> sdk.SortKey:
        """The least rank first."""
        return sdk.SortKey((int(pod.metadata.labels.get("rank", "1000")), -pod.spec.priority))


if __name__ == "__main__":
    raise SystemExit(sdk.main(FairOrder()))
