"""The text files of a repository, and the words in them, in one spelling: `max_pods`, `--max-pods` and `MaxPods` agree.

Tests: tools/related/test_related_files.py.
"""

import collections
import functools
import pathlib
import re
import subprocess
from collections.abc import Iterator

#: Longer files are data, in which any word may occur.
_LONGEST = 150_000
_BULK = re.compile(
    r"_pb2|\.pb\.go$|sdk/rust/src/v1/|/static/|\.(?:svg|b64|sum|lock|jsonl)$|package-lock|LICENSE$|/gotypes/|protobuf_schema"
)
#: Names, those of packages with the version that is required, and numbers and versions with four characters or more.
WORD = re.compile(r"[A-Za-z][\w-]{2,}\w(?:[<>=~]=\d[\d.]*)?|\d[\d.]{2,}\d")
#: A path, or the full name of a module, as texts name them.
_PATH = re.compile(r"[\w*-][\w.*-]*(?:/[\w.*-]+)*")
#: Methods that other languages have for a field of a message.
_ACCESSORS = re.compile(r"^(?:get|set|has|add)(?=[A-Z_])")


def one_spelling(word: str) -> str:
    """The word without what differs between languages: case, `_` and `-`, and `get` before a field's name."""
    return _ACCESSORS.sub("", word).replace("_", "").replace("-", "").lower()


class Repository:
    """The files that git tracks or would add, by their paths from the root."""

    def __init__(self, root: pathlib.Path) -> None:
        command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        self.root = root
        self.paths = sorted(each for each in set(listed.split("\0")) if each and (root / each).is_file())

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        """The contents of the text files."""
        contents = ((path, (self.root / path).read_bytes()) for path in self.paths)
        return {path: content.decode(errors="replace") for path, content in contents if b"\0" not in content[:4096]}

    @functools.cached_property
    def words(self) -> dict[str, frozenset[str]]:
        """The words of each file that is no bulk of data, in one spelling."""
        spelling = functools.cache(one_spelling)
        return {
            path: frozenset(map(spelling, set(WORD.findall(text))))
            for path, text in self.texts.items()
            if len(text) < _LONGEST and not _BULK.search(path)
        }

    @functools.cached_property
    def files_by_word(self) -> dict[str, frozenset[str]]:
        """The files that have a word."""
        out: dict[str, set[str]] = collections.defaultdict(set)
        for path, words in self.words.items():
            for word in words:
                out[word].add(path)
        return {word: frozenset(files) for word, files in out.items()}

    @functools.cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        """The files by the last part of their paths, with its ending and without."""
        out: dict[str, list[str]] = collections.defaultdict(list)
        for path in self.paths:
            last = path.rpartition("/")[2]
            for part in {last, last.partition(".")[0]}:
                out[part].append(path)
        return out

    def named_in(self, text: str) -> set[str]:
        """The files that a text names, by paths or ends of paths that fit it, or by full names in Python."""
        return {path for name in set(_PATH.findall(text)) for path in self._meant(name.rstrip("."))}

    def _meant(self, name: str) -> list[str]:
        """The file that a path or a full name means. Empty: none, or it fits more than two."""
        dotted = name.replace(".", "/")
        for end in (name, dotted, dotted.rpartition("/")[0]):
            fitting = self._fitting(end) if end else []
            if 1 <= len(fitting) <= 2:
                return fitting
        return []

    def _fitting(self, end: str) -> list[str]:
        """A single word names a file only with its ending, or if it is written as no other word is."""
        if "/" not in end and "." not in end and end not in ("Makefile", "Dockerfile"):
            return []
        return [
            path
            for path in self._by_last_part.get(end.rpartition("/")[2], ())
            if f"/{path}".endswith(f"/{end}") or ("/" in end and f"/{path.rpartition('.')[0]}".endswith(f"/{end}"))
        ]

    def naming(self, path: str) -> Iterator[str]:
        """The files that name this one."""
        stem = path.rpartition("/")[2].lstrip(".").partition(".")[0]
        occurrence = re.compile(re.escape(stem) + r"\b[\w.-]*")
        for other in self.words.keys() - {path}:
            text = self.texts[other]
            if stem in text:
                names = (_beginning(text, found.start()) + found[0] for found in occurrence.finditer(text))
                if path in self.named_in("\n".join({each for each in names if "/" in each or "." in each})):
                    yield other

    def naming_folder(self, path: str) -> Iterator[str]:
        """The Python files that name the file's folder, or the one above, in quotes or in a path, and may read it.

        Those that are not directly above it count if its name is of several words.
        """
        folders = path.split("/")[:-1]
        for depth in range(len(folders) - 1, max(1, len(folders) - 3), -1):
            name = re.compile(rf"[\"'/]{re.escape(folders[depth])}[\"'/]")
            above = "/".join(folders[:depth])
            for other, text in self.texts.items():
                is_near = "_" in folders[depth] or other.rpartition("/")[0] == above
                if is_near and other.endswith(".py") and other != path and name.search(text):
                    yield other


def _beginning(text: str, end: int) -> str:
    """The part of a path that is before a place in a text."""
    start = end
    while start and (text[start - 1].isalnum() or text[start - 1] in "_./*-"):
        start -= 1
    return text[start:end]
