"""trireme-score."""

import sys

from trireme.entrypoints import run_score

sys.exit(run_score())
