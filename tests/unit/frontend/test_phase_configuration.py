"""What of the configuration reaches the phases."""

import dataclasses
from io import StringIO
from pathlib import Path

import pytest

from trireme.config import commandline
from trireme.framework import feature_gates
from trireme.frontend import phase_configuration
from trireme.simulation import completed_profiles

HEADER = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"


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
    (tmp_path / "own.yaml").write_text(HEADER + own)
    flags = [f"--trireme-config={tmp_path}/own.yaml", "--master=http://127.0.0.1:1", "--secure-port=0"]
    completed = (
        commandline.Start(flags, {"HOME": str(tmp_path)}, StringIO(), StringIO(), lambda line: None).run().completed
    )
    assert completed is not None
    message = phase_configuration.make_configuration(completed, {})
    assert message.feature_gates[feature_gates.CORRECTED] is corrected
    assert completed.gates.enabled(feature_gates.CORRECTED) is corrected
    assert completed_profiles.feature_gates(message).enabled(feature_gates.CORRECTED) is corrected
    assert feature_gates.CORRECTED not in completed.gates.all()
    assert not dataclasses.replace(completed.gates, values={}).enabled(feature_gates.CORRECTED)
