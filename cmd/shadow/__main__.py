"""trireme-shadow.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.entrypoints import run_shadow

sys.exit(run_shadow())
