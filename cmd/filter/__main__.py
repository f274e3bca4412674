"""trireme-filter.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.entrypoints import run_filter

sys.exit(run_filter())
