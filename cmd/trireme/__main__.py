"""trireme.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.cli.main import main

sys.exit(main())
