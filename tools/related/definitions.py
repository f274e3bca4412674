"""What a file defines, in Python and in the other languages of the repository, and which files use it.

Tests: tools/related/test_related_files.py.
"""

import ast
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping

import yaml

from tools.related.repository import WORD, Repository, one_spelling

#: A definition at the beginning of a line, in the languages other than Python.
_DEFINITION = re.compile(
    r"^[ \t]*(?:export |default |public |private |protected |static |final |abstract |async |pub(?:\(\w+\))? )*"
    r"(?:message|service|rpc|enum|func(?: \([^)]*\))?|type|const|let|var|class|interface|record|function|fn|struct"
    r"|trait|mod) +(\w+)|\{\{-? *define \"([^\"]+)\"|^(\w+)\(\) *\{|^([\w-]+):.*## ",
    re.MULTILINE,
)
_FIELD = re.compile(r"^ +(?:optional |repeated )?[\w.<>, ]+ (\w+) = \d+", re.MULTILINE)
#: A name that no text has by chance.
_TELLING = re.compile(r"\w_\w|[a-z][A-Z]|\w[.-]\w")
#: A name in more files than this is a word of the language.
_MANY = 150


def definitions(path: str, text: str) -> dict[str, frozenset[str]]:
    """The names that a file defines for others, each with the names of its members."""
    if path.endswith(".py"):
        return dict(_python_definitions(ast.parse(text)))
    if path.endswith(("/values.yaml", "/values.schema.json")):
        return {f"Values.{key}": frozenset() for key in yaml.safe_load(text).get("properties") or yaml.safe_load(text)}
    found = {next(filter(None, each)) for each in _DEFINITION.findall(text)}
    if path.endswith(".proto"):
        found.update(_FIELD.findall(text))
    return dict.fromkeys(found, frozenset())


def _python_definitions(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else ()
        for name in _names(node):
            yield name, frozenset(inner for each in members for inner in _names(each))


def _names(node: ast.stmt) -> Iterator[str]:
    """The public names that a statement defines."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        names = [node.name]
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
    else:
        names = []
    return (each for each in names if not each.startswith("_"))


def source_of(path: str, text: str, name: str) -> str:
    """The source of what is called `name`: in Python the definition, elsewhere the paragraphs that have it.

    A private name of a module concerns others through what uses it there.
    """
    word = re.compile(rf"\b{re.escape(name)}\b")
    if path.endswith(".py"):
        tree = ast.parse(text)
        nodes = [each for each in ast.walk(tree) if name in ast_names(each)]
        if nodes and name.startswith("_"):
            nodes += [each for each in tree.body if each not in nodes and word.search(ast.unparse(each))]
        if nodes:
            return "\n".join(ast.get_source_segment(text, each) or "" for each in nodes)
    return "\n".join(each for each in re.split(r"\n[ \t]*\n", text) if word.search(each))


def parsed(part: str) -> ast.Module:
    """The tree of a part of a Python file; an empty one if it is no whole statement, as around a message."""
    try:
        return ast.parse(part)
    except SyntaxError:
        return ast.Module([], [])


def ast_names(node: ast.AST) -> Iterable[str]:
    """The names that a node of any kind defines, private ones as well."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [each.id for each in targets if isinstance(each, ast.Name)]


def users(repository: Repository, path: str, names: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """The files that use these names of a file, and which.

    A name alone is enough if no other file of the language defines it. Importers of the module may use any. Members
    count in files that use their class.
    """
    importers = set(_importers(repository, path)) if path.endswith(".py") else set()
    out: dict[str, set[str]] = {each: set() for each in importers}
    for name, members in names.items():
        files = _files_with(repository, name)
        anywhere = bool(_TELLING.search(name)) and len(files) <= _MANY and _is_only_here(repository, path, name, files)
        for user in (files if anywhere else files & importers) - {path}:
            text = repository.texts[user]
            found = {each for each in members if re.search(rf"\b{each}=|\.{each}\b", text)}
            out.setdefault(user, set()).update({name, *found})
    return out


def used(repository: Repository, path: str, text: str) -> list[str]:
    """The modules that a Python text imports, and the files of the templates that a template includes.

    Those come first whose names few files have.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= repository.named_in(" ".join(f"{node.module}.{each.name}" for each in node.names))
    for name in set(re.findall(r"\binclude \"([^\"]+)\"", text)):
        defined = f'define "{name}"'
        found |= {each for each in _files_with(repository, name) if defined in repository.texts[each]}
    loaded = re.findall(r"[\"']\.(\w+):\w+[\"']", text)
    found |= {f"{path.rpartition('/')[0]}/{each}.py" for each in loaded} & repository.texts.keys()
    found = {re.sub(r"^internal/(.+)_pb2\w*\.pyi?$", r"protos/\1.proto", each) for each in found}
    stems = {each: one_spelling(pathlib.PurePath(each).stem) for each in found}
    return sorted(found, key=lambda each: (len(repository.files_by_word.get(stems[each], ())), each))


def _files_with(repository: Repository, name: str) -> set[str]:
    """The files with a name as it is written."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    last = name.rpartition(".")[2]
    indexed = repository.files_by_word.get(one_spelling(last), ()) if WORD.fullmatch(last) else repository.words
    return {each for each in indexed if name in repository.texts[each] and word.search(repository.texts[each])}


def _is_only_here(repository: Repository, path: str, name: str, files: Iterable[str]) -> bool:
    """No other file of the language defines the name. What Go does not export is known in its folder alone."""
    ending = pathlib.PurePath(path).suffix
    kinds = "class|def|message|service|type|func|function|const|interface|struct|fn|enum|record"
    defined = re.compile(rf"\b(?:{kinds}) {re.escape(name)}\b|^{re.escape(name)}(?::.*)? = ", re.MULTILINE)
    others = (each for each in files if each != path and each.endswith(ending))
    return (ending != ".go" or name[0].isupper()) and not any(defined.search(repository.texts[each]) for each in others)


def _importers(repository: Repository, path: str) -> Iterator[str]:
    """The files that import a Python module, or load it by its name."""
    folder, _, file = path.rpartition("/")
    stem = file.removesuffix(".py")
    package = folder.removeprefix("internal/").replace("/", ".")
    name = re.escape(package)
    imports = re.compile(rf"\b{name} import (?:\([^)]*\b{stem}\b|[^(\n]*\b{stem}\b)|\b{name}\.{stem}\b(?!/)")
    beside = re.compile(
        rf"[\"']\.{stem}:|from \.{stem} import|from \. import .*\b{stem}\b|^(?:import|from) {stem}\b", re.MULTILINE
    )
    for other in repository.words.keys() - {path}:
        text = repository.texts[other]
        if stem in text and (
            (package in text and imports.search(text)) or (other.rpartition("/")[0] == folder and beside.search(text))
        ):
            yield other
