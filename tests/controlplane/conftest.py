"""Makes the control plane's fixtures available to the tests of the control plane itself."""

from controlplane_fixture import controlplane, start_controlplane

__all__ = ["controlplane", "start_controlplane"]
