"""The score process: see trireme.score."""

import sys

from trireme.phases.programs import run_score

sys.exit(run_score())
