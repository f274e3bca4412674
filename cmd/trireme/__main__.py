"""The person's tool: see trireme.cli."""

import sys

from trireme.cli.main import main

sys.exit(main())
