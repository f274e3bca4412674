"""The site builds without a warning and without a network, and its links lead somewhere."""

import html
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest

from tests.alerts import alert_rules

ROOT = pathlib.Path(__file__).parents[3]
# Elements whose attribute makes a browser load something.
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


class _Page(html.parser.HTMLParser):
    """The links and anchors of a page, and what it loads."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get("rel") != "canonical" and LOADED.get(tag) in values:
            self.loaded.append(values[LOADED[tag]])


def _text(path: pathlib.Path) -> str:
    """The words of a page, with one space between them."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", path.read_text())).split())


def _has_severity(headings: str, name: str, labels: dict[str, str]) -> bool:
    """Whether the alert's heading has its severity, perhaps among others."""
    return re.search(rf"\b{name} \([^)]*\b{labels['severity']}\b", headings) is not None


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_site_builds_and_its_links_lead_somewhere(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = {path: _Page(path) for path in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 60
    broken = []
    for path, page in pages.items():
        for target in page.links + page.loaded:
            link = urllib.parse.urlsplit(target)
            if link.scheme or link.netloc or path.name == "404.html":
                continue
            other = (path.parent / urllib.parse.unquote(link.path)).resolve() if link.path else path
            if not other.exists() or (link.fragment and other in pages and link.fragment not in pages[other].anchors):
                broken.append(f"{path.name}: {target}")
    assert broken == []
    headings = _text(tmp_path / "site/runbooks/index.html")
    wrong = [each for each in alert_rules.alerts() if not _has_severity(headings, each["alert"], each["labels"])]
    assert wrong == []
    changes = _text(tmp_path / "site/changelog.html")
    fragments = [each.read_text() for each in (ROOT / "changelog.d").glob("*.*.md")]
    assert [text for text in fragments if " ".join(text.replace("`", "").split())[:30] not in changes] == []
    assert [path.name for path in pages if "<p><code>sh " in path.read_text() or "```" in path.read_text()] == []
    assert [each for page in pages.values() for each in page.loaded if urllib.parse.urlsplit(each).netloc] == []
