"""Hooks of MkDocs: pages from the rest of the repository, and links that work in the site as in the repository.

Pages of `docs/` link to READMEs, which become pages of the site, and to code, which does not: such a link becomes its
text, with the path as a tooltip. The changelog begins with what is not released yet, and the heading of a runbook says
how severe its alert is.
"""

from __future__ import annotations

import pathlib
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml
from mkdocs.structure import files as mkdocs_files

from trireme.framework import release

ROOT = pathlib.Path(__file__).parents[2]
_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "deploy/chart/README.md": "chart.md",
    "tools/bench/README.md": "measuring.md",
}
_RUNBOOKS = "runbooks/README.md"
_RULES = ROOT / "deploy/chart/files/rules.yaml"
_NOTES_START = "<!-- towncrier release notes start -->\n"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
# What follows the language of a block says whether tests run it, which MkDocs would not take for a block.
_MARK = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```$|^    [^\n]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: mkdocs_files.Files, config: Any) -> mkdocs_files.Files:
    """Add the pages that are not in `docs/`."""
    for path, page in _pages_elsewhere():
        content = (ROOT / path).read_text(encoding="utf-8")
        if page == "changelog.md":
            content = content.replace(_NOTES_START, f"{_NOTES_START}\n{_unreleased_changes()}")
        files.append(mkdocs_files.File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: mkdocs_files.Files) -> str:
    """Rewrite the links, code blocks and, of runbooks, headings of a page for the site."""
    if page.file.src_uri == _RUNBOOKS:
        markdown = _with_severities(markdown)
    place = _path_of(page.file.src_uri)
    parts = _CODE.split(_MARK.sub(r"\1", markdown))
    parts[::2] = [_LINK.sub(lambda found: _rewritten(found, place, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def _unreleased_changes() -> str:
    """The fragments of changelog.d as the section of a release; empty: there are none."""
    if not any((ROOT / "changelog.d").glob("*.*.md")):
        return ""
    command = [sys.executable, "-m", "towncrier", "build", "--draft"]
    command += ["--version", release.TRIREME, "--date", "not released yet"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _with_severities(markdown: str) -> str:
    """The runbooks with `## NAME (SEVERITY)` as headings, whose anchors stay those of the names."""
    for name, severities in _severities().items():
        heading = f"## {name} ({', '.join(severities)}) {{#{name.lower()}}}"
        markdown = re.sub(rf"^## {name}$", heading, markdown, flags=re.MULTILINE)
    return markdown


def _severities() -> dict[str, list[str]]:
    """The severities of the rules of each alert, as rules.yaml has them."""
    out: dict[str, list[str]] = {}
    for group in yaml.safe_load(_RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                out.setdefault(rule["alert"], []).append(rule["labels"]["severity"])
    return out


def _pages_elsewhere() -> Iterator[tuple[str, str]]:
    """The path in the repository and the page of each document outside of `docs/`."""
    yield from _PAGES.items()
    for folder in ("sdk", "examples"):
        for readme in sorted((ROOT / folder).glob("*/README.md")):
            yield str(readme.relative_to(ROOT)), f"{folder}/{readme.parent.name}.md"


def _path_of(page: str) -> str:
    """Where the text of a page is in the repository."""
    return next((path for path, other in _pages_elsewhere() if other == page), f"docs/{page}")


def _page_at(path: str) -> str | None:
    """The page, or file of the site, for a path in the repository; None: it is no part of the site."""
    for candidate in (path, f"{path}/README.md"):
        for other, page in _pages_elsewhere():
            if candidate == other:
                return page
        if candidate.startswith("docs/") and (ROOT / candidate).is_file():
            return candidate.removeprefix("docs/")
    return None


def _rewritten(found: re.Match[str], place: str, page: str) -> str:
    image, text, target = found.groups()
    path, _, anchor = target.partition("#")
    if not path or ":" in path:
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    other = _page_at(path)
    if other is None:
        return f'<span class="source" title="{path}">{text}</span>'
    relative = posixpath.relpath(other, posixpath.dirname(page) or ".")
    return f"{image}[{text}]({relative}{'#' if anchor else ''}{anchor})"
