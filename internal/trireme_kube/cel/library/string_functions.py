"""String functions: those of the language, CEL's strings extension, and regular expressions.

Regular expressions use RE2, as in Go: its time is linear in the text for any pattern. Patterns come from anybody who
may create a claim, and Python's engine could be made to search for hours.

Source: github.com/google/cel-go/ext (strings), k8s.io/apiserver/pkg/cel/library (regex), regexp of Go.

Tests: tests/conformance/test_selectors.py, tests/unit/plugins/dynamic_resources/test_expressions.py.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

import re2

from trireme_kube.cel import values
from trireme_kube.cel.values import EvaluationError

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
# The characters of Go's unicode.IsSpace.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
# RE2's messages that Go words differently.
_WORDS_OF_GO: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class PatternError(ValueError):
    """Invalid regular expression; the message is Go's."""


def text_contains(text: Any, part: Any) -> bool:
    """CEL's string.contains(string)."""
    return _checked_text(part) in _checked_text(text)


def starts_with(text: Any, prefix: Any) -> bool:
    """CEL's string.startsWith(string)."""
    return _checked_text(text).startswith(_checked_text(prefix))


def ends_with(text: Any, suffix: Any) -> bool:
    """CEL's string.endsWith(string)."""
    return _checked_text(text).endswith(_checked_text(suffix))


def _checked_text(value: Any) -> str:
    """Return the text. Raises: EvaluationError, no such overload, for another type."""
    if type(value) is not str:
        raise values.no_such_overload()
    return value


def char_at(text: str, at: int) -> str:
    """CEL's string.charAt(index): the character there; empty at the end. Raises: EvaluationError."""
    _require_index_inside(at, 0 <= at <= len(text))
    return text[at : at + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """CEL's string.indexOf(string), string.indexOf(string, offset)."""
    _require_index_inside(start, start >= 0)
    return min(start, len(text)) if not part else text.find(part, start)


def last_index_of(text: str, part: str) -> int:
    """CEL's string.lastIndexOf(string)."""
    return text.rfind(part)


def last_index_before(text: str, part: str, start: int) -> int:
    """CEL's string.lastIndexOf(string, offset): no match that starts behind the offset."""
    _require_index_inside(start, start >= 0)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def lower_ascii(text: str) -> str:
    """CEL's string.lowerAscii(): ASCII letters in lower case, others as they are."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def upper_ascii(text: str) -> str:
    """CEL's string.upperAscii(): ASCII letters in upper case, others as they are."""
    return "".join(letter.upper() if letter.isascii() else letter for letter in text)


def replaced(text: str, old: str, new: str, limit: int = -1) -> str:
    """CEL's string.replace(string, string), string.replace(string, string, limit): a limit below zero is none."""
    return text.replace(old, new, limit if limit >= 0 else -1)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """CEL's string.split(string), string.split(string, limit): a limit below zero is none."""
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def substring(text: str, start: int) -> str:
    """CEL's string.substring(start). Raises: EvaluationError for an index outside."""
    _require_index_inside(start, 0 <= start <= len(text))
    return text[start:]


def substring_to(text: str, start: int, end: int) -> str:
    """CEL's string.substring(start, end). Raises: EvaluationError for an index outside."""
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _require_index_inside(start, 0 <= start <= len(text))
    _require_index_inside(end, 0 <= end <= len(text))
    return text[start:end]


def trimmed(text: str) -> str:
    """CEL's string.trim(): without white space at both ends."""
    return text.strip(_SPACES)


def joined(parts: list[Any], separator: str = "") -> str:
    """CEL's list.join(separator): the texts of the list as one."""
    for part in parts:
        if type(part) is not str:
            raise EvaluationError(f"join: invalid input: {values.value_text(part)}")
    return separator.join(parts)


def quoted(text: str) -> str:
    """CEL's strings.quote(string): the text as a literal in double quotes."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def _require_index_inside(index: int, inside: bool) -> None:
    """Raise EvaluationError unless the index is inside."""
    if not inside:
        raise EvaluationError(f"index out of range: {index}")


@functools.lru_cache(maxsize=1024)
def compiled_pattern(text: str) -> Any:
    """Return the pattern compiled, from a cache. Raises: PatternError with Go's message."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise PatternError(_go_pattern_error(error)) from None


def matches(text: Any, pattern: Any) -> bool:
    """CEL's matches(string, pattern), string.matches(pattern)."""
    return _compile_pattern(_checked_text(pattern), "").search(text) is not None


def matches_any_type(text: Any, pattern: Any) -> bool:
    """As `matches`, for a first argument of any type."""
    if type(text) is not str:
        raise EvaluationError("no such overload: matches")
    return matches(text, pattern)


def find(text: str, pattern: str) -> str:
    """CEL's string.find(pattern): the first match, or nothing."""
    match = _compile_pattern(pattern, "Illegal regex: ").search(text)
    return str(match.group()) if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """CEL's string.findAll(pattern), string.findAll(pattern, limit): a limit below zero is none."""
    out: list[str] = []
    for each in _iterate_matches(_compile_pattern(pattern, "Illegal regex: "), text):
        if 0 <= limit <= len(out):
            break
        out.append(each)
    return out


def _iterate_matches(compiled: Any, text: str) -> Iterator[str]:
    """Yield the matches; an empty one right after a match does not count, as in Go."""
    end = -1
    for match in compiled.finditer(text):
        # An empty match right after a match does not count.
        if match.group() or match.start() != end:
            yield match.group()
        end = match.end()


def _compile_pattern(text: str, lead: str) -> Any:
    """Return the compiled pattern. Raises: EvaluationError, its message beginning with `lead`."""
    try:
        return compiled_pattern(text)
    except PatternError as error:
        raise EvaluationError(f"{lead}{error}") from None


def _go_pattern_error(error: Exception) -> str:
    """Return Go's message for a pattern that RE2 rejects."""
    message = error.args[0] if error.args else ""
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    why, colon, where = text.partition(": ")
    return f"error parsing regexp: {_WORDS_OF_GO.get(why, why)}" + (f": `{where}`" if colon else "")
