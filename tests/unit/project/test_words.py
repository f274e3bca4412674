"""Words and patterns that docs/style.md rules out, in everything that people read: documents, code, help, contracts."""

import functools
import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[3]
STYLE = ROOT / "docs" / "style.md"
READ = re.compile(
    r"\.(?:py|pyi|go|rs|java|ts|tsx|md|proto|sh|c|yaml|yml|toml|template|html|css)$|/?(?:Makefile|Dockerfile)$"
)
# Generated code repeats what its sources say, which are checked, and recorded data quotes other programs.
GENERATED = re.compile(
    r"_pb2|/triremev1/|sdk/rust/src/v1/|docs/reference/|/static/|/data/|/testdata/|package-lock|Cargo\.lock"
)


NOT_OURS = {"build", "dist", "generated", "node_modules", "target", "__pycache__"}


class Rule(NamedTuple):
    """What must not be written. Only files that contain a needle, in lower case, are searched by the pattern."""

    needles: tuple[bytes, ...]
    pattern: str
    rather: str

    def lines(self, text: bytes) -> list[int]:
        """The numbers of the lines that break the rule."""
        return [text.count(b"\n", 0, each.start()) + 1 for each in _compiled(self.pattern).finditer(text)]


RULES = (
    Rule((b"whoever",), r"\bwhoever\b", "name the person or part: the caller, an administrator, readers"),
    Rule((b"for ever",), r"\bfor ever\b", "forever, or never ends"),
    # "one of which" and its like are plain English; "a class of which a pod" is not.
    Rule(
        (b"of which", b"of\n"),
        # Also at the end of a line, which the comment's next one continues; a word before it is on the same line.
        "".join(rf"(?<!{word} )" for word in ("one", "all", "each", "some", "most", "any", "last", r"\d", r"\}", "%"))
        + r"(?<=\S )of(?: |\n[ \t]*(?:#:? |//+ |\* )?)which\b",
        "whose, with, or a sentence of its own",
    ),
    Rule((b"once more",), r"\bonce more\b", "again"),
    Rule(
        (b"attempt more", b"try more", b"call more", b"cycle more", b"round more"),
        r"\ban? (?:attempt|try|call|cycle|round) more\b(?! than)",
        "another attempt",
    ),
    Rule((b"it likes",), r"\bif (?:it|they) likes?\b", "optionally"),
    Rule((b"by and by",), r"\bby and by\b", "later, in time"),
    Rule(
        (b"says of", b"say of", b"said of", b"told of", b"tell of", b"tells of"),
        r"\b(?:sa(?:y|ys|id)|t(?:old|ells?)) of\b",
        "its answer, verdict, status or message about",
    ),
    Rule((b"of then", b"of before"), r"\bof (?:then|before)\b", "earlier, of that time"),
    Rule((b"thereof",), r"\bthereof\b", "its"),
    Rule((b"own world",), r"\bown worlds?\b", "simulated cluster"),
    Rule((b"room: a file",), r"'s room: a file\b", "plugin, one module per extension point"),
    Rule(
        (b"plugin's room", b"plugins' room", b"plugin room", b"of plugins"),
        r"\bplugins?'s? rooms?\b|\brooms? of plugins?\b",
        "the plugin's folder",
    ),
    Rule(
        (b"guest above", b"guests above", b"guest below", b"guest beside the"),
        r"\bguests? (?:above|below|beside) the other\b",
        "layers",
    ),
    Rule((b"floor",), r"\b(?:lower|upper|higher|lowest|highest) floors?\b|\bfloors? (?:above|below)\b", "layer"),
    Rule(
        (b'"""else', b'"""otherwise', b'"""or else', b'"""broken,'),
        r'^[ \t]*"""(?:else|otherwise|or else|broken,)\b',
        "say what holds",
    ),
    Rule((b"// else", b"// otherwise"), r"^[ \t]*// (?:else|otherwise)\b.*\n(?:// .*\n)*func Test", "say what holds"),
)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.MULTILINE | re.IGNORECASE)


def _without_examples(text: bytes) -> bytes:
    """The style guide without what it quotes as bad: the first cell of each row."""
    return re.sub(rb"^\|[^|]*\|", b"|", text, flags=re.MULTILINE)


def _texts() -> Iterator[tuple[str, bytes]]:
    """All files that people read and write."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in NOT_OURS]
        for place in (f"{folder}/{name}" for name in files if READ.search(name)):
            if not GENERATED.search(place) and place not in {str(STYLE), __file__}:
                yield place, pathlib.Path(place).read_bytes()
    yield str(STYLE), _without_examples(STYLE.read_bytes())


def test_words() -> None:
    """One pass over all files, in less than a second."""
    broken = [
        f"{place}:{line}: write {rule.rather}"
        for place, text in _texts()
        for lowered in (text.lower(),)
        for rule in RULES
        if any(needle in lowered for needle in rule.needles)
        for line in rule.lines(text)
    ]
    assert broken == []


def test_the_examples_of_the_style_guide_break_a_rule_or_a_habit() -> None:
    """Each pair shows a change, and what it proposes keeps every rule."""
    pairs = [row.split(" | ") for row in STYLE.read_text().splitlines() if re.match(r"\| (?!not \||---)", row)]
    assert len(pairs) >= 20
    assert [pair for pair in pairs if len(pair) != 2 or pair[0].strip("| ") == pair[1].strip("| ")] == []


def test_a_word_that_is_ruled_out_is_found() -> None:
    found = {rule.needles[0]: rule.lines(b"# A pod\n# of which whoever asks\n#: one of which\n") for rule in RULES}
    assert (found[b"whoever"], found[b"of which"], found[b"for ever"]) == ([2], [2], [])
