"""trireme-bind.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.entrypoints import run_bind

sys.exit(run_bind())
