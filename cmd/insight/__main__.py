"""The insight process: see trireme.insight."""

import sys

from trireme.phases.programs import run_insight

sys.exit(run_insight())
