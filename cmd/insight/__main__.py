"""trireme-insight.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.entrypoints import run_insight

sys.exit(run_insight())
