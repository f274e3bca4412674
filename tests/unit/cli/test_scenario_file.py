"""Scenario files: each problem is named with line, column, field, and what to do."""

import pathlib

import pytest

from trireme.cli import scenario_file

HEAD = b"apiVersion: trireme.dev/v1alpha1\nkind: Scenario\n"
POD = """
  - addPods:
      count: 2
      manifest:
        apiVersion: v1
        kind: Pod
        metadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}
        spec:
          containers:
          - name: c
            resources: {requests: {cpu: 1}}
"""


def test_a_scenario_is_read_as_the_message() -> None:
    """Each kind of change has to arrive as it is written."""
    text = HEAD + b"changes:\n- addNodes: {count: 3, likeNode: n17}\n- drain: {nodeNames: [n4]}" + POD.encode()
    read = scenario_file.parse(text.replace(b"\n  - addPods", b"\n- addPods"), "s.yaml")
    assert read["changes"][0] == {"addNodes": {"count": 3, "likeNode": "n17"}}
    assert read["changes"][1] == {"drain": {"nodeNames": ["n4"]}}
    added = read["changes"][2]["addPods"]
    assert added["count"] == 2
    assert added["manifest"]["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert added["manifest"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == 1


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("change: []", "s.yaml:3:1: change: unknown field; known are changes, withoutPendingPods"),
        ("changes: {}", "s.yaml:3:10: changes: must be a list"),
        ("changes: [x]", "s.yaml:3:11: changes[0]: must be a mapping"),
        ("changes:\n- addNodes: {likee: n1}", "s.yaml:4:14: changes[0].addNodes.likee: unknown field; known are count"),
        ("changes:\n- addNodes: {count: x, likeNode: n}", "s.yaml:4:21: changes[0].addNodes.count: must be a whole"),
        (
            "changes:\n- addNodes: {count: 1}",
            "s.yaml:4:13: changes[0].addNodes: must have exactly one of likeNode, man",
        ),
        ("changes:\n- {}", "s.yaml:4:3: changes[0]: must have exactly one of addNodes, addPods"),
        (
            "changes:\n- drain: {nodeNames: [a]}\n  drain: {nodeNames: [b]}",
            "s.yaml:5:3: changes[0].drain: is there twice",
        ),
        ("withoutPendingPods: perhaps", "s.yaml:3:21: withoutPendingPods: must be true or false"),
        ("changes:\n- apply: {manifest: {kind: Cat}}", "s.yaml:4:21: changes[0].apply.manifest.kind: Cat of v1 is not"),
        ("changes:\n- apply: {manifest: {a: 1}}", "changes[0].apply.manifest.kind: must name a kind"),
        ("changes:\n- drain: {nodeNames: [[a]]}", "changes[0].drain.nodeNames[0]: must be a single value"),
        ("changes: [", "s.yaml:4:1: "),
        (
            "changes:" + POD.replace("containers", "tolerationz: []\n          containers"),
            "s.yaml:11:11: changes[0].addPods.manifest.spec.tolerationz: unknown field of Pod",
        ),
        (
            "changes:" + POD.replace("resources", "imagee: x\n            resources"),
            "s.yaml:13:13: changes[0].addPods.manifest.spec.containers[0].imagee: unknown field of Pod",
        ),
        ("changes:" + POD.replace("{name: a,", "{name: [],"), "changes[0].addPods.manifest: Pod in version"),
    ],
)
def test_problems_have_line_column_and_field(body: str, problem: str) -> None:
    """Who writes a scenario of a hundred lines has to find the one that is wrong."""
    with pytest.raises(scenario_file.ScenarioFileError) as caught:
        scenario_file.parse(HEAD + body.encode() + b"\n", "s.yaml")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"kind: Scenario\n", "s.yaml:1:1: apiVersion: must be given: trireme.dev/v1alpha1"),
        (b"apiVersion: trireme.dev/v1alpha1\nkind: Pod\n", "s.yaml:2:7: kind: must be Scenario"),
        (b"[]", "s.yaml:1:1: must be a mapping"),
        (b"", "s.yaml:1:1: must be a mapping"),
        (b"\xff\xfe\x00", "s.yaml"),
        (HEAD + b"# " + b"x" * scenario_file.MAX_BYTES, "s.yaml: has more than 1 MiB"),
    ],
)
def test_other_files_are_refused(text: bytes, problem: str) -> None:
    """A manifest or a configuration in place of a scenario is a frequent mistake."""
    with pytest.raises(scenario_file.ScenarioFileError) as caught:
        scenario_file.parse(text, "s.yaml")
    assert problem in str(caught.value)


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    """One at a time takes as many runs as there are mistakes."""
    with pytest.raises(scenario_file.ScenarioFileError) as caught:
        scenario_file.parse(HEAD + b"foo: 1\nchanges:\n- bar: {}\n", "s.yaml")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["3", "5"]


def test_a_manifest_has_to_be_of_the_right_kind(tmp_path: pathlib.Path) -> None:
    """`--how-many` is about a pod."""
    path = tmp_path / "node.yaml"
    path.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    with pytest.raises(scenario_file.ScenarioFileError, match="kind: must be Pod, not Node"):
        scenario_file.read_manifest(str(path), "Pod")
    with pytest.raises(scenario_file.ScenarioFileError, match="No such file"):
        scenario_file.read_manifest(str(tmp_path / "missing.yaml"), "Pod")
    with pytest.raises(scenario_file.ScenarioFileError, match="No such file"):
        scenario_file.read(str(tmp_path / "missing.yaml"))
