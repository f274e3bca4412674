"""The plugin's own tests: the training, the model, and the scores of nodes with pods."""

import pathlib

import boosted_stumps
import learned_score
import node_features
import numpy as np
import pytest
import train

from trireme import sdk
from trireme.v1 import core_pb2

MODEL = pathlib.Path(__file__).with_name("model.json")


def pod(cpu: str, memory: str = "1Gi") -> core_pb2.Pod:
    """A pod of one container."""
    out = core_pb2.Pod()
    requests = out.spec.containers.add().resources.requests
    requests["cpu"].string, requests["memory"].string = cpu, memory
    return out


def node(*pods: core_pb2.Pod) -> sdk.Node:
    """A node of 8 CPUs with these pods."""
    message = core_pb2.Node()
    for name, amount in (("cpu", "8"), ("memory", "32Gi"), ("pods", "100")):
        message.status.allocatable[name].string = amount
    return sdk.Node("n", message, b"", [sdk.PlacedPod(f"u{at}", f"p{at}", each, 0) for at, each in enumerate(pods)])


def plugin() -> learned_score.LearnedScore:
    """The plugin with the model that is here."""
    return learned_score.LearnedScore(boosted_stumps.Model.from_json(MODEL.read_text(), node_features.FEATURES))


def test_the_model_here_is_what_training_makes(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken, nobody can tell where the model comes from."""
    assert train.main(["--output", str(tmp_path / "model.json")]) == 0
    made, here = [
        boosted_stumps.Model.from_json(path.read_text(), node_features.FEATURES)
        for path in (tmp_path / "model.json", MODEL)
    ]
    rows, _ = train.invented(200, seed=1)
    # Another processor may add up in another order.
    assert np.allclose(made.predict(rows), here.predict(rows), atol=0.01)
    of_model, of_mean = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert of_model < of_mean / 3


def test_many_nodes_at_once_score_as_each_by_itself() -> None:
    """Broken, a node's score depends on the other nodes of the call."""
    nodes = [node(*[pod("1")] * count) for count in range(8)]
    call = sdk.Call(pod("500m"), "p")
    together = plugin().score_nodes(call, nodes)
    assert together == [plugin().score_nodes(call, [each])[0] for each in nodes]
    assert plugin().score_nodes(call, []) == []


def test_a_pod_is_expected_to_be_slower_on_a_busy_node() -> None:
    """Broken, pods go where they are slow."""
    nodes = [node(), node(*[pod("1")] * 4), node(*[pod("1")] * 7)]
    empty, half, full = plugin().score_nodes(sdk.Call(pod("1"), "p"), nodes)
    assert 0 <= empty <= half < full


def test_the_features_are_shares_of_the_node_with_the_pod() -> None:
    """Broken, the scheduler's nodes look otherwise than those that the model has learned from."""
    rows = node_features.FeatureReader().rows(pod("2", "8Gi"), [node(pod("2", "8Gi"), pod("500m", "0"))])
    assert rows.tolist() == [[4.5 / 8, 0.5, 0.03, 0.25]]
    empty = node_features.FeatureReader().rows(pod("2"), [sdk.Node("n", core_pb2.Node())])
    assert np.isfinite(empty).all()


def test_observations_are_read_from_a_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken, the model cannot be trained on what was measured; or a wrong file is not told by line."""
    rows, values = train.invented(400)
    lines = [",".join((*node_features.FEATURES, train.TARGET))]
    lines += [",".join(map(str, [*row, value])) for row, value in zip(rows.tolist(), values.tolist(), strict=True)]
    path, output = tmp_path / "seen.csv", str(tmp_path / "model.json")
    path.write_text("\n".join(lines))
    assert train.main(["--observations", str(path), "--output", output]) == 0
    for text, problem in (
        ("\n".join([*lines[:99], "1,2,x,4,5"]), "seen.csv:100: could not convert"),
        ("\n".join(lines[:9]), "has 8 observations"),
        (lines[0].replace("slowdown", "time"), "no column slowdown"),
    ):
        path.write_text(text)
        assert train.main(["--observations", str(path), "--output", output]) == 1
        assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no model"),
        ("{}", "is no model"),
        ('{"features": ["a"], "mean": 1, "stumps": []}', "features: it was trained with a, not cpuShare"),
        (
            '{"features": [], "mean": 1, "stumps": [{"feature": 9, "threshold": 1, "at_most": 1, "above": 1}]}',
            "feature 9 is none of 4",
        ),
    ],
)
def test_a_file_that_is_no_model_of_these_features_is_refused(text: str, problem: str, tmp_path: pathlib.Path) -> None:
    """Broken, scores are nonsense, and nobody sees it."""
    with pytest.raises(boosted_stumps.ModelError) as refused:
        boosted_stumps.Model.from_json(text, node_features.FEATURES)
    assert problem in str(refused.value)
    assert learned_score.main(["--model", str(tmp_path / "none.json")]) == 1
