"""trireme-frontend.

Also change: internal/trireme/entrypoints.py (the programs).
"""

import sys

from trireme.frontend.process import main

sys.exit(main())
