"""The release before this one, from the repository's history: its chart, and its image, built as this one's is.

The last commit before this version was set stands for the release. Its code is built by today's Dockerfile: what is
compared is the product, and an older recipe may need a registry.

Tests: tools/node/test_node_cluster.py.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.image import build_image
from tools.release import versions

_CHART = "deploy/chart/Chart.yaml"
_RECIPE = ("Dockerfile", "deploy/image")
_FOLDER = versions.ROOT / "build" / "previous"


@dataclass(frozen=True, slots=True)
class PreviousRelease:
    """Where it is on disk."""

    version: str
    chart: Path
    archive: Path


def build() -> PreviousRelease:
    """Build it where needed. Raises: SystemExit: the history does not reach back to it, or a program failed."""
    changed = _git("log", "-1", "--format=%H", f"-SappVersion: {versions.current()}", "--", _CHART).strip()
    if not changed or not _git("rev-list", "--max-count=1", f"{changed}^@"):
        raise SystemExit(f"the history does not have the release before {versions.current()}: `git fetch --unshallow`")
    commit = f"{changed}^"
    found = re.search(r"^appVersion: (\S+)$", _git("show", f"{commit}:{_CHART}"), re.MULTILINE)
    assert found is not None
    source = _FOLDER / changed
    release = PreviousRelease(found[1], source / "deploy/chart", _FOLDER / f"{changed}.tar")
    if not release.archive.exists():
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        files = subprocess.run(["git", "archive", commit], cwd=versions.ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract"], cwd=source, input=files, check=True)
        subprocess.run(["cp", "--recursive", "--parents", *_RECIPE, source], cwd=versions.ROOT, check=True)
        date = int(_git("log", "-1", "--format=%ct", commit))
        build_image.build_base(build_image.OWN)
        build_image.build_once(release.archive, source_date=date, source=source, version=release.version)
    return release


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=versions.ROOT, capture_output=True, text=True, check=True).stdout
