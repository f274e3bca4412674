"""The filter process: see trireme.filter."""

import sys

from trireme.phases.programs import run_filter

sys.exit(run_filter())
