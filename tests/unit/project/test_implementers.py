"""A protocol names its implementers, which nothing else finds: they need not import it.

The docstring of a protocol, or of an abstract class, ends with `Implementers: trireme.shadow.inbox.Inbox, ….`, with
the fakes that tests share. `trireme.plugins.*.filter` stands for all such modules. Private protocols name none, nor do
those of the SDK, which plugins of users implement. So does a class whose subclass is in another module, with
`Subclasses: …`, but for exceptions. Above the alias of a callable that another module names stand its implementers too:
functions, classes, or modules that have many.
"""

import ast
import fnmatch
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.related import implementers
from tools.related.implementers import TELLING, WrittenClass

ROOT = Path(__file__).parents[3]
_NAMED = re.compile(r"^(?:Implementers|Subclasses): ([^:]+)\.\Z", re.MULTILINE)
_PROTOCOL = re.compile(r"^class [^_].*\b(?:Protocol|ABC)\b", re.MULTILINE)
_CLASS_LINE = re.compile(r"^class .*\n", re.MULTILINE)
_MEMBER = re.compile(r"(?:^    (?:(?:async )?def )?|\bself\.)(\w+)", re.MULTILINE)


@functools.cache
def _texts() -> dict[str, str]:
    """The modules by name, but for tests, whose fakes stand beside their use, and for what is generated."""
    out = {}
    for folder, root in (("internal", ROOT / "internal"), ("tests", ROOT), ("tools", ROOT)):
        for path in (ROOT / folder).rglob("*.py"):
            if not path.name.startswith("test_") and path.parent.name != "v1":
                out[".".join(path.relative_to(root).with_suffix("").parts)] = path.read_text()
    return out


@functools.cache
def _classes(module: str) -> list[WrittenClass]:
    return implementers.classes(module, _texts()[module])


def _protocols() -> list[WrittenClass]:
    ours = {name: text for name, text in _texts().items() if name.startswith("trireme")}
    modules = (name for name, text in ours.items() if _PROTOCOL.search(text) and not name.startswith("trireme.sdk."))
    found = (each for module in modules for each in _classes(module) if each.bases & {"Protocol", "ABC"})
    return [each for each in found if not each.node.name.startswith("_")]


@functools.cache
def _words() -> dict[str, tuple[str, frozenset[str]]]:
    """Of each module, the lines that begin classes, and the names of methods and of what they set."""
    return {
        module: ("".join(_CLASS_LINE.findall(text)), frozenset(_MEMBER.findall(text)))
        for module, text in _texts().items()
    }


def _implementers(protocol: WrittenClass) -> Iterator[WrittenClass]:
    """The classes that name it as their base, and those that have the same methods."""
    name, module_name = protocol.node.name, protocol.module.rpartition(".")[2]
    for module, (class_lines, members) in _words().items():
        inherits = name in class_lines and (module == protocol.module or module_name in _texts()[module])
        if inherits or (protocol.telling >= TELLING and protocol.methods.keys() <= members):
            for each in _classes(module):
                explicit = inherits and name in each.bases
                if "Protocol" not in each.bases and (explicit or _is_like(each, protocol)):
                    yield each


def _is_like(each: WrittenClass, protocol: WrittenClass) -> bool:
    """It has the same methods, which are no chance, and is not the protocol itself."""
    return each != protocol and protocol.telling >= TELLING and each.implements(protocol)


def _named(protocol: WrittenClass) -> list[str]:
    """What its docstring names as implementers."""
    found = _NAMED.search(ast.get_docstring(protocol.node) or "")
    return re.split(r",\s+", found[1]) if found else []


def _exists(name: str, protocol: WrittenClass) -> bool:
    """There is such a class with all of the protocol's methods, or for a protocol that is called such a function.

    A fake may have some of the methods, and a class that inherits has those that it does not write.
    """
    if "*" in name:
        return any(each.implements(protocol) for found in fnmatch.filter(_texts(), name) for each in _classes(found))
    module, _, inner = name.rpartition(".")
    if "__call__" in protocol.methods:
        return any(name.startswith(f"{each}.") and f"def {inner}(" in text for each, text in _texts().items())
    found = [each for each in _classes(module) if each.node.name == inner] if module in _texts() else []
    needed = 1 if module.startswith(("tests.", "tools.")) else len(protocol.methods)
    return any(each.bases or each.has_of(protocol) >= needed for each in found)


