"""Whether files changed, by their size and time of modification.

Tests: tests/unit/cli/test_plugin_development.py.
"""

import itertools
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

#: Folders that builds and tools write, which are no sources.
_OUTPUT_FOLDERS = frozenset(
    ("target", "node_modules", "dist", "build", "bin", "__pycache__", "venv", "env", "coverage", "out")
)

#: Size and modification time (ns) by path.
Snapshot = Mapping[pathlib.Path, tuple[int, int]]


def take(folder: pathlib.Path, watch: Sequence[str]) -> Snapshot:
    """The state of the files and folders that `watch` names, relative to `folder`; a name may be a pattern, `*.go`.

    Hidden files, and folders that tools write, are left out; a file that goes meanwhile is as one that is not there.
    """
    found = {}
    for name in watch:
        named = sorted(folder.glob(name)) if "*" in name else [folder / name]
        for path in itertools.chain.from_iterable(map(_list_files, named)):
            try:
                status = path.stat()
            except OSError:
                continue
            found[path] = (status.st_size, status.st_mtime_ns)
    return found


def changed(before: Snapshot, after: Snapshot) -> list[pathlib.Path]:
    """The files that are new, gone or different, by name."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _list_files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield the file, or those of the folder."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _OUTPUT_FOLDERS]
        yield from (pathlib.Path(folder, name) for name in files if not name.startswith("."))
