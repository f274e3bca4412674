"""The shadow process: see trireme.shadow."""

import sys

from trireme.phases.programs import run_shadow

sys.exit(run_shadow())
