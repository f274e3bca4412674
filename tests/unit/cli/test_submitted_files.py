"""Files with manifests, as users pass them to `trireme simulate -f`."""

import argparse
import io
import pathlib
import sys
from types import SimpleNamespace

import pytest

from trireme.cli import main, scenario_file, simulate_command, submitted_files

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: main
    image: x
"""


def options(*arguments: str) -> argparse.Namespace:
    return main.make_parser().parse_args(["simulate", *arguments])


def test_several_documents_are_manifests_without_the_empty_ones() -> None:
    text = f"# a chart\n---\n{POD}---\n# nothing\n---\n{POD}"
    found = submitted_files.parse(text.encode(), "a.yaml", "here")
    assert found["namespace"] == "here"
    assert [each["kind"] for each in found["manifests"]] == ["Pod", "Pod"]


def test_json_is_taken_too() -> None:
    spec = b'{"containers": [{"name": "c", "image": "x"}]}'
    text = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": ' + spec + b"}"
    assert submitted_files.parse(text, "a.json", "")["manifests"][0]["metadata"] == {"name": "a"}


def test_a_scenario_stays_one() -> None:
    text = b"apiVersion: trireme.dev/v1alpha1\nkind: Scenario\nchanges:\n- drain: {nodeNames: [n1]}\n"
    assert submitted_files.parse(text, "s.yaml", "") == {"changes": [{"drain": {"nodeNames": ["n1"]}}]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            f"{POD}---\n{POD}    resourcez: {{}}\n",
            "a.yaml:16:5: document 2 (Pod a): spec.containers[0].resourcez: unknown field of Pod",
        ),
        (f"{POD}---\nkind: [\n", "a.yaml:10:1: "),
        ("- a\n", "a.yaml:1:1: document 1: must be a mapping, as a manifest is"),
        ("---\n", "a.yaml: has no manifest: give one as `kubectl apply` takes it"),
        (
            f"{POD}---\napiVersion: trireme.dev/v1alpha1\nkind: Scenario\n",
            "a.yaml: a Scenario must be the only document",
        ),
        ("kind: Pod\nkind: Pod\n", "a.yaml:1:1: document 1 (Pod): apiVersion: must be given"),
    ],
    ids=["unknown field", "no yaml", "a list", "empty", "scenario beside others", "no version"],
)
def test_errors_have_a_place_in_the_file(text: str, error: str) -> None:
    with pytest.raises(scenario_file.ScenarioFileError) as caught:
        submitted_files.parse(text.encode(), "a.yaml", "")
    assert str(caught.value).startswith(error)


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Charts are rendered into a pipe."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(POD.encode())))
    question = simulate_command.make_question(options("-f", "-", "-n", "here"))
    assert question["scenario"]["namespace"] == "here"
    assert question["scenario"]["manifests"][0]["metadata"]["name"] == "a"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(POD.encode())))
    assert simulate_command.make_question(options("--how-many", "-"))["howMany"]["manifest"]["kind"] == "Pod"


def test_changes_of_flags_are_made_before_the_manifests(tmp_path: pathlib.Path) -> None:
    """Whether it would fit with three more nodes is one question."""
    path = tmp_path / "a.yaml"
    path.write_text(POD)
    question = simulate_command.make_question(options("-f", str(path), "--add-nodes", "3", "--like", "n1"))
    assert question["scenario"]["changes"] == [{"addNodes": {"count": 3, "likeNode": "n1"}}]
    assert len(question["scenario"]["manifests"]) == 1
