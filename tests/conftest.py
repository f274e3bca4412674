"""What all tests share: test folders are on the path, so that their helpers can be imported by name."""

import pathlib
import sys

for folder in ("unit", "contract", "conformance", "e2e", "controlplane"):
    sys.path.append(str(pathlib.Path(__file__).parent / folder))
