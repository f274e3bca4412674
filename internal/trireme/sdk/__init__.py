"""Writing a scheduler plugin in Python: a class with the methods of the steps it takes part in.

    from trireme import sdk

    class Maintenance:
        info = sdk.Info("Maintenance", depends_on=sdk.Dependency.NODE, node_data=sdk.NodeData.MESSAGES)

        def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
            if "example.com/maintenance" in node.labels:
                return sdk.unresolvable("node(s) were under maintenance")
            return None

    if __name__ == "__main__":
        raise SystemExit(sdk.main(Maintenance()))

That is a whole plugin: `python maintenance.py --listen 127.0.0.1:9000` serves it, with health and reflection. A
profile names it, the scheduler's configuration says where it is, and it is asked by the same RPCs as any plugin in any
language.

The steps are methods with the framework's names; a plugin has those it needs, and any of them may be `async`:

    configure(configuration)            checks the profile's arguments; what it answers is `call.config` in later calls
    pre_enqueue(pod, profile)           None lets the pod into the queue, a status keeps it out
    sort_key(pod, queued_ns)            bytes; the smaller comes first (QueueSort)
    queueing_hint(pod, event, old, new) whether the event may help the pod that this plugin refused
    pre_filter(call)                    None, a status, `SKIP`, or a `PreFilter` that narrows the nodes or keeps state
    filter(call, node)                  None: passes; a number: passes, so many copies fit; a status: refused
    filter_nodes(call, nodes)           the same for many nodes at once, instead of filter
    post_filter(call, columns)          None, a status, or a `filter_pb2.PostFilterResponse` with actions
    pre_score(call, nodes)              None, `SKIP`, a status that is an error, or bytes of state for score
    score(call, node)                   a whole number
    score_nodes(call, nodes)            the same for many nodes at once, instead of score
    normalize_scores(call, nodes, raw)  0 to 100 for each node (without it: as `Info.normalization` says)
    reserve(call, placement)            None, a status, or a `filter_pb2.Reservation`
    unreserve(call, placement)          nothing
    permit(call, item)                  None, a status, or a `Wait`
    pre_bind(call, item)                None, `SKIP`, a status, or a `bind_pb2.PreBindResult`
    bind(call, item)                    None: bound; `SKIP`: somebody else shall; a status
    post_bind(call, item)               nothing

With `NodeData.SNAPSHOT` the plugin follows the cluster as the scheduler's own phases do: `node.message` and `node.pods`
are the node and the pods on it, bound or about to be, and `call.cluster` has everything else. A call waits until what
it is about has come, so a method never sees an older cluster than the scheduler; it must not change what it sees.

`Info` says what the answers depend on, which decides how often the plugin is asked: with `Dependency.NODE` once per
node and class of pods. An exception is an error of the plugin: the scheduler treats the pod as the plugin's failure
policy says. `max_concurrent_calls` is kept here: calls beyond it wait. A method that is not `async` has the process for
itself while it runs; one that waits for something should be.
"""

from trireme.sdk.calls import Call, Node
from trireme.sdk.cluster_state import ClusterState, PlacedPod
from trireme.sdk.configuring import Configuration, InvalidArguments
from trireme.sdk.description import Event, Info, describe
from trireme.sdk.handle import Handle
from trireme.sdk.results import SKIP, PreFilter, Status, Verdict, Wait, error, unresolvable, unschedulable
from trireme.sdk.serving import main, serve, services
from trireme.sdk.values import Dependency, NodeData, Normalization

__all__ = [
    "SKIP",
    "Call",
    "ClusterState",
    "Configuration",
    "Dependency",
    "Event",
    "Handle",
    "Info",
    "InvalidArguments",
    "Node",
    "NodeData",
    "Normalization",
    "PlacedPod",
    "PreFilter",
    "Status",
    "Verdict",
    "Wait",
    "describe",
    "error",
    "main",
    "serve",
    "services",
    "unresolvable",
    "unschedulable",
]
