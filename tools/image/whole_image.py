"""Before `make test-image`: builds what signs images, and says in a line each what is skipped for lack of programs.

Tests: tools/image/test_build_image.py.
"""

import shutil
import sys
from collections.abc import Iterator

from tools.image import build_image
from tools.programs import build_cosign


def skipped() -> Iterator[str]:
    """What this machine cannot do, and what to install for it."""
    for architecture in build_image.ARCHITECTURES:
        if lack := build_image.missing(architecture):
            yield lack
    if not _signs():
        yield "nothing is signed: install Go 1.26 or newer"


def main() -> None:
    """Raises: SystemExit: what signs cannot be built with the Go that is here."""
    for lack in skipped():
        print(f"skipped: {lack}", flush=True)
    if _signs():
        build_cosign.PROGRAMS.build()


def _signs() -> bool:
    return build_cosign.PROGRAMS.available() or shutil.which("go") is not None


if __name__ == "__main__":
    sys.exit(main())
