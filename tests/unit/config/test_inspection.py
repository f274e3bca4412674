"""Line and column of what is wrong in a configuration file, from the message and the text alone."""

import pytest

from trireme.config.inspection import locate
from trireme.config.loading import parse
from trireme_kube.apimachinery.configuration_files import ConfigurationError

TEXT = """\
parallelism: 0
profiles:
  - schedulerName: a
    plugins: {score: {enabled: [{name: X, weight: two}]}}
  - schedulerName: a
    percentageOfNodesToScore: y
parallelism: 4
"""


@pytest.mark.parametrize(
    ("problem", "position"),
    [
        pytest.param("parallelism: Invalid value: 0: should be greater", (7, 14), id="field"),
        pytest.param("profiles[1].schedulerName: Duplicate value: {}", (5, 20), id="element"),
        pytest.param("profiles[1].extenders[0].urlPrefix: Required value", (5, 5), id="nearest-that-is-there"),
        pytest.param("profiles[7].schedulerName: Required value", (3, 3), id="no-such-element"),
        pytest.param("leaderElection.resourceName: Required value", (1, 1), id="nothing-of-it-is-there"),
        pytest.param("tls: Required value: 10.0.0.1:1 of phases.bind is beyond loopback", (1, 1), id="missing"),
        pytest.param("leaderElection.leaseDuration: Invalid value: 0", None, id="default-that-is-not-in-the-file"),
        pytest.param('unknown field "profiles[0].plugins.score"', (4, 15), id="unknown-field"),
        pytest.param('duplicate field "parallelism"', (7, 1), id="duplicate-field"),
        pytest.param(
            "json: cannot unmarshal string into Go struct field Plugin.profiles.plugins.score.enabled.weight of "
            "type int32",
            (4, 51),
            id="type",
        ),
        pytest.param(
            "json: cannot unmarshal bool into Go struct field KubeSchedulerProfile.profiles.percentageOfNodesToScore "
            "of type int32",
            (6, 31),
            id="old-boolean",
        ),
        pytest.param("yaml: unmarshal errors:\n  line 7: key already set in map", (7, 1), id="line"),
        pytest.param("no kind is registered", None, id="about-no-field"),
    ],
)
def test_position(problem: str, position: tuple[int, int] | None) -> None:
    """An editor jumps to another line than the one that is wrong."""
    assert locate(TEXT.encode(), problem) == position


ARGUMENTS = """\
parallelism: 16
kind: [KubeSchedulerConfiguration]
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {parallelism: 1, scoringStrategy: {bad: 1}}
      - name: InterPodAffinity
        args:
          parallelism: "1"
          hardPodAffinityWeight: "1"
      - name: NodeAffinity
        args: 5
      - name: VolumeBinding
"""


@pytest.mark.parametrize(
    ("problem", "position"),
    [
        pytest.param(
            "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeResourcesFit: "
            'strict decoding error: unknown field "parallelism"',
            (6, 16),
            id="name-that-is-at-the-root-too",
        ),
        pytest.param(
            "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeResourcesFit: "
            'strict decoding error: unknown field "scoringStrategy.bad"',
            (6, 50),
            id="unknown-field",
        ),
        pytest.param(
            "decoding .profiles[0].pluginConfig[1]: decoding args for plugin InterPodAffinity: json: cannot unmarshal "
            "string into Go struct field InterPodAffinityArgs.hardPodAffinityWeight of type int32",
            (10, 34),
            id="type",
        ),
        pytest.param(
            "decoding .profiles[0].pluginConfig[2]: decoding args for plugin NodeAffinity: couldn't get version/kind; "
            "json parse error: json: cannot unmarshal number into Go value of type struct { Kind string }",
            (12, 15),
            id="not-an-object",
        ),
        pytest.param(
            "decoding .profiles[0].pluginConfig[3]: decoding args for plugin VolumeBinding: Object 'kind' is missing",
            (13, 9),
            id="no-arguments",
        ),
        pytest.param(
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go struct field .kind of "
            "type string",
            (2, 7),
            id="kind",
        ),
    ],
)
def test_position_in_the_arguments_of_a_plugin(problem: str, position: tuple[int, int]) -> None:
    """An editor jumps to a field of the same name elsewhere, or nowhere: such messages name fields of the arguments."""
    assert locate(ARGUMENTS.encode(), problem) == position


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('{"kind": "x",\n "a": }', 2, id="json"),
        pytest.param("a: 1\nb: 'x\n", 3, id="yaml"),
        pytest.param("\tx: 1\n", 1, id="tab"),
    ],
)
def test_syntax(text: str, line: int) -> None:
    """The message of a parser says the line at best, and in Kubernetes' case not always that of the fault."""
    with pytest.raises(ConfigurationError) as raised:
        parse(text.encode())
    found = locate(text.encode(), raised.value.problems[0])
    assert found is not None
    assert found.line == line


def test_position_in_json_indented_by_tabs() -> None:
    """JSON allows tabs between values and YAML does not: the first tab is shown as the place of the problem."""
    assert locate(b'{\n\t"kind": "x",\n\t"nope": "a\\tb"\n}\n', 'unknown field "nope"') == (3, 2)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"- 1\n- 2\n", b"a: &x [*x]\n"])
def test_files_without_a_position(data: bytes) -> None:
    """A message is shown without a position, not as a traceback."""
    locate(data, "parallelism: Invalid value")
    locate(data, "json parse error: x")
