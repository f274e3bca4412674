"""The bind process: see trireme.bind."""

import sys

from trireme.phases.programs import run_bind

sys.exit(run_bind())
