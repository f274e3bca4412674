"""What has been added to the contract of plugins since it was frozen, by name.

The scheduler sends these names with the handshake, and a plugin may require some of them (`PluginInfo`): so a plugin
that is newer than the scheduler is rejected with the reason, instead of working by half.

Also change: docs/protocol.md.
Also change: docs/versioning.md.
Also change: protos/trireme/v1/plugin.proto (the messages).
"""

from trireme.v1 import plugin_pb2

#: Each with what it means; docs/versioning.md lists them.
FEATURES = {
    "idempotent": "`PluginInfo.idempotent`: calls that change nothing may be hedged",
    "placement-feasible": "the extension point PLACEMENT_FEASIBLE: groups of pods are refused a placement",
    "required-features": "`PluginInfo.required_features` is honoured",
    "score-copies": "`PluginInfo.score_copies`: pods are placed in batches beside a Score that depends on NODE_PODS",
}


def handshake_request() -> plugin_pb2.GetPluginInfoRequest:
    """The request of the handshake, with all of these names."""
    return plugin_pb2.GetPluginInfoRequest(features=sorted(FEATURES))
