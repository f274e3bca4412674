"""Names that a new plugin cannot have, because the code of its template would not compile with them.

Tests: tests/unit/cli/test_plugin_development.py.
"""

# Also change: sdk/java/src/main/java/dev/trireme/sdk/Plugin.java

import keyword
import re
import sys
from collections.abc import Sequence

# Comments and texts of all the languages.
_NO_CODE = re.compile(r'"""(?:.|\n)*?"""|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|//.*|(?<!\S)#(?![\[!]).*')
# A type that code names by itself, not as a member of another.
_TYPE = re.compile(r"(?<![\w.:])[A-Z][A-Za-z0-9]*\b")

#: The types in the SDK's Plugin of Java, which each plugin inherits.
INHERITED_IN_JAVA = """
Bind Change Configurable Context Filter NoFit NormalizeScore Permit PermitResult Placement PlacementFeasible PostBind
PostFilter PostFilterResult PreBind PreBindResult PreEnqueue PreFilter PreFilterResult PreScore PreScoreResult QueueSort
QueueingHint Reservation Reserve Score SortKey
"""

# What no package of Java can be called, and no crate of Rust.
_WORDS_OF_JAVA = """
abstract assert boolean break byte case catch char class const continue default do double else enum extends false final
finally float for goto if implements import instanceof int interface long native new null package private protected
public return short static strictfp super switch synchronized this throw throws transient true try void volatile while
"""
_WORDS_OF_RUST = """
abstract alloc as async await become box break build const continue core crate deps do dyn else enum examples extern
false final fn for gen if impl in incremental let loop macro match mod move mut override priv pub ref return self serde
static std struct super test trait true try type typeof unsafe unsized use virtual where while yield
"""
_NO_MODULES = {
    "java": _WORDS_OF_JAVA.split(),
    "python": [*keyword.kwlist, *sys.stdlib_module_names, "pytest", "trireme"],
    "rust": _WORDS_OF_RUST.split(),
}


def is_taken(name: str, module: str, language: str, sources: Sequence[str]) -> bool:
    """Whether the template's sources, which name types and a module so, use one of the names for something else."""
    if module in _NO_MODULES.get(language, ()):
        return True
    code = "\n".join(_NO_CODE.sub("", source) for source in sources)
    if not re.search(r"\bPLUGIN_NAME", code):  # no type has the plugin's name
        return False
    inherited = INHERITED_IN_JAVA.split() if language == "java" else ()
    return name in inherited or name in _TYPE.findall(code)
