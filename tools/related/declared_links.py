"""What files declare of each other: what else changes with them, in comments, and in docstrings tests, implementers.

A list of paths, which may have `*`, follows `Also change:`, and goes on in the next line of a comment after a comma.
The last paragraph of a module's docstring may list its tests.

Tests: tests/unit/project/test_also_change.py, tests/unit/project/test_test_folders.py.
"""

import ast
import re

_PATH = r"`?(?:\.?\w|\*)[\w.*/-]*[\w*]`?"
_ALSO_CHANGE = re.compile(rf"Also change: ({_PATH}(?:,[ ]?(?:\n\W*)?{_PATH})*)")
_TESTS = re.compile(r"^Tests: ([^:]+)\.\Z", re.MULTILINE)
_IMPLEMENTERS = re.compile(r"(?:Implementers|Subclasses): ((?:[\w.*]+,?\s+(?:#:? )?)*[\w.*]+)\.$", re.MULTILINE)


def also_change(text: str) -> list[str]:
    """The paths that a text names, as they are written."""
    return [path.strip("`") for found in _ALSO_CHANGE.findall(text) for path in re.findall(_PATH, found)]


def tests(source: str) -> list[str]:
    """The test files that a module names."""
    found = _TESTS.search(ast.get_docstring(ast.parse(source)) or "")
    return re.split(r",\s+", found[1]) if found else []


def implementers(text: str) -> list[str]:
    """The full names, which may have `*`, of what implements the protocols and extends the classes of a text."""
    return [name for found in _IMPLEMENTERS.findall(text) for name in re.findall(r"[\w.*]+", found)]
