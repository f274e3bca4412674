"""Names the places that a change of a file may concern: `make related FILE=internal/trireme/bind/flags.py`.

With `NAME=symbol` only those of one name in it. It knows what files declare of each other (`Also change:`), who
implements its protocols, what compares it with recordings, who uses what the file defines, what is generated from it,
who names its path, who states the same facts or numbers in any language, and which files often changed together with
it. What it prints is where to look, what most likely changes first, and not a proof.

Tests: tools/related/test_related_files.py.
"""

import argparse
import ast
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tools.related import comparisons, declared_links, definitions, implementers, same_numbers, same_texts, shared_facts
from tools.related.repository import Repository

ROOT = pathlib.Path(__file__).parents[2]
_LINES = 30
_WIDTH = 140
_TITLE = 16
_NOTE = 40
_USES = 25
_LEAST_NOTE = 6
#: Groups that are long, and seldom what must change, have fewer lines.
_MOST_LINES = {"CONTRIBUTING.md": 3, "names it": 5, "names its folder": 2, "often with it": 3, "it uses": 2}
#: What is generated without saying so at its beginning: sources, the target of make, what it writes.
_GENERATED = (
    ("protos/**", "make protos", "internal/trireme/v1/, sdk/go/triremev1/, sdk/rust/src/v1/"),
    ("deploy/chart/**", "make manifests", "deploy/base/, deploy/components/, deploy/overlays/"),
    ("deploy/chart/**", "make chart-snapshots", "tests/contract/data/chart/"),
    ("deploy/dashboards.yaml", "make manifests", "deploy/chart/files/dashboards/"),
    ("*/go.mod", "go mod tidy", "go.sum beside it"),
    ("console/**", "make console", "internal/trireme/insight/console/static/"),
)
_WRITTEN = re.compile(r"written by `(make [\w-]+)`(.*)", re.IGNORECASE)
#: What names of tests have besides the name of what they test.
_TEST = re.compile(r"^test_|(?:_test|(?<=[a-z])Test|\.test)$")
#: A commit of more files has several subjects.
_LARGE_COMMIT = 12
_GENERATED_ENOUGH = 0.6
_FEW_SIBLINGS = 9
_SHARED_ENOUGH = 0.3

Line = tuple[str, str]


