"""Another configuration for the decisions of a recording: a KubeSchedulerConfiguration with the recorded gates.

Tests: tests/unit/cli/test_replay_command.py.
"""

import pathlib

from trireme.config import inspection, trireme_configuration
from trireme.framework import feature_gates
from trireme.frontend import phase_configuration
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import configuration_files


def load(path: pathlib.Path, recorded: snapshot_pb2.Configuration) -> snapshot_pb2.Configuration:
    """The recorded configuration with the profiles of the file.

    Raises: ConfigurationError: the scheduler would not start with it, or a recorded profile is not in it.
    """
    gates = inspection.feature_gates(
        [
            f"{name}={str(value).lower()}"
            for name, value in sorted(recorded.feature_gates.items())
            if name != feature_gates.CORRECTED
        ]
    )
    data = configuration_files.read_file(str(path))
    profiles = inspection.inspect(data, trireme_configuration.TriremeConfiguration(), gates).profiles
    missing = {each.scheduler_name for each in recorded.profiles} - {each.scheduler_name for each in profiles}
    if missing:
        raise configuration_files.ConfigurationError(
            f"the recording has the profile {min(missing)}, which is not in the file: add it"
        )
    out = snapshot_pb2.Configuration()
    out.CopyFrom(recorded)
    del out.profiles[:]
    out.profiles.extend(phase_configuration.profile_message(each, frozenset()) for each in profiles)
    return out
