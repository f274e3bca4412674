"""Which classes implement a protocol without naming it: by their methods, the fakes in tests too.

Tests: tools/related/test_related_files.py, tests/unit/project/test_implementers.py.
"""

import ast
import collections
import dataclasses
import functools
import re
from collections.abc import Iterator

from tools.related.repository import Repository

#: Methods and parameters that a class has in common with a protocol if this is no chance.
TELLING = 3
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: A class that has a part of the methods has none that more files than this define.
_MANY = 12


@dataclasses.dataclass(frozen=True)
class WrittenClass:
    """A class as it is written, without what it inherits."""

    module: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its full name."""
        return f"{self.module}.{self.node.name}"

    @property
    def bases(self) -> set[str]:
        """The names of the classes that it names as its bases."""
        plain = (each.value if isinstance(each, ast.Subscript) else each for each in self.node.bases)
        return {ast.unparse(each).rpartition(".")[2] for each in plain}

    @functools.cached_property
    def methods(self) -> dict[str, list[str]]:
        """The names of each method's parameters."""
        return {each.name: _parameters(each) for each in self.node.body if isinstance(each, _FUNCTIONS)}

    @functools.cached_property
    def attributes(self) -> set[str]:
        """The names of its fields, and of what its methods set."""
        text = ast.unparse(self.node)
        declared = re.findall(r"^    (\w+)(?:: .+| = .+)$", text, re.MULTILINE)
        return {*declared, *re.findall(r"\bself\.(\w+)(?:: .+)? = ", text)}

    @property
    def telling(self) -> int:
        """How many members and parameters it has."""
        return sum(1 + len(parameters) for parameters in self.methods.values())

    def has_of(self, protocol: "WrittenClass") -> int:
        """How many of the protocol's methods it has."""
        return len(protocol.methods.keys() & {*self.methods, *self.attributes})

    def implements(self, protocol: "WrittenClass") -> bool:
        """It has all methods of the protocol, with the same parameters; properties may be fields."""
        return all(
            self.methods.get(name) == parameters or (not parameters and name in self.attributes)
            for name, parameters in protocol.methods.items()
        )

    def stands_for(self, protocol: "WrittenClass", rare: frozenset[str]) -> bool:
        """It has no other public methods than the protocol, and a rare one of it, with the same parameters."""
        public = {name for name in self.methods if not name.startswith("_")}
        same = {name for name in public if self.methods[name] == protocol.methods.get(name)}
        return public <= protocol.methods.keys() and bool(same & rare)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    declared = function.args
    return [each.arg for each in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs)][1:]


def classes(module: str, text: str) -> list[WrittenClass]:
    """The classes of a module, those in functions too."""
    return [WrittenClass(module, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]


def protocols(path: str, text: str, name: str = "") -> list[WrittenClass]:
    """The protocols of a file; with a name those that are called so, or have such a method."""
    found = [each for each in classes(path, text) if each.bases & {"Protocol", "ABC"}]
    return [each for each in found if not name or name in {each.node.name, *each.methods}]


def implementers(repository: Repository, path: str, asked: list[WrittenClass]) -> Iterator[tuple[str, list[str]]]:
    """The files with classes that implement one of the protocols of the file `path`, and these classes."""
    methods = {method for each in asked for method in each.methods if not method.startswith("_")}
    if not methods:
        return
    defined = re.compile(rf"^ +(?:async )?def ({'|'.join(methods)})\(", re.MULTILINE)
    found = {
        other: set(defined.findall(text))
        for other, text in repository.texts.items()
        if other.endswith(".py") and "class " in text and any(f"def {each}(" in text for each in methods)
    }
    counts = collections.Counter(method for each in found.values() for method in each)
    rare = frozenset(method for method in methods if counts[method] <= _MANY)
    for other in (each for each, used in found.items() if used and each != path):
        there = classes(other, repository.texts[other])
        names = [each.node.name for each in there if any(_is_one(each, protocol, rare) for protocol in asked)]
        if names:
            yield other, names


def _is_one(each: WrittenClass, protocol: WrittenClass, rare: frozenset[str]) -> bool:
    if "Protocol" in each.bases:
        return False
    inherits = protocol.node.name in each.bases
    implements = protocol.telling >= TELLING and each.implements(protocol)
    return inherits or implements or each.stands_for(protocol, rare)
