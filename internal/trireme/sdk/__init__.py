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

That is a complete plugin: `python maintenance.py --listen 127.0.0.1:9000` serves it, with health and reflection. A
profile enables it by name, the scheduler's configuration has its address, and the scheduler calls it by the same RPCs
as a plugin in any other language.

The extension points are methods with the framework's names; implement those you need; any may be `async`:

    configure(configuration)            checks the profile's arguments; its result is `call.config` in later calls
    pre_enqueue(pod, profile)           None lets the pod into the queue, a status keeps it out
    sort_key(pod, profile)              a number, a tuple of numbers, or a `SortKey`: the least is tried first
    queueing_hint(pod, event, old, new) True or False: whether the event may help the pod that this plugin refused
    pre_filter(call)                    None, a status, `SKIP`, or a `PreFilter` that narrows the nodes or keeps state
    filter(call, node)                  None: passes; a number: passes, so many copies fit; a status: refused
    filter_nodes(call, nodes)           the same for many nodes at once, instead of filter
    post_filter(call, columns)          None, a status, or a `filter_pb2.PostFilterResponse` with actions
    pre_score(call, nodes)              None, `SKIP`, a status that is an error, or a `PreScore` with state for score
    score(call, node)                   a whole number
    score_nodes(call, nodes)            the same for many nodes at once, instead of score
    normalize_scores(call, nodes, raw)  0 to 100 for each node (without it: as `Info.normalization` says)
    reserve(call, placement)            None, a status, or a `Reservation`
    unreserve(call, placement)          nothing
    permit(call, item)                  None, a status, or a `Wait`
    pre_bind_pre_flight(call, item)     None: pre_bind has work for the pod; `SKIP`: it has none
    pre_bind(call, item)                None, `SKIP`, a status, or a `PreBindWait`
    bind(call, item)                    None: bound; `SKIP`: left to the next binder; a status
    post_bind(call, item)               nothing
    placement_feasible(call, trial)     None: the group fits in the placement; `more_members`: it does if more of it
                                        fits; `unschedulable`: it will not fit there; an error

`pre_enqueue`, `sort_key` and `queueing_hint` may have one more parameter, `config`: what `configure` returned for the
profile.
State is bytes, or anything that JSON has, dataclasses included, and is read as a value of its type:

    def pre_filter(self, call: sdk.Call) -> sdk.PreFilter:
        return sdk.PreFilter(state=Wanted(zone="west"))

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        wanted = call.read_state(Wanted)

With `NodeData.SNAPSHOT` the plugin follows the cluster as the scheduler's own phases do: `node.message` and `node.pods`
are the node and its pods, bound or assumed, and `call.cluster` has everything else. A call waits until the plugin's
state is as new as the scheduler's. Methods must not modify that state.

A score that depends on `Dependency.NODE_PODS` changes on the node that a pod is placed on. So that pods of a class are
placed in batches all the same, `score` is also called for nodes as if copies of the pod were there: with SNAPSHOT they
are in `node.pods` and not in `call.cluster`. A score that looks at `node.pods` alone needs nothing; where it uses
`call.cluster`, pods are placed one at a time, unless `Info.score_copies` says that it counts no pods there. With other
forms of nodes see `Info.score_copies`.

`Info` declares what results depend on, which decides how often the plugin is called: with `Dependency.NODE` once per
node and class of pods. If a method raises, or returns what its step does not accept, the
caller gets an error that names plugin, RPC and method, and applies the plugin's failure policy to the pod. `async`
methods are cancelled when the caller gives up, at `call.deadline` at the latest. The SDK
enforces `max_concurrent_calls`: further calls wait. A method that is not `async` blocks the process while it runs, so
methods that wait for something should be `async`.

Also change: sdk/go/doc.go, sdk/rust/src/lib.rs, sdk/typescript/src/index.ts (the first example).
"""

from trireme.sdk.calls import Call, Node, read_state
from trireme.sdk.cluster_state import ClusterState, PlacedPod
from trireme.sdk.configuring import Configuration, InvalidArguments
from trireme.sdk.description import Event, Info, describe
from trireme.sdk.handle import Handle, HandleTls
from trireme.sdk.placing import PlacementTrial, TriedPod
from trireme.sdk.plugin_server import main, serve, services
from trireme.sdk.results import (
    SKIP,
    PreBindWait,
    PreFilter,
    PreScore,
    Reservation,
    SortKey,
    Status,
    Verdict,
    Wait,
    error,
    more_members,
    pending,
    unresolvable,
    unschedulable,
)
from trireme.sdk.values import Dependency, NodeData, Normalization

__all__ = [
    "SKIP",
    "Call",
    "ClusterState",
    "Configuration",
    "Dependency",
    "Event",
    "Handle",
    "HandleTls",
    "Info",
    "InvalidArguments",
    "Node",
    "NodeData",
    "Normalization",
    "PlacedPod",
    "PlacementTrial",
    "PreBindWait",
    "PreFilter",
    "PreScore",
    "Reservation",
    "SortKey",
    "Status",
    "TriedPod",
    "Verdict",
    "Wait",
    "describe",
    "error",
    "main",
    "more_members",
    "pending",
    "read_state",
    "serve",
    "services",
    "unresolvable",
    "unschedulable",
]
