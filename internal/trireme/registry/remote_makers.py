"""What makes remote plugins where none is called: of recordings, simulated clusters and tests."""

from typing import Any

from trireme.v1 import snapshot_pb2


def no_remote_plugin(plugin: snapshot_pb2.RemotePlugin, profile: str) -> Any:
    """Raises: ValueError."""
    raise ValueError(f"{plugin.name} is a remote plugin, which is not called here")