def _problems(protocol: WrittenClass) -> Iterator[str]:
    """What is wrong with the implementers that a protocol names."""
    named = _named(protocol)
    if not named:
        yield f"{protocol.name}: end its docstring with `Implementers: module.Class, ….`"
    for name in named:
        if not _exists(name, protocol):
            yield f"{protocol.name}: {name} is none of its implementers"
    for each in _implementers(protocol):
        if each.name not in named and not any(fnmatch.fnmatch(each.module, name) for name in named):
            yield f"{protocol.name}: name {each.name} too"


_ALIAS = re.compile(r"((?:^#.*\n)*)^(?:type )?([A-Z]\w*)(?:: TypeAlias)? = Callable\[", re.MULTILINE)
_NAMED_OF_ALIAS = re.compile(r"Implementers: ([^:]+)\.\Z")


def _aliases() -> Iterator[tuple[str, str, list[str]]]:
    """Each alias of a callable that another module names: its module, its name, and the implementers in its comment."""
    for module, text in _texts().items():
        if module.startswith("trireme"):
            for comment, alias in _ALIAS.findall(text):
                if any(_names_alias(other, module, alias) for name, other in _texts().items() if name != module):
                    found = _NAMED_OF_ALIAS.search(re.sub(r"^#:? ?", "", comment, flags=re.MULTILINE).strip())
                    yield module, alias, re.split(r",\s+", found[1]) if found else []


def _names_alias(text: str, module: str, alias: str) -> bool:
    """A module's text has the alias as `module.Alias`, or imports it."""
    if f"from {module} import" in text:
        return re.search(rf"^from {re.escape(module)} import .*\b{alias}\b", text, re.MULTILINE) is not None
    return f"{module.rpartition('.')[2]}.{alias}" in text


def _is_there(name: str) -> bool:
    """There are such modules, or there is such a function or class."""
    module, _, inner = name.rpartition(".")
    defined = re.compile(rf"\b(?:def|class) {inner}\b")
    within = (text for each, text in _texts().items() if module == each or module.startswith(f"{each}."))
    return bool(fnmatch.filter(_texts(), name)) or any(map(defined.search, within))


def _subclasses() -> Iterator[tuple[str, str]]:
    """The full names of each class of ours that another module extends, and of the class there."""
    for module, (class_lines, _) in _words().items():
        if module.startswith("trireme") and re.search(r"\(\w", class_lines):
            imported = _imported(module)
            for each in _classes(module):
                for base in map(ast.unparse, each.node.bases):
                    first, _, rest = base.partition(".")
                    name = ".".join(filter(None, (imported.get(first), rest)))
                    if name.rpartition(".")[0] in _texts() and not name.endswith("Error"):
                        yield name, each.name


def _imported(module: str) -> dict[str, str]:
    """The full names of what a module imports, by the names that it has there."""
    tree = ast.parse(_texts()[module])
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in froms for alias in node.names}


def _unnamed_subclasses() -> Iterator[str]:
    """The subclasses that their base does not name."""
    protocols = {each.name for each in _protocols()}
    for base, subclass in _subclasses():
        module, _, name = base.rpartition(".")
        for each in _classes(module):
            if each.node.name == name and base not in protocols and subclass not in _named(each):
                yield f"{base}: end its docstring with `Subclasses: {subclass}.`"


@pytest.mark.slow
def test_protocols_name_their_implementers() -> None:
    assert [problem for protocol in _protocols() for problem in _problems(protocol)] == []


@pytest.mark.slow
def test_classes_name_their_subclasses_in_other_modules() -> None:
    assert [*_unnamed_subclasses()] == []


@pytest.mark.slow
def test_aliases_of_callables_name_their_implementers() -> None:
    found = [*_aliases()]
    assert found
    assert [f"{module}: say who implements {alias}" for module, alias, named in found if not named] == []
    assert [f"{module}: no {name}" for module, _, named in found for name in named if not _is_there(name)] == []


@pytest.mark.slow
def test_a_wrong_or_missing_implementer_is_found() -> None:
    source = '''class Port:
        """A port.

        Implementers: {}.
        """

        def send(self, pod, node): ...'''
    other = "trireme.frontend.inbox.Inbox"
    for named, expected in ((other, 1), ("no.such.Class", 1), ("", 1)):
        port = WrittenClass("trireme.port", ast.parse(source.format(named)).body[0])
        assert len([*_problems(port)]) == expected
