"""A fact that is stated in two files names the other one at each: `Also change: PATH, PATH` in a comment or docstring.

A path with `*` stands for all files that it fits. Of many places one lists the others, which name it alone. JSON need
not name any, nor templates of files that users get.
"""

import fnmatch
import pathlib
import re
import subprocess
from collections.abc import Iterator

from tools.related import declared_links

ROOT = pathlib.Path(__file__).parents[3]
_SERVICE = re.compile(r"^service (\w+)", re.MULTILINE)
#: A base class that serves a service, a stub that calls one, the path of a method.
_ENDS = re.compile(r"(\w+)_pb2_grpc\.\w+(?:Servicer\)|Stub\()|\"/trireme\.v1\.(\w+)/\w+\"")


def _named() -> dict[str, set[str]]:
    """What each file of the repository names."""
    command = ("git", "grep", "--name-only", "--untracked", "-I", "-P", r"Also change: `?(\.?\w|\*)")
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names.remove(str(pathlib.Path(__file__).relative_to(ROOT)))
    return {name: set(declared_links.also_change((ROOT / name).read_text())) for name in names}


def _problems(named: dict[str, set[str]]) -> Iterator[str]:
    """Paths without a file, and files that do not name the one that names them."""
    for name, paths in named.items():
        for path in paths:
            files = [str(each.relative_to(ROOT)) for each in ROOT.glob(path)]
            if not files:
                yield f"{name}: there is no {path}"
            for file in filter(lambda each: not each.endswith((".json", ".template")), files):
                if not any(fnmatch.fnmatch(name, back) for back in named.get(file, ())):
                    yield f"{file}: say `Also change: {name}`, as {name} does of it"


def test_each_end_of_a_fact_that_is_stated_twice_names_the_other() -> None:
    named = _named()
    assert all(named.values()), "a path follows `Also change: `"
    assert [*_problems(named)] == []


def test_a_missing_end_is_found() -> None:
    here = "CONTRIBUTING.md"
    assert [*_problems({here: {"no/such.file"}})] == [f"{here}: there is no no/such.file"]
    assert len([*_problems({here: {"README.md"}})]) == 1
    assert [*_problems({here: {"README.md"}, "README.md": {"CONTRIBUTING.*"}})] == []
    assert declared_links.also_change("# Also change: a/b.py,\n#   c/*.ts. More.") == ["a/b.py", "c/*.ts"]


def _ends_of_services() -> Iterator[tuple[str, str]]:
    """Each module that serves or calls a service, and the contract that declares the service."""
    contracts = {path.stem: path for path in (ROOT / "protos/trireme/v1").glob("*.proto")}
    declared = {name: stem for stem, path in contracts.items() for name in _SERVICE.findall(path.read_text())}
    for module in (ROOT / "internal").rglob("*.py"):
        if module.parent.name != "v1":
            for stem, service in _ENDS.findall(module.read_text()):
                yield str(module.relative_to(ROOT)), str(contracts[stem or declared[service]].relative_to(ROOT))


def test_a_contract_names_the_modules_that_serve_and_call_its_services() -> None:
    """An RPC, or a field of its messages, is added at both ends."""
    named, ends = _named(), set(_ends_of_services())
    assert len(ends) > 20
    missing = [f"{proto}: say `Also change: {module}`" for module, proto in ends if module not in named.get(proto, ())]
    assert sorted(missing) == []
