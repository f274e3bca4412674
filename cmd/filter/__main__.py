"""The filter process: see trireme.filter."""

import sys

from trireme.filter.process import main

sys.exit(main())
