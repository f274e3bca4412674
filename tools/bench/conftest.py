"""Makes the control plane's fixtures available to the benchmark's tests."""

from tools.controlplane.controlplane_fixture import controlplane, start_controlplane

__all__ = ["controlplane", "start_controlplane"]
