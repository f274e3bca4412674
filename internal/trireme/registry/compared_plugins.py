"""The remote plugins in mode Shadow of a configuration.

Tests: tests/contract/test_plugin_shadow.py.
"""

from collections.abc import Mapping, Sequence

from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme.wire import profile_messages


def compared_plugins(
    configuration: snapshot_pb2.Configuration, point: plugin_pb2.ExtensionPoint.ValueType
) -> Mapping[str, Sequence[tuple[snapshot_pb2.RemotePlugin, int]]]:
    """By profile the remote plugins in mode Shadow at this point, with their weights."""
    remotes = {remote.name: remote for remote in configuration.remote_plugins if remote.shadow}
    return {
        profile.scheduler_name: [
            (remotes[entry.name], entry.weight)
            for entry in profile_messages.plugins_at(profile, point)
            if entry.name in remotes
        ]
        for profile in configuration.profiles
    }
