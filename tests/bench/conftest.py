"""Lets the benchmark's tests find the control plane's launcher, as run.py does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "controlplane"))

from controlplane_fixture import controlplane, start_controlplane

__all__ = ["controlplane", "start_controlplane"]
