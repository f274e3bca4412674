"""The choices that a plugin makes when it describes itself; numbers as in protos/trireme/v1/plugin.proto."""

import enum


class Dependency(enum.IntEnum):
    """What a plugin's answer about a node depends on, and so how long the scheduler keeps it."""

    #: The node object alone: kept until the node changes.
    NODE = 1
    #: Also the pods on the node: asked again for the nodes touched.
    NODE_PODS = 2
    #: Anything: asked every time, and pods go one by one.
    CLUSTER = 3


class NodeData(enum.IntEnum):
    """In what form the plugin sees the nodes that it is asked about."""

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

    #: They are already.
    NONE = 1
    #: Divided by the largest, times 100.
    MAX = 2
    #: As MAX, taken from 100: the smallest is best.
    MAX_REVERSED = 3
