"""trireme-score.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.entrypoints import run_score

sys.exit(run_score())
