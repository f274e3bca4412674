"""The affinity that a profile adds to that of every pod."""

from trireme.plugin_kit import plugin_context
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode


def added_affinity_of(context: plugin_context.PluginContext) -> core_pb2.NodeAffinity:
    """Return the node affinity that the profile's arguments add to each pod's; empty if they add none."""
    stated = context.args.get("addedAffinity")
    return core_pb2.NodeAffinity() if stated is None else decode.decode(stated, core_pb2.NodeAffinity)
