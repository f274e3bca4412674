"""Takes out of an installation what Trireme never loads, and says what is left: a step of the Dockerfile.

    python prune.py SITE_PACKAGES

Most of the `kubernetes` package is one module for each kind and API group, which it loads only when they are named;
Trireme takes its credential code alone. `tests/contract/test_image_contents.py` runs every program on a pruned tree.
Standard library only.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

# Folders and files, as patterns below site-packages.
NOT_LOADED = (
    "kubernetes/client/api/*_api.py",
    "kubernetes/client/models/v*.py",
    "kubernetes/aio/client/api/*_api.py",
    "kubernetes/aio/client/models/v*.py",
    "cel_expr_python/ext",  # extension libraries of CEL; those of Kubernetes are Trireme's own
    "numpy/**/tests",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/f2py",
    "numpy/random/lib",
    "pygments",  # rich colours source code with it, and shows none here
    "**/*.pyi",
    "**/*.pyx",
    "**/*.pxd",
    "**/__pycache__",  # made anew of what is left
)
# Packages named in the table; the rest is one line.
_NAMED = 12


def prune(packages: Path) -> None:
    """Remove what is not loaded. Raises: ValueError for a pattern that finds nothing: the package has changed."""
    for pattern in NOT_LOADED:
        found = list(packages.glob(pattern))
        if not found and "*" not in pattern:
            raise ValueError(f"{pattern}: there is no such thing in {packages}")
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def table(packages: Path) -> Iterator[str]:
    """What is left, largest first. Units: MB of files."""
    sizes = {entry.name: _size(entry) for entry in packages.iterdir()}
    largest = sorted(sizes, key=lambda name: -sizes[name])
    for name in largest[:_NAMED]:
        yield f"{sizes[name] / 1e6:7.1f} MB  {name}"
    yield f"{sum(sizes[name] for name in largest[_NAMED:]) / 1e6:7.1f} MB  {len(largest) - _NAMED} more"
    yield f"{sum(sizes.values()) / 1e6:7.1f} MB  in all"


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    where = Path(sys.argv[1])
    prune(where)
    print(*table(where), sep="\n")
