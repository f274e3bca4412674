"""Which neighbours of a file the tool names, in a small repository."""

import pathlib
import subprocess

import pytest

from tools.related import related_files
from tools.related.repository import Repository

_ALSO = "Also change:"
FILES = {
    "internal/trireme/bind/retries.py": f'''"""Retries.

{_ALSO} docs/bind.md.
"""

MOST_RETRIES = 7


class Retry:
    retry_delay: float = 1.5

    def start(self): ...


def reset():
    raise ValueError("too many retries of one pod already")
''',
    "internal/trireme/bind/process.py": "from trireme.bind import retries\n\nretries.Retry(retry_delay=2)\n",
    "internal/trireme/bind/loader.py": 'reset = LazyImport(".retries:reset")\n',
    "internal/trireme/score/rounds.py": "class Round:\n    def reset(self): ...\n",
    "tests/unit/bind/test_retries.py": "from trireme.bind.retries import (\n    MOST_RETRIES,\n)\n",
    "tests/unit/score/test_retries.py": "",
    "tests/unit/bind/test_process.py": 'monkeypatch.setattr("trireme.bind.retries.reset", None)\n',
    "tests/unit/bind/test_messages.py": 'match="too many retries of one pod"\n',
    "deploy/chart/values.yaml": "bind:\n  retryDelay: 2.5\n",
    "docs/bind.md": f"<!-- {_ALSO} internal/trireme/bind/retries.py. -->\n",
    "docs/flags.md": "<!-- Written by `make docs`. -->\n`--retry-delay`, `--most-retries`\n",
    "docs/architecture.md": "See `bind/retries.py`.\n",
    "docs/other.md": "Nothing about it.\n",
    "sdk/rust/pods.rs": f"// {_ALSO} docs/pods.md,\n// docs/nodes.md.\n",
    "docs/pods.md": "",
    "docs/nodes.md": "",
    "protos/trireme/v1/bind.proto": "service BindPhase {\n  rpc BindPods(A) returns (B);\n}\n",
    "CONTRIBUTING.md": "| to add | files |\n| a policy | `policies/<policy>/`, `policies/registered.py` |\n",
    "internal/trireme/policies/first_come/spec.py": 'rule = LazyImport(".rule:make")\n',
    "internal/trireme/policies/first_come/rule.py": "make = list\n",
    "internal/trireme/policies/registered.py": 'FOLDERS = ("first_come",)\n',
    "tests/unit/policies/test_first_come.py": "",
    "deploy/chart/templates/_pods.tpl": '{{- define "trireme.pod" }}\n',
    "deploy/chart/templates/bind.yaml": '{{ include "trireme.pod" . }} {{ .Values.bind.retryDelay }}\n',
    "pyproject.toml": 'dependencies = ["kopf>=1.37"]\n',
    "examples/requirements.txt": "kopf>=1.37\n",
    "examples/other.txt": "kopf>=1.36\n",
    "internal/trireme/bind/ports.py": '''from typing import Protocol


class Queue(Protocol):
    """A queue.

    Implementers: trireme.score.rounds.Inbox.
    """

    def take_pods(self, most): ...

    def close_down(self): ...
''',
    "internal/trireme/score/inbox.py": """class Mailbox:
    def take_pods(self, most): ...

    def close_down(self): ...

    def other(self): ...
""",
    "tests/unit/bind/test_queue.py": "class FakeQueue:\n    def take_pods(self, most): ...\n",
    "tests/unit/bind/test_tap.py": "class Tap:\n    def take_pods(self, least): ...\n",
    "internal/trireme/plugins/node_name/filter.py": "",
    "internal/trireme/bind/limits.py": "IDLE_CHECK_SECONDS = 5 * MINUTE\n",
    "docs/limits.md": "The check of idle connections, every five minutes.\n",
    "docs/minutes.md": "It takes five minutes.\n",
    "tests/unit/bind/test_limits.py": "idle_check = 300.0\n",
    "tests/unit/bind/test_others.py": "idle_check = 200.0\n",
    "internal/trireme/bind/keys.py": '_KEY = "example.com/turn"\n\n\ndef read_turn():\n    return _KEY\n',
    "internal/trireme/bind/names.py": 'def name_of(number):\n    return f"turn-{number:03}.log"\n',
    "tests/unit/bind/test_logs.py": '_LOG = "turn-007.log"\n',
    "internal/trireme/bind/turns.py": "from trireme.bind import keys\n\nkeys.read_turn()\n",
    "internal/trireme/bind/counts.py": "_KINDS = list\n\n\ndef count():\n    return dict(turns_by_kind=_KINDS)\n",
    "tests/unit/bind/test_counts_of_kinds.py": "turns_by_kind\n",
    "examples/turns/sums.py": "def add(): ...\n",
    "examples/turns/train.py": "import sums\n\nsums.add()\n",
    "sdk/go/.lintignore": "build\n",
    "docs/lint.md": "See `sdk/go/.lintignore`.\n",
    "sdk/go/check.sh": "go vet\n",
    "sdk/rust/check.sh": "cargo test\n",
    "docs/turns.md": "The annotation `example.com/turn`.\n",
    "docs/waiting.md": "It is left\nout of the queue.\n",
    "sdk/go/binder.go": "package sdk\n\nfunc (s *server) BindPods() {}\n",
}


