"""A plugin for the end-to-end tests: pods labelled `wait` stay out of the queue, all others wait on Permit."""

from trireme import sdk
from trireme.v1 import bind_pb2, core_pb2

PERMIT_SECONDS = 60.0


class Gatekeeper:
    """PreEnqueue and Permit."""

    info = sdk.Info(
        "Gatekeeper",
        pod_fields=("metadata.labels['wait']",),
        events=(sdk.Event("TargetPod", "UpdatePodLabel"),),
    )

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> sdk.Verdict:
        """Keep out who has the label."""
        return sdk.unresolvable("labelled to wait") if "wait" in pod.metadata.labels else None

    def permit(self, call: sdk.Call, item: bind_pb2.BindItem) -> sdk.Wait:
        """Everybody waits until the test says otherwise."""
        return sdk.Wait(PERMIT_SECONDS)


if __name__ == "__main__":
    raise SystemExit(sdk.main(Gatekeeper()))
