"""What of the configuration reaches the phases."""

import dataclasses
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest

from trireme.config import commandline
from trireme.framework import feature_gates
from trireme.frontend import phase_configuration
from trireme.plugin_api import plugin_info_validation
from trireme.simulation import completed_profiles
from trireme.v1 import plugin_pb2

FILTER, SCORE = plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE
FEASIBLE = plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE
HEADER = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"


def started(folder: Path, own: str) -> commandline.CompletedConfig:
    """A frontend's start with this TriremeConfiguration."""
    (folder / "own.yaml").write_text(HEADER + own)
    flags = [f"--trireme-config={folder}/own.yaml", "--master=http://127.0.0.1:1", "--secure-port=0"]
    completed = (
        commandline.Start(flags, {"HOME": str(folder)}, StringIO(), StringIO(), lambda line: None).run().completed
    )
    assert completed is not None
    return completed


@pytest.mark.parametrize(
    ("own", "corrected"),
    [
        pytest.param("", True, id="default"),
        pytest.param("compatibility: Corrected\n", True, id="corrected"),
        pytest.param("compatibility: Kubernetes\n", False, id="kubernetes"),
    ],
)
def test_the_compatibility_reaches_the_phases_and_what_is_simulated_of_them(
    tmp_path: Path, own: str, corrected: bool
) -> None:
    """The frontend's own gates and those of the message agree; neither metrics nor remote plugins see it as a gate."""
    completed = started(tmp_path, own)
    message = phase_configuration.make_configuration(completed, {})
    assert message.feature_gates[feature_gates.CORRECTED] is corrected
    assert completed.gates.enabled(feature_gates.CORRECTED) is corrected
    assert completed_profiles.feature_gates(message).enabled(feature_gates.CORRECTED) is corrected
    assert feature_gates.CORRECTED not in completed.gates.all()
    assert not dataclasses.replace(completed.gates, values={}).enabled(feature_gates.CORRECTED)


@pytest.mark.parametrize(
    ("points", "left", "events"),
    [
        pytest.param([FILTER, FEASIBLE], [FILTER], True, id="it can refuse without"),
        pytest.param([SCORE, FEASIBLE], [SCORE], False, id="it cannot refuse without"),
        pytest.param([FEASIBLE], [FEASIBLE], True, id="no phase calls it"),
        pytest.param([FILTER], [FILTER], True, id="another plugin"),
    ],
)
def test_phases_are_not_told_of_placement_feasible(
    tmp_path: Path, points: Sequence[plugin_pb2.ExtensionPoint.ValueType], left: Sequence[int], events: bool
) -> None:
    """Those of release 0.1.0 refuse a description with it, and nothing is scheduled until others are there."""
    plugin = "remotePlugins: [{name: P, addresses: ['127.0.0.1:1'], extensionPoints: [filter]}]\n"
    info = plugin_pb2.PluginInfo(name="P", version="2", extension_points=points)
    info.events_to_register.add(resource="Node", actions=["Add"])
    if FEASIBLE in points:
        info.required_features.append("placement-feasible")
    (remote,) = phase_configuration.make_configuration(started(tmp_path, plugin), {"P": info}).remote_plugins
    assert (list(remote.info.extension_points), bool(remote.info.events_to_register)) == (left, events)
    assert list(remote.info.required_features) == (["placement-feasible"] if FEASIBLE in left else [])
    assert remote.info.version == "2"
    plugin_info_validation.check_plugin_info(remote.info)
