"""trireme-frontend."""

import sys

from trireme.frontend.process import main

sys.exit(main())
