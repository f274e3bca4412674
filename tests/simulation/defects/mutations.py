"""Changes of the product by name: another function in place of one, a call that is left out, another constant.

A name is `Class.method`, `module.function` or `module.CONSTANT`, wherever in the product the class or module is, so a
defect survives that files move. A name that is gone, that several places have, or that no longer takes the same
parameters is an error that says so.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pathlib
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

_PACKAGES = ("trireme", "trireme_kube")
_GENERATED = "v1"
_PASSED_ON = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}

_undo: list[Callable[[], None]] = []


class DefectError(Exception):
    """A defect cannot be put into the product: what it changes has another name by now, or another form."""


def undo_all() -> int:
    """Take all changes back, the newest first; returns how many there were."""
    count = len(_undo)
    while _undo:
        _undo.pop()()
    return count


def replace(name: str, replacement: Callable[..., Any]) -> None:
    """Have `replacement` answer for a function or method; it gets the original first, and then the same parameters."""
    owner, attribute, function = find(name)
    _check_parameters(name, function, replacement)
    if isinstance(owner, types.ModuleType):
        _redirect(function, replacement)
        return

    @functools.wraps(function)
    def instead(*arguments: Any, **named: Any) -> Any:
        return replacement(function, *arguments, **named)

    _set(owner, attribute, instead)


def set_constant(name: str, value: object) -> None:
    """Give a module's constant another value, for modules that are imported later and all that read it there."""
    owner, attribute, _ = find(name)
    _set(owner, attribute, value)


def drop_calls(name: str, called: str) -> None:
    """Leave the calls of `called` out of a method, or of all methods of a class; they stand as statements.

    `called` is the end of what is called, as it is written: `_cache.forget`.
    """
    functions = list(_functions(name))
    dropped = [_without_calls(function, called) for function in functions]
    if not any(dropped):
        raise DefectError(f"{name}: there is no statement that calls {called}")
    for function, code in zip(functions, dropped, strict=True):
        if code is not None:
            _set_code(function, code)


def find(name: str) -> tuple[Any, str, Any]:
    """Return the class or module, the attribute's name and what it is. Raises: DefectError."""
    owner_name, _, attribute = name.rpartition(".")
    owners = [owner for owner in _owners(owner_name) if attribute in vars(owner)]
    if len(owners) != 1:
        places = ", ".join(str(getattr(owner, "__module__", owner.__name__)) for owner in owners)
        raise DefectError(
            f"{name}: {f'several places have this name: {places}' if owners else 'nothing has this name'}"
        )
    return owners[0], attribute, vars(owners[0])[attribute]


def _owners(name: str) -> Iterator[Any]:
    """The modules, or else the classes, of that name."""
    for path in _sources():
        if path.stem == name:
            yield importlib.import_module(_module_of(path))
        elif name[:1].isupper() and re.search(rf"^class {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield getattr(importlib.import_module(_module_of(path)), name)


@functools.cache
def _sources() -> tuple[pathlib.Path, ...]:
    found = (path for package in _PACKAGES for path in sorted((_root() / package).rglob("*.py")))
    return tuple(path for path in found if path.parent.name != _GENERATED)


@functools.cache
def _root() -> pathlib.Path:
    """The source root; nothing is imported yet, for a simulation replaces clocks before."""
    spec = importlib.util.find_spec("trireme")
    assert spec is not None
    return pathlib.Path(spec.origin or "").parents[1]


def _module_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(_root()).with_suffix("").parts)


def _functions(name: str) -> Iterator[Any]:
    """The methods of a class, or one method or function."""
    if "." in name:
        yield inspect.unwrap(find(name)[2])
        return
    owners = list(_owners(name))
    if len(owners) != 1:
        raise DefectError(f"{name}: {len(owners)} classes have this name")
    yield from (value for value in map(inspect.unwrap, vars(owners[0]).values()) if inspect.isfunction(value))


def _check_parameters(name: str, function: Any, replacement: Callable[..., Any]) -> None:
    """Raise a DefectError unless `replacement` takes what the function takes, or passes all of it on."""
    taken = list(inspect.signature(replacement).parameters.values())[1:]
    if {parameter.kind for parameter in taken} == _PASSED_ON:
        return
    wanted = list(inspect.signature(function).parameters)
    if [parameter.name for parameter in taken] != wanted:
        raise DefectError(f"{name}: takes {', '.join(wanted)} by now")


def _redirect(function: types.FunctionType, replacement: Callable[..., Any]) -> None:
    """Change the function itself, for others hold it: as the default of a parameter, or in a partial call."""
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    slot = f"_in_place_of_{function.__name__}"
    namespace: dict[str, Any] = {}
    exec(f"def {function.__name__}(*arguments, **named): return {slot}(*arguments, **named)", namespace)
    function.__globals__[slot] = functools.partial(replacement, original)
    defaults, named_defaults = function.__defaults__, function.__kwdefaults__
    _set_code(function, namespace[function.__name__].__code__)
    function.__defaults__ = function.__kwdefaults__ = None

    def undo() -> None:
        function.__defaults__, function.__kwdefaults__ = defaults, named_defaults
        del function.__globals__[slot]

    _undo.append(undo)


def _without_calls(function: types.FunctionType, called: str) -> types.CodeType | None:
    """The function's code without these calls; None if it has none."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    dropper = _CallDropper(called)
    dropper.visit(tree)
    if not dropper.dropped:
        return None
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    # Compiled in a function that has the variables of those around it, which the code refers to by their cells.
    around = ast.parse(f"def around({', '.join(function.__code__.co_freevars)}): pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.body = tree.body
    module = ast.fix_missing_locations(ast.Module([around], []))
    code = compile(module, function.__code__.co_filename, "exec")
    for name in ("around", function.__name__):
        code = next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)
    return code


class _CallDropper(ast.NodeTransformer):
    """Puts `pass` in place of statements that are calls of a name."""

    def __init__(self, called: str) -> None:
        self._called = called
        self.dropped = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(call, ast.Call) or not f".{ast.unparse(call.func)}".endswith(f".{self._called}"):
            return node
        self.dropped += 1
        return ast.copy_location(ast.Pass(), node)


def _set(owner: Any, attribute: str, value: object) -> None:
    before = vars(owner)[attribute]
    setattr(owner, attribute, value)
    _undo.append(lambda: setattr(owner, attribute, before))


def _set_code(function: types.FunctionType, code: types.CodeType) -> None:
    before = function.__code__
    function.__code__ = code
    _undo.append(lambda: setattr(function, "__code__", before))
