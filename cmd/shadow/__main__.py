"""trireme-shadow."""

import sys

from trireme.entrypoints import run_shadow

sys.exit(run_shadow())