class Related:
    """The neighbours of a file, or of one name in it."""

    def __init__(self, repository: Repository, path: str, name: str = "") -> None:
        self._repository = repository
        self._path = path
        self._name = name
        self._text = repository.texts[path]
        self._part = definitions.source_of(path, self._text, name) if name else self._text
        self._facts = shared_facts.sharing(repository, path, f"{self._part}\n{name}")
        self._shown: set[str] = {path}

    def groups(self) -> Iterator[tuple[str, list[Line]]]:
        """Titles, and the files below each with what is known of them. A file is in one group."""
        yield "also change", self._new(self._declared())
        yield "implements it", self._new(self._implementers())
        generated = [*self._generated()]
        self._shown.update(path for path, _ in generated)
        yield "generated", generated
        yield "tests", self._new(self._tests())
        yield "uses it", self._new(self._users())
        used = ((each, "") for each in self._used())
        if not self._path.endswith(".py"):
            yield "it uses", self._new(used)
        yield "same number", self._new(self._stating(same_numbers))
        yield "same text", self._new(self._stating(same_texts))
        naming = ((each, "") for each in sorted(self._repository.naming(self._path)))
        if not self._name:
            yield "names it", self._new(naming)
        yield "same file", self._new((each, "") for each in self._of_siblings())
        yield "same words", self._new(self._sharing())
        yield "CONTRIBUTING.md", [*self._rows_of_contributing()]
        if self._name:
            yield "names it", self._new(naming)
        yield "names its folder", self._new((each, "") for each in self._repository.naming_folder(self._path))
        yield "often with it", self._new(self._changed_together())
        if self._path.endswith(".py"):
            yield "it uses", self._new(used)

    def _new(self, lines: Iterable[Line]) -> list[Line]:
        """Those of files that no group has shown."""
        new = list({path: (path, note) for path, note in lines if path not in self._shown}.values())
        self._shown.update(path for path, _ in new)
        return new

    def _used(self) -> list[str]:
        """The modules that it imports and the files that it names; of one name only those that its source names."""
        modules = [] if self._name else definitions.used(self._repository, self._path, self._text)
        return [*modules, *sorted(self._repository.named_in(self._part))]

    def _declared(self) -> Iterator[Line]:
        module = self._path.removeprefix("internal/").removesuffix(".py").replace("/", ".")
        for path in sorted(self._listed(self._text)):
            yield path, ""
        for path, text in self._repository.texts.items():
            if "Also change: " in text and self._path in self._listed(text):
                yield path, ""

        for path, text in self._repository.texts.items():
            if "Implementers: " in text and path != self._path:
                named = declared_links.implementers(text)
                if any(each.startswith(f"{module}.") or fnmatch.fnmatchcase(module, each) for each in named):
                    yield path, "it implements"

    def _implementers(self) -> Iterator[Line]:
        """The classes that implement its protocols, and the implementers that it names."""
        if self._path.endswith(".py"):
            protocols = implementers.protocols(self._path, self._text, self._name)
            for path, names in implementers.implementers(self._repository, self._path, protocols):
                yield path, _listing(names)
            declared = [self._part, *(ast.get_docstring(each.node) or "" for each in protocols)]
            named = " ".join(declared_links.implementers("\n".join(declared)))
            yield from ((path, "") for path in sorted(self._repository.named_in(named)))

    def _listed(self, text: str) -> set[str]:
        """The files that the `Also change:` lines of a text name."""
        return {path for each in declared_links.also_change(text) for path in self._matching(each)}

    def _matching(self, pattern: str) -> Iterable[str]:
        if "*" in pattern:
            return fnmatch.filter(self._repository.paths, pattern)
        return {pattern} & self._repository.texts.keys()

    def _rows_of_contributing(self) -> Iterator[Line]:
        """The rows of its table that name the file, or a folder that it is in."""
        for row in self._repository.texts.get("CONTRIBUTING.md", "").splitlines():
            first, *rest = row.strip("| ").split(" | ")
            paths = [re.sub(r"<\w+>", "*", each) for each in re.findall(r"`([^` ]*[/.][^` ]*)`", " ".join(rest))]
            ends = (f"*/{each}*" if each.endswith("/") else f"*/{each}" for each in paths if "/" in each)
            if row.startswith("|") and any(fnmatch.fnmatch(f"/{self._path}", end) for end in ends):
                yield first, ", ".join(paths)

    def _generated(self) -> Iterator[Line]:
        written = _WRITTEN.search(self._text[:3000])
        if written:
            yield self._path, f"`{written[1]}` writes it{written[2].rstrip(' .->')}: change its source"
        known = [(target, files) for pattern, target, files in _GENERATED if fnmatch.fnmatch(self._path, pattern)]
        yield from ((files, f"`{target}`") for target, files in known)
        scores = dict(self._ranked(_GENERATED_ENOUGH)) if self._path.endswith((".py", ".proto")) else {}
        for path, (target, sources) in self._written().items():
            if target not in dict(known):
                named = {each.rstrip(".") for each in re.findall(r"[\w.]+/[\w./]+", sources)} - {"internal/trireme"}
                if any(self._path.startswith(each) for each in named):
                    yield path, f"`{target}`"
                elif path in scores:
                    yield path, f"`{target}`, {_listing(scores[path])}"

    def _written(self) -> dict[str, tuple[str, str]]:
        """The files that say they are written by a target of make, with the target and what follows in the line."""
        found = {path: _WRITTEN.search(self._repository.texts[path][:3000]) for path in self._repository.words}
        return {
            path: (each[1], each[2])
            for path, each in found.items()
            if each and path != self._path and path.endswith((".md", ".yaml"))
        }

    def _tests(self) -> Iterator[Line]:
        """The tests that the file declares, and those of its name; of a test the files that have its name."""
        for path in declared_links.tests(self._text) if self._path.endswith(".py") else ():
            yield path, "declared"
        yield from comparisons.comparing(self._path)
        folders = {*pathlib.PurePath(self._path).parts[:-1]}
        near = {path: len(folders & {*pathlib.PurePath(path).parts}) for path in self._of_its_name()}
        yield from ((path, "its name") for path in near if near[path] == max(near.values()) > 0)

    def _of_its_name(self) -> Iterator[str]:
        """The tests that are named as this file or as its folder, in any folder; of a test the other way round."""
        stem = pathlib.PurePath(self._path).stem
        folder = pathlib.PurePath(self._path).parent.name
        tested = _TEST.sub("", stem)
        for path in self._repository.paths:
            other = pathlib.PurePath(path).stem
            other_tested = _TEST.sub("", other)
            if tested != stem:
                fits = other == tested
            else:
                fits = other_tested == stem or ("_" in folder and other_tested.startswith(folder))
            if fits and (other == other_tested) == (tested != stem):
                yield path

    def _users(self) -> Iterator[Line]:
        names = definitions.definitions(self._path, self._text)
        if name := self._name:
            of_name = {each: inner & {name} for each, inner in names.items() if name == each or name in inner}
            found = definitions.users(self._repository, self._path, of_name or {name: frozenset()})
            found = {path: used & {name} for path, used in found.items() if name in used}
            if not found and name.startswith("_"):
                found = definitions.users(self._repository, self._path, names)
        else:
            found = definitions.users(self._repository, self._path, names)
        often = collections.Counter(name for used in found.values() for name in used)
        weights = {path: sum(1 / often[name] for name in used) for path, used in found.items()}
        for path in sorted(found, key=lambda each: (-weights[each], each)):
            used = sorted(found[path] - {self._name}, key=lambda each: (often[each], each))
            yield path, _listing(used, _USES)

    def _stating(self, facts: Any) -> Iterator[Line]:
        """The files that state numbers, or texts, again; of one name without saying so of each."""
        for path, stated in facts.stating(self._repository, self._path, self._part, self._name):
            yield path, "" if self._name else _listing(stated, _USES)

    def _of_siblings(self) -> list[str]:
        """The files of its name in the folders beside its own, as each language has one; none of Python, or of many."""
        folder, _, name = self._path.rpartition("/")
        pattern = f"{folder.rpartition('/')[0]}/*/{name}"
        depth = pattern.count("/")
        found = [each for each in fnmatch.filter(self._repository.paths, pattern) if each.count("/") == depth]
        return found if depth > 1 and len(found) <= _FEW_SIBLINGS and not name.endswith(".py") else []

    def _ranked(self, least: float) -> list[tuple[str, list[str]]]:
        """Files with the rare facts that they share, the most telling of both first."""
        scores = {path: shared_facts.score(facts) for path, facts in self._facts.items()}
        paths = sorted((each for each in scores if scores[each] >= least), key=lambda each: -scores[each])
        return [(path, sorted(self._facts[path], key=lambda each: -self._facts[path][each])) for path in paths]

    def _sharing(self) -> Iterator[Line]:
        for path, facts in self._ranked(_SHARED_ENOUGH):
            yield path, _listing(facts)

    def _changed_together(self) -> Iterator[Line]:
        """By the history, if there is one."""
        commits = self._git("log", "--max-count=60", "--format=%h", "--", self._path).split()
        shown = self._git("show", "--format=%n", "--name-only", *commits) if commits else ""
        changes = [each.split() for each in re.split(r"\n\n\n+", shown.strip())]
        small = [each for each in changes if len(each) <= _LARGE_COMMIT]
        together = collections.Counter(path for each in small for path in each)
        for path, count in together.most_common():
            if count >= max(2, len(small) / 8) and path in self._repository.texts and path != "CHANGELOG.md":
                yield path, f"{count} of {len(small)} small commits"

    def _git(self, *arguments: str) -> str:
        command = ("git", *arguments)
        return subprocess.run(command, cwd=self._repository.root, capture_output=True, text=True, check=False).stdout


