"""The console's page in the package is what its sources build, and loads nothing from elsewhere."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "console"
STATIC = ROOT / "internal" / "trireme" / "insight" / "console" / "static"


def _contents(folder: Path) -> dict[str, str]:
    """The hash of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: the console cannot be built again")
def test_the_page_is_what_the_sources_build(tmp_path: Path) -> None:
    """A change of the sources would reach nobody, or the page have code that is in no source: run `make console`."""
    folder = tmp_path / "console"
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "ci", "--silent", "--ignore-scripts"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install what the console is built with: {installed.stderr[-300:]}")
    checked = subprocess.run(
        ["npm", "run", "--silent", "check"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    subprocess.run(["node", "build.mjs", str(tmp_path / "built")], cwd=folder, check=True)
    assert _contents(tmp_path / "built") == _contents(STATIC)


def test_the_page_names_no_other_host() -> None:
    """A page that an operator leaves open would tell others of it, and not work without the internet."""
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
    found = {url for path in STATIC.iterdir() for url in re.findall(r"https?://[\w./-]+", path.read_text())}
    assert found - namespaces == set()


def test_the_page_has_no_inline_code() -> None:
    """The policy that the page is served with forbids it: such code would silently not run."""
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


def test_the_lock_file_names_no_host() -> None:
    """Packages come from the registry that npm is set up with, by the versions and hashes of the lock file."""
    lock = (SOURCE / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert lock.count('"integrity"') >= 4
