"""The insight process: see trireme.insight."""

import sys

from trireme.insight.process import main

sys.exit(main())
