"""trireme-insight."""

import sys

from trireme.entrypoints import run_insight

sys.exit(run_insight())