def _listing(names: Sequence[str], most: int = _NOTE) -> str:
    """The first names, in about so many characters."""
    width, shown = 0, list[str]()
    for name in names:
        width += len(name) + 2
        if shown and width > most:
            return f"{', '.join(shown)} … {len(names) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)


def lines(groups: Iterable[tuple[str, list[Line]]], most: int) -> Iterator[str]:
    """What is printed: at most so many lines, shared among the groups. 0: all."""
    filled = [(title, [*_rows(_folded(found))]) for title, found in groups if found]
    sizes = [len(rows) for _, rows in filled]
    shares = _shares([min(len(rows), _MOST_LINES.get(title, most)) for title, rows in filled], most) if most else sizes
    for (title, rows), share in zip(filled, shares, strict=True):
        shown = ["  ".join(map(_entry, row)) for row in rows[:share]]
        if share < len(rows):
            shown[-1] = f"… {_folders(path for row in rows[share - 1 :] for path, _ in row)}"
        for text in shown:
            yield f"{title:<{_TITLE}} {text}"
            title = ""


def _rows(found: Iterable[Line]) -> Iterator[list[Line]]:
    """Neighbours share a line as far as they fit."""
    row: list[Line] = []
    for line in found:
        if row and sum(len(_entry(each)) + 2 for each in (*row, line)) > _WIDTH - _TITLE:
            yield row
            row = []
        row.append(line)
    if row:
        yield row


