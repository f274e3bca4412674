"""Which files state a text of a file again: a message, a flag, a path, a key, as they are in quotes.

Names agree in any spelling; texts of several words, or with other characters, are the same.

Tests: tools/related/test_related_files.py.
"""

import ast
import re
from collections.abc import Iterator

from tools.related import definitions
from tools.related.repository import WORD, Repository, one_spelling

#: A text that is no word of a language: several words, or a name of several parts.
_TELLING = re.compile(r"(?=.{6})(?:.*[\w}][ ./_:-]+[\w{]|.*[a-z][A-Z])")
_QUOTED = re.compile(r"\"([^\"\n]{6,})\"|'([^'\n]{6,})'|`([^`\n]{6,})`")
#: What stands in a text for what a program puts there.
_FILLED = "{}"
#: So many texts of a file are looked for, the longest ones.
_MOST = 60
#: In so many files a text, or one that a name was asked for, is the same fact.
_FEW, _MANY = 8, 60


def stating(repository: Repository, path: str, part: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """The files that state texts of the text `part` of a file, or the name itself, and which; the rarest first.

    Without a name a text counts that few files have.
    """
    if name and not path.endswith(".py"):
        part = "\n".join(line for line in part.splitlines() if name in line)
    texts = sorted({each.strip() for each in _texts(path, part) if _TELLING.match(each.strip())}, key=len)[-_MOST:]
    found: dict[str, dict[str, float]] = {}
    plain = name if path.endswith(".py") and WORD.fullmatch(name) else ""
    for text in [*texts, *([name] if name else [])]:
        files = _having(repository, text) - {path}
        if len(files) <= (_FEW if text == plain or not name else _MANY):
            for other in files:
                found.setdefault(other, {})[text] = 1 / len(files)
    for other in sorted(found, key=lambda each: (-sum(found[each].values()), each)):
        yield other, sorted(found[other])


def _texts(path: str, part: str) -> Iterator[str]:
    if not path.endswith(".py"):
        yield from (next(filter(None, each)) for each in _QUOTED.findall(part))
        return
    tree = definitions.parsed(part)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from node.value.splitlines()
        if isinstance(node, ast.JoinedStr):
            parts = (str(each.value) if isinstance(each, ast.Constant) else _FILLED for each in node.values)
            yield re.sub(r"^[{}\s]+|[{}\s]+$", "", "".join(parts))


def _having(repository: Repository, text: str) -> set[str]:
    """The files with a text, however its lines are broken; if it is a single name, with the name in any spelling."""
    plain = text.lstrip("-")
    if WORD.fullmatch(plain):
        return set(repository.files_by_word.get(one_spelling(plain), ()))
    words = [] if _FILLED in text else [one_spelling(each) for each in WORD.findall(text)]
    whole = max(text.split(_FILLED), key=len).split(maxsplit=1)
    candidates = repository.files_by_word.get(max(words, key=len), ()) if words else repository.words
    files = (each for each in candidates if not whole or whole[0] in repository.texts[each])
    parts = (re.escape(each).replace(re.escape(_FILLED), '[^"\n]{1,40}?') for each in text.split())
    pattern = re.compile(r"\s+(?:[#*/]+ )?".join(parts))
    return {path for path in files if pattern.search(repository.texts[path])}
