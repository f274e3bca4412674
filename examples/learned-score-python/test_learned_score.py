"""The plugin's own tests: the training, the model, and the scores of nodes with pods."""

import pathlib

import boosted_stumps
import learned_score
import node_features
import numpy as np
import pytest
import recorded_observations
import train

from trireme import sdk
from trireme.recording import segment_format
from trireme.v1 import core_pb2, recording_pb2, snapshot_pb2

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
    """If this fails, nobody can tell where the model comes from."""
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
    """If this fails, a node's score depends on the other nodes of the call."""
    nodes = [node(*[pod("1")] * count) for count in range(8)]
    call = sdk.Call(pod("500m"), "p")
    together = plugin().score_nodes(call, nodes)
    assert together == [plugin().score_nodes(call, [each])[0] for each in nodes]
    assert plugin().score_nodes(call, []) == []


def test_a_pod_is_expected_to_be_slower_on_a_busy_node() -> None:
    """If this fails, pods go where they are slow."""
    nodes = [node(), node(*[pod("1")] * 4), node(*[pod("1")] * 7)]
    empty, half, full = plugin().score_nodes(sdk.Call(pod("1"), "p"), nodes)
    assert 0 <= empty <= half < full


def test_the_features_are_shares_of_the_node_with_the_pod() -> None:
    """If this fails, the scheduler's nodes look otherwise than those that the model has learned from."""
    rows = node_features.FeatureReader().rows(pod("2", "8Gi"), [node(pod("2", "8Gi"), pod("500m", "0"))])
    assert rows.tolist() == [[4.5 / 8, 0.5, 0.03, 0.25]]
    empty = node_features.FeatureReader().rows(pod("2"), [sdk.Node("n", core_pb2.Node())])
    assert np.isfinite(empty).all()


def test_observations_are_read_from_a_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the model cannot be trained on what was measured; or a wrong file is not told by line."""
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
    """If this fails, scores are nonsense, and nobody sees it."""
    with pytest.raises(boosted_stumps.ModelError) as refused:
        boosted_stumps.Model.from_json(text, node_features.FEATURES)
    assert problem in str(refused.value)
    assert learned_score.main(["--model", str(tmp_path / "none.json")]) == 1


class Recording:
    """Writes a recording of nodes of 8 CPUs, on which jobs of one class come and go; times are in seconds."""

    def __init__(self, path: pathlib.Path, nodes: int) -> None:
        header = segment_format.encode_header(recording_pb2.RecordingHeader(segment=1, instance="i"))
        self._file = path.open("wb")
        self._file.write(header)
        self._frames = segment_format.FrameEncoder(header)
        self._generation = 1
        state = snapshot_pb2.Delta(reset=True, to_generation=1)
        state.classes.add(id=1, pod=pod("500m"))
        for slot in range(nodes):
            state.nodes.add(slot=slot, node=node().message)
        self._write(0, state, state_part=recording_pb2.STATE_PART_LAST)

    def _write(self, seconds: float, delta: snapshot_pb2.Delta, **fields: int) -> None:
        message = snapshot_pb2.SyncRequest(delta=delta)
        self.frame(recording_pb2.RecordedFrame(unix_time_ns=round(seconds * 1e9), message=message, **fields))

    def frame(self, frame: recording_pb2.RecordedFrame) -> None:
        """Write a frame."""
        self._file.write(self._frames.encode(frame.SerializeToString()))

    def change(self, seconds: float, delta: snapshot_pb2.Delta) -> None:
        """Write a change of the cluster."""
        delta.from_generation, delta.to_generation = self._generation, self._generation + 1
        self._generation += 1
        self._write(seconds, delta)

    def place(self, seconds: float, row: int, slot: int, *, started: bool = True, terminating: bool = False) -> None:
        """A pod comes to a node, or what is known of it changes."""
        columns = snapshot_pb2.PodColumns(
            row=[row],
            pod_class=[1],
            slot=[slot],
            uid=[f"u{row}"],
            name=[f"p{row}"],
            start_time_s=[round(seconds) + 1 if started else 0],
            flags=[1 if terminating else 0],
        )
        self.change(seconds, snapshot_pb2.Delta(pods=columns))

    def remove(self, seconds: float, row: int) -> None:
        """A pod leaves the cluster."""
        self.change(seconds, snapshot_pb2.Delta(removed_pods=[row]))

    def close(self) -> None:
        """End the recording."""
        self.frame(recording_pb2.RecordedFrame(end=recording_pb2.RecordingEnd()))
        self._file.close()


def test_a_recording_teaches_what_slows_pods_down(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, observations must be written by hand although recordings exist."""
    path, draw, now, row = tmp_path / "jobs.trireme", np.random.default_rng(3), 0.0, 0
    recording = Recording(path, 8)
    for slot in [*range(8)] * 12:
        # So many jobs at once, one after the other on the node; each takes longer by those that were there before it.
        rows = range(row, row + int(draw.integers(1, 14)))
        for at, number in enumerate(rows):
            recording.place(now + at / 100, number, slot)
        for at, number in enumerate(rows):
            recording.remove(now + at / 100 + 60 * (1 + 0.1 * at) + float(draw.normal(0, 1)), number)
        row, now = row + len(rows), now + 1000
    recording.close()
    output = tmp_path / "model.json"
    assert train.main(["--recording", str(path), "--output", str(output)]) == 0
    of_model, of_mean = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert of_model < of_mean / 3
    model = boosted_stumps.Model.from_json(output.read_text(), node_features.FEATURES)
    scored = learned_score.LearnedScore(model).score_nodes(
        sdk.Call(pod("500m"), "p"), [node(*[pod("500m")] * count) for count in (0, 5, 10)]
    )
    assert scored == sorted(scored)
    assert scored[0] < scored[-1]


def test_only_pods_that_finished_are_observations(tmp_path: pathlib.Path) -> None:
    """If this fails, the model learns from pods that somebody deleted, or that never ran."""
    path = tmp_path / "jobs.trireme"
    recording = Recording(path, 1)
    for row in range(12):
        recording.place(row, row, 0)
        recording.remove(row + 0.5, row)
    recording.place(20, 20, 0, started=False)  # assumed, and forgotten again
    recording.remove(21, 20)
    recording.place(22, 21, 0)
    recording.place(23, 21, 0, terminating=True)
    recording.remove(24, 21)
    recording.place(25, 22, 0)
    recording.frame(recording_pb2.RecordedFrame(gap=recording_pb2.RecordingGap()))
    recording.remove(30, 22)
    recording.place(31, 23, 0)  # still running
    recording.close()
    rows, slowdowns = recorded_observations.read(path)
    assert rows.shape == (12, len(node_features.FEATURES))
    assert np.allclose(slowdowns, 1)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"cpuShare,slowdown\n1,1\n", "byte 0: "), (b"", "has 0 observations, must have at least 50")],
    ids=["a table", "nothing"],
)
def test_a_file_that_is_no_recording_is_refused(
    content: bytes, problem: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, training ends with a traceback."""
    path = tmp_path / "other.csv"
    path.write_bytes(content)
    assert train.main(["--recording", str(path), "--output", str(tmp_path / "model.json")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: --recording: ")
    assert str(path) in error
    assert problem in error
    assert "Traceback" not in error
