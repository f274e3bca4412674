"""The score process: see trireme.score."""

import sys

from trireme.score.process import main

sys.exit(main())
