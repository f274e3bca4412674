"""A plugin for the end-to-end tests: Permit refuses every pod, and writes a letter to a file for each call."""

import os
import pathlib

from trireme import sdk
from trireme.v1 import bind_pb2


class Refuser:
    """Permit alone; its pods are to be tried again when a pod leaves a node."""

    info = sdk.Info("Refuser", events=(sdk.Event("AssignedPod", "Delete"),))

    def permit(self, call: sdk.Call, item: bind_pb2.BindItem) -> sdk.Status:
        """Refuse."""
        with pathlib.Path(os.environ["CALLS"]).open("a") as file:
            file.write("x")
        return sdk.unschedulable("nobody approved")


if __name__ == "__main__":
    raise SystemExit(sdk.main(Refuser()))