def _folded(found: Iterable[Line]) -> Iterator[Line]:
    """Files of one folder without notes are one entry: `folder/{a.py,b.py}`."""
    by_folder: dict[str, list[str]] = {}
    for path, note in found:
        folder = path if note or "/" not in path else path.rpartition("/")[0]
        by_folder.setdefault(f"{folder}\0{note}", []).append(path.rpartition("/")[2])
    for key, names in by_folder.items():
        folder, _, note = key.partition("\0")
        while names:
            some = [names.pop(0)]
            while names and len(f"{folder}/{{{','.join(some)},{names[0]}}}") <= _WIDTH - _TITLE - 1:
                some.append(names.pop(0))
            if note or folder == some[0]:
                yield folder, note
            else:
                yield f"{folder}/{some[0]}" if len(some) == 1 else f"{folder}/{{{','.join(some)}}}", ""


def _entry(line: Line) -> str:
    """A path with its note, which is cut where it does not fit, or left out."""
    path, note = line
    room = _WIDTH - _TITLE - len(path) - 4
    if not note or room < _LEAST_NOTE:
        return path
    return f"{path} ({note if len(note) <= room else f'{note[: room - 1]}…'})"


def _folders(entries: Iterable[str]) -> str:
    """The folders of entries, with how many files are in each."""
    folders: collections.Counter[str] = collections.Counter()
    for entry in entries:
        folders["/".join(entry.split("/{")[0].split("/")[:-1][:3]) or "."] += 1 + entry.count(",")
    first = ", ".join(f"{count} in {folder}" for folder, count in folders.most_common(4))
    return (first + (f", {len(folders) - 4} other folders" if len(folders) > 4 else ""))[: _WIDTH - _TITLE - 3]


def _shares(sizes: Sequence[int], available: int) -> list[int]:
    """So many of each group that together they fit, none much more than another unless it is alone."""
    shares = [0] * len(sizes)
    while available > 0 and any(share < size for share, size in zip(shares, sizes, strict=True)):
        for at, size in enumerate(sizes):
            if shares[at] < size and available > 0:
                shares[at] += 1
                available -= 1
    return shares


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the neighbours. Returns the exit code: 2 if there is no such file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="path from the root of the repository")
    parser.add_argument(
        "name", nargs="?", default="", help="a name in it: a class, a function, a field, a flag; or a message"
    )
    parser.add_argument("--all", action="store_true", help=f"all neighbours, not {_LINES} lines")
    options = parser.parse_args(arguments)
    repository = Repository(ROOT)
    if options.file not in repository.texts:
        print(f"related: git knows no text file {options.file}", file=sys.stderr)
        return 2
    groups = Related(repository, options.file, options.name).groups()
    shown = [*lines(groups, 0 if options.all else _LINES)]
    if not options.name and any("… " in each[_TITLE:][:4] for each in shown):
        shown.append("more of one name or message in it: NAME=…; all: ARGS=--all")
    print("\n".join(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
