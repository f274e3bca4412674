"""trireme-filter."""

import sys

from trireme.entrypoints import run_filter

sys.exit(run_filter())
