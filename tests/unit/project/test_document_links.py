"""Links and paths in documents lead somewhere, and the architecture names every folder."""

import ast
import functools
import pathlib
import re

import pytest

from trireme_kube.componentbase import documents

REPOSITORY = pathlib.Path(__file__).parents[3]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|md|yaml|json|jsonl|proto|sh|go|mod))`")
# A path in a document begins in one of these.
ROOTS = ("", "internal", "internal/trireme", "internal/trireme_kube", "docs", "tests", "tools")
# A link to a module with names in it: [queueing/backoff](….py) (`BackoffPolicy.duration`, `BackoffQueue`).
SYMBOLS = re.compile(r"\]\((\.\./internal/[^)\s]+\.py)\)\s+\(((?:`[\w.]+`(?:, )?)+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FILE_OF_DOCUMENTS = re.compile(r"\bdocs/[\w/.-]+\.md\b")
NOTES = REPOSITORY / "deploy/chart/templates/NOTES.txt"
FOLDERS = ("docs", "deploy", "examples", "protos", "tests", "tools")


def _documents() -> list[str]:
    found = [*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.md"))]
    return sorted(str(path.relative_to(REPOSITORY)) for path in found if "node_modules" not in path.parts)


def _anchors(document: pathlib.Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = HEADING.findall(CODE_BLOCK.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_folder_is_described() -> None:
    """A reader would meet a folder and not learn what it is for."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    folders = [each.parent for each in (REPOSITORY / "internal").glob("*/*/__init__.py")]
    assert len(folders) > 20
    assert [str(each) for each in folders if f"(../internal/{each.parent.name}/{each.name})" not in page] == []


@pytest.mark.parametrize("name", _documents())
def test_links_lead_somewhere(name: str) -> None:
    """A reader would get a page that says 404."""
    document = REPOSITORY / name
    broken = []
    for target in LINK.findall(CODE_BLOCK.sub("", document.read_text())):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        found = (document.parent / path).resolve() if path else document
        if not found.exists() or (anchor and anchor not in _anchors(found)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("name", _documents())
def test_paths_exist(name: str) -> None:
    """A reader would look for a file that has moved."""
    document = REPOSITORY / name
    paths = [path for path in PATH.findall(CODE_BLOCK.sub("", document.read_text())) if not path.startswith("build/")]
    roots = [document.parent, *(REPOSITORY / root for root in ROOTS)]
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_pages_that_messages_name_exist() -> None:
    """A message would lead to a page or a heading that does not exist."""
    notes = re.findall(r"https://trireme\.dev/docs/[\w/.-]+#[\w-]+", NOTES.read_text())
    named = {value for value in vars(documents).values() if str(value).startswith(f"{documents.ADDRESS}/")} | {*notes}
    assert len(named) >= 10
    parts = {page: page.removeprefix(f"{documents.ADDRESS}/").partition("#")[::2] for page in named}
    wrong = [page for page, (path, part) in parts.items() if part and part not in _anchors(_source(path))]
    assert wrong == []
    assert [page for page, (path, _) in parts.items() if not _source(path).exists()] == []


def _source(page: str) -> pathlib.Path:
    """The document of a page of the site; that of a folder is its README."""
    return REPOSITORY / "docs" / (page.replace(".html", ".md") if page.endswith(".html") else f"{page}/README.md")


def test_messages_name_pages_by_their_address() -> None:
    """A message would name a file that an installation does not have."""
    modules = {path: path.read_text() for path in (REPOSITORY / "internal").rglob("*.py")}
    found = []
    for path, text in modules.items():
        if "docs/" not in text:
            continue
        tree = ast.parse(text)
        described = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        strings = (each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in described)
        found += [f"{path.name}:{each.lineno}" for each in strings if FILE_OF_DOCUMENTS.search(str(each.value))]
    # Verification quotes the contract with the file that has the sentence.
    assert found == ["sentences.py:5"]


def test_the_way_of_a_pod_is_short() -> None:
    """A reader can follow it, and it is counted right."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    walk = page.partition("## The way of a pod")[2].partition("Under load")[0]
    modules = LINK.findall(walk)
    assert len(set(modules)) == len(modules) <= 40
    assert f"the {len(modules)} modules" in walk


@functools.cache
def _symbols(module: pathlib.Path) -> set[str]:
    """The functions, classes, methods and constants of a module."""
    names: set[str] = set()
    for each in ast.parse(module.read_text()).body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(each.name)
        if isinstance(each, ast.ClassDef):
            inner = (one for one in each.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            names.update(f"{each.name}.{one.name}" for one in inner)
        if isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


@pytest.mark.slow
def test_symbols_beside_links_exist() -> None:
    """A reader would search the file for a function that was renamed or has moved."""
    documents = REPOSITORY / "docs"
    beside_links = [each for page in documents.glob("*.md") for each in SYMBOLS.findall(page.read_text())]
    assert len(beside_links) > 3
    wrong = [
        f"{name} in {path}"
        for path, names in beside_links
        for name in re.findall(r"`([\w.]+)`", names)
        if name not in _symbols((documents / path).resolve())
    ]
    assert wrong == []
