"""The bind process: see trireme.bind."""

import sys

from trireme.bind.process import main

sys.exit(main())
