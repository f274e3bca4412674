"""trireme-bind."""

import sys

from trireme.entrypoints import run_bind

sys.exit(run_bind())