@pytest.fixture(name="repository", scope="module")
def _repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    _git(root, "init", "--quiet")
    return Repository(root)


def _git(root: pathlib.Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(("git", *who, *arguments), cwd=root, check=True, capture_output=True)


def related(repository: Repository, path: str, name: str = "") -> dict[str, dict[str, str]]:
    """The neighbours with their notes, by group."""
    return {title: dict(found) for title, found in related_files.Related(repository, path, name).groups()}


RETRIES = "internal/trireme/bind/retries.py"


def test_files_that_declare_each_other_come_first(repository: Repository) -> None:
    assert [*related(repository, RETRIES)["also change"]] == ["docs/bind.md"]
    assert [*related(repository, "docs/bind.md")["also change"]] == [RETRIES]
    assert {*related(repository, "sdk/rust/pods.rs")["also change"]} == {"docs/pods.md", "docs/nodes.md"}


def test_users_are_found_however_they_import(repository: Repository) -> None:
    users = related(repository, RETRIES)["uses it"]
    assert "retry_delay" in users["internal/trireme/bind/process.py"]
    assert users["internal/trireme/bind/loader.py"] == "reset"
    assert users["tests/unit/bind/test_process.py"] == "reset"
    assert "internal/trireme/score/rounds.py" not in users


def test_classes_with_the_methods_of_a_protocol_implement_it_and_fakes_with_some(repository: Repository) -> None:
    assert related(repository, "internal/trireme/bind/ports.py")["implements it"] == {
        "internal/trireme/score/inbox.py": "Mailbox",
        "internal/trireme/score/rounds.py": "",
        "tests/unit/bind/test_queue.py": "FakeQueue",
    }


def test_of_one_method_of_a_protocol_its_implementers_are_named(repository: Repository) -> None:
    assert len(related(repository, "internal/trireme/bind/ports.py", "take_pods")["implements it"]) == 3


def test_an_implementer_is_told_its_protocol(repository: Repository) -> None:
    assert "internal/trireme/bind/ports.py" in related(repository, "internal/trireme/score/rounds.py")["also change"]


def test_a_number_is_found_in_other_units_beside_a_rare_part_of_its_name(repository: Repository) -> None:
    found = related(repository, "internal/trireme/bind/limits.py")
    assert {*found["same number"]} == {"docs/limits.md"}
    assert {*found["tests"]} == {"tests/unit/bind/test_limits.py"}


def test_files_that_state_the_text_of_a_name_are_named(repository: Repository) -> None:
    assert {*related(repository, "internal/trireme/bind/keys.py", "_KEY")["same text"]} == {"docs/turns.md"}


def test_a_text_that_is_filled_in_is_found_as_it_comes_out(repository: Repository) -> None:
    found = related(repository, "internal/trireme/bind/names.py", "name_of")["same text"]
    assert {*found} == {"tests/unit/bind/test_logs.py"}


def test_users_of_a_private_name_are_those_of_its_file(repository: Repository) -> None:
    found = related(repository, "internal/trireme/bind/keys.py", "_KEY")["uses it"]
    assert {*found} == {"internal/trireme/bind/turns.py"}


def test_a_private_name_concerns_what_its_users_in_the_file_do(repository: Repository) -> None:
    found = related(repository, "internal/trireme/bind/counts.py", "_KINDS")
    assert "tests/unit/bind/test_counts_of_kinds.py" in found["same words"]


def test_scripts_of_a_folder_use_each_other_without_a_package(repository: Repository) -> None:
    assert {*related(repository, "examples/turns/sums.py", "add")["uses it"]} == {"examples/turns/train.py"}


def test_the_same_file_of_each_language_is_named(repository: Repository) -> None:
    assert {*related(repository, "sdk/go/check.sh")["same file"]} == {"sdk/rust/check.sh"}


def test_a_name_may_be_a_message_however_its_lines_are_broken(repository: Repository) -> None:
    found = related(repository, "internal/trireme/bind/keys.py", "left out of the queue")["same text"]
    assert {*found} == {"docs/waiting.md"}
    found = related(repository, RETRIES, "many retries of one pod")["same text"]
    assert {*found} == {"tests/unit/bind/test_messages.py"}


def test_what_is_compared_with_recordings_is_named_with_its_test(repository: Repository) -> None:
    found = related(repository, "internal/trireme/plugins/node_name/filter.py")
    assert "tests/conformance/test_decisions.py" in found["tests"]


def test_of_one_name_only_its_users_are_named(repository: Repository) -> None:
    users = related(repository, RETRIES, "reset")["uses it"]
    assert {*users} == {"internal/trireme/bind/loader.py", "tests/unit/bind/test_process.py"}


def test_the_test_of_its_name_is_that_of_its_folder(repository: Repository) -> None:
    assert {*related(repository, RETRIES)["tests"]} == {"tests/unit/bind/test_retries.py"}
    assert {*related(repository, "tests/unit/bind/test_retries.py")["tests"]} == {RETRIES}


def test_what_is_generated_is_named_with_its_command(repository: Repository) -> None:
    generated = related(repository, RETRIES)["generated"]
    assert {*generated} == {"docs/flags.md"}
    assert generated["docs/flags.md"].startswith("`make docs`, MOST_RETRIES, retry_delay")
    assert "`make protos`" in related(repository, "protos/trireme/v1/bind.proto")["generated"].values()
    assert related(repository, "docs/flags.md")["generated"]["docs/flags.md"].startswith("`make docs` writes it")


def test_a_folder_of_a_table_is_found_by_its_rows_its_name_and_its_tests(repository: Repository) -> None:
    found = related(repository, "internal/trireme/policies/first_come/spec.py")
    assert found["CONTRIBUTING.md"] == {"a policy": "policies/*/, policies/registered.py"}
    assert {*found["names its folder"]} == {"internal/trireme/policies/registered.py"}
    assert {*found["tests"]} == {"tests/unit/policies/test_first_come.py"}
    assert {*found["it uses"]} == {"internal/trireme/policies/first_come/rule.py"}


def test_templates_are_users_of_values_and_of_other_templates(repository: Repository) -> None:
    assert "deploy/chart/templates/bind.yaml" in related(repository, "deploy/chart/values.yaml")["uses it"]
    found = related(repository, "deploy/chart/templates/bind.yaml")
    assert {*found["it uses"]} == {"deploy/chart/templates/_pods.tpl"}
    assert "`make manifests`" in found["generated"].values()


def test_the_same_requirement_of_a_package_is_found(repository: Repository) -> None:
    found = related(repository, "examples/requirements.txt")["same words"]
    assert {*found} == {"pyproject.toml"}


def test_documents_that_name_its_path_are_named(repository: Repository) -> None:
    assert {*related(repository, RETRIES)["names it"]} == {"docs/architecture.md"}
    assert {*related(repository, "docs/architecture.md")["it uses"]} == {RETRIES}


def test_documents_that_name_a_hidden_file_are_named(repository: Repository) -> None:
    assert {*related(repository, "sdk/go/.lintignore")["names it"]} == {"docs/lint.md"}


def test_facts_are_found_in_any_spelling_and_messages_in_part(repository: Repository) -> None:
    found = related(repository, RETRIES)["same words"]
    assert "retry_delay" in found["deploy/chart/values.yaml"]
    assert "too many retries of one" in found["tests/unit/bind/test_messages.py"]
    assert "docs/other.md" not in found


def test_users_in_other_languages_are_found(repository: Repository) -> None:
    assert related(repository, "protos/trireme/v1/bind.proto")["uses it"] == {"sdk/go/binder.go": "BindPods"}


def test_files_that_often_change_together_are_named(repository: Repository) -> None:
    paths = ("internal/trireme/score/rounds.py", "docs/other.md")
    for number in range(2):
        for path in paths:
            (repository.root / path).write_text(f"{FILES[path]}\n# {number}\n")
        _git(repository.root, "add", *paths)
        _git(repository.root, "commit", "--quiet", "--message", "change")
    assert {*related(repository, paths[0])["often with it"]} == {paths[1]}


def test_lines_are_no_wider_than_a_terminal() -> None:
    groups = [("uses it", [(f"a/{number}.py", "n" * 200) for number in range(3)])]
    assert {len(line) for line in related_files.lines(groups, 10)} == {140}
    groups = [("uses it", [(f"{'a' * 119}.py", "note")])]
    assert {len(line) for line in related_files.lines(groups, 10)} == {139}


def test_long_groups_are_cut_and_counted() -> None:
    groups = [
        ("uses it", [(f"a/{'n' * 100}{number}.py", "Name") for number in range(40)]),
        ("tests", [("b.py", "why")]),
    ]
    printed = [*related_files.lines(groups, 10)]
    assert len(printed) == 10
    assert printed[0].split() == ["uses", "it", f"a/{'n' * 100}0.py", "(Name)"]
    assert printed[8].split() == ["…", "32", "in", "a"]
    assert printed[9].split() == ["tests", "b.py", "(why)"]
    assert len([*related_files.lines(groups, 0)]) == 41


def test_files_of_one_folder_without_notes_are_one_entry() -> None:
    groups = [("names it", [("docs/a.md", ""), ("b.py", ""), ("docs/c.md", ""), ("docs/d.md", "why")])]
    assert [line.split() for line in related_files.lines(groups, 10)] == [
        ["names", "it", "docs/{a.md,c.md}", "b.py", "docs/d.md", "(why)"]
    ]


def test_neighbours_share_a_line_as_far_as_they_fit() -> None:
    groups = [("names it", [("a.py", ""), ("b.py", "why"), ("d" * 116, ""), ("e.py", "")])]
    assert [line.split() for line in related_files.lines(groups, 10)] == [
        ["names", "it", "a.py", "b.py", "(why)"],
        ["d" * 116, "e.py"],
    ]
