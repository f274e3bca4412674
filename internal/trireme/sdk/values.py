"""Enumerations of a plugin's description; numbers as in protos/trireme/v1/plugin.proto.

Also change: sdk/go/definition.go, sdk/java/src/main/java/dev/trireme/sdk/Dependency.java,
sdk/java/src/main/java/dev/trireme/sdk/NodeData.java, sdk/java/src/main/java/dev/trireme/sdk/Normalization.java,
sdk/rust/src/info.rs, sdk/typescript/src/values.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/plugin.proto (the messages).
"""

import enum


class Dependency(enum.IntEnum):
    """What a plugin's result for a node depends on, and so how long the scheduler caches it."""

    #: The node object alone: cached until the node changes.
    NODE = 1
    #: Also the pods on the node: evaluated again for nodes whose pods changed.
    NODE_PODS = 2
    #: Anything: evaluated every time, with one pod at a time.
    CLUSTER = 3


class NodeData(enum.IntEnum):
    """The form in which the plugin gets nodes."""

    #: `node.name` alone: the cheapest.
    NAMES = 1
    #: Also `node.message`.
    MESSAGES = 2
    #: Also `node.json()`, the object as the API server sent it.
    JSON = 3
    #: Also `node.message` and `node.pods`: the plugin follows the whole cluster (`Call.cluster`), as a phase does.
    SNAPSHOT = 4


class Normalization(enum.IntEnum):
    """How the scheduler brings the plugin's scores into 0 to 100."""

    #: They are in that range already.
    NONE = 1
    #: Divided by the largest, times 100.
    MAX = 2
    #: 100 minus MAX: the smallest score is best.
    MAX_REVERSED = 3
