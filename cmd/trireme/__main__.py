"""trireme."""

import sys

from trireme.cli.main import main

sys.exit(main())
