"""Which files state the number of a constant again, in any unit: `300.0`, `5 * MINUTE`, `5m`, `five minutes`.

The same number alone tells nothing: a rare part of the constant's name must be near it.

Tests: tools/related/test_related_files.py.
"""

import ast
import itertools
import re
from collections.abc import Iterator

from tools.related import definitions
from tools.related.repository import Repository, one_spelling

_UNITS = {"MILLISECOND": 0.001, "SECOND": 1, "MINUTE": 60, "HOUR": 3600, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3}
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: Words that are in many names, and say nothing about what is counted.
_COMMON = re.compile(r"seconds?|bytes|default|least|most|longest|shortest|limit|count|size|with|from|test|pods?|each")
#: So many characters around a number are near it: the help of a flag stands between its name and its default.
_NEAR = 250
#: A part of a name that more files have tells nothing.
_MANY = 40
#: So many files that have a common part of it beside the number are not too many.
_FEW = 15


def stating(repository: Repository, path: str, part: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """The files that state a number of the text `part` of a Python file again, with the names of these numbers.

    Those come first that have the rarest part of a name beside its number. Asked of one name, any part of it counts if
    few files have it beside the number.
    """
    found: dict[str, dict[str, float]] = {}
    for constant, number in _constants(part) if path.endswith(".py") else ():
        terms = {term: _having(repository, term) for term in _terms(constant)}
        rare = {term: files for term, files in terms.items() if len(files) <= _MANY}
        occurrence = re.compile(rf"(?<![\w.])(?:{'|'.join(_spellings(number))})(?![\w]|\.\d)", re.IGNORECASE)
        for other, telling in _beside(repository, occurrence, terms if name else rare).items():
            if other != path and telling:
                found.setdefault(other, {})[constant] = telling
    for other in sorted(found, key=lambda each: (-sum(found[each].values()), each)):
        yield other, [constant for _, constant in sorted((-rarity, each) for each, rarity in found[other].items())]


def _beside(repository: Repository, occurrence: re.Pattern[str], terms: dict[str, set[str]]) -> dict[str, float]:
    """The files that have one of these terms beside the number, with how rare the rarest is."""
    out: dict[str, float] = {}
    for other in set().union(*terms.values()):
        text = repository.texts[other]
        near = "\n".join(_around(text, each.start()) for each in occurrence.finditer(text))
        if telling := [1 / len(files) for term, files in terms.items() if term in near]:
            out[other] = max(telling)
    common = {each for each, rarity in out.items() if rarity < 1 / _MANY}
    return out if len(common) <= _FEW else {each: out[each] for each in out.keys() - common}


def _terms(name: str) -> Iterator[str]:
    """What of a constant's name is looked for: its telling words, and two neighbours together."""
    words = name.lower().strip("_").split("_")
    yield from (each for each in words if len(each) > 3 and not _COMMON.fullmatch(each))
    yield from ("".join(pair) for pair in itertools.pairwise(words) if not all(map(_COMMON.fullmatch, pair)))


def _having(repository: Repository, term: str) -> set[str]:
    """The files in which a word has this part."""
    return {path for word, paths in repository.files_by_word.items() if term in word for path in paths}


def _around(text: str, at: int) -> str:
    return one_spelling(text[max(0, at - _NEAR) : at + _NEAR // 2])


def _constants(part: str) -> Iterator[tuple[str, float]]:
    """The names in a module and in its classes that are set to a number, but for those that are often met."""
    for node in ast.walk(definitions.parsed(part)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            number = _number(node.value)
            if isinstance(target, ast.Name) and number is not None and number not in range(-1, 4):
                yield target.id, number


def _number(node: ast.expr) -> float | None:
    """What an expression of numbers and units comes to."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(str(node.value))
    if isinstance(node, ast.Name | ast.Attribute):
        return _UNITS.get(ast.unparse(node).rpartition(".")[2])
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return _number(node.args[0])
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        if left is not None and right is not None:
            return _combined(node.op, left, right)
    return None


def _combined(operator: ast.operator, left: float, right: float) -> float | None:
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.LShift):
        return left * 2**right
    return left**right if isinstance(operator, ast.Pow) and right < 100 else None


def _spellings(number: float) -> Iterator[str]:
    """Patterns of the ways to write a number: of seconds, of bytes, or of what is counted."""
    yield rf"{number:g}(?:\.0)?(?:s| ?seconds?)?" if number < 1e6 else f"{int(number)}"
    if number >= 1000 and number == int(number):
        yield f"{int(number):_}"
        yield f"{int(number):,}"
    if number == int(number) and 2 <= number <= 12:
        yield _WORDS[int(number) - 2]
    for unit, names in ((60, "60|MINUTE|m(?:0s)?|minutes?"), (3600, "3600|HOUR|h|hours?")):
        if number % unit == 0:
            yield from _of_unit(int(number // unit), names)
    for exponent, names in ((10, "KiB|kilobytes"), (20, "MiB|megabytes"), (30, "GiB|gigabytes")):
        if number % 2**exponent == 0 and number:
            yield rf"{int(number // 2**exponent)} << {exponent}"
            yield from _of_unit(int(number // 2**exponent), names)
    if number < 1:
        yield rf"{number * 1000:g} ?(?:ms|milliseconds)"


def _of_unit(count: int, names: str) -> Iterator[str]:
    yield rf"{count}(?: \* | )?(?:\w+\.)?(?:{names})"
    if 2 <= count <= 12:
        yield rf"{_WORDS[count - 2]} (?:{names})"
