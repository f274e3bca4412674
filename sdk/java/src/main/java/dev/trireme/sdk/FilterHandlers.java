// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.DryRun;
import dev.trireme.v1.FilterDryRunRequest;
import dev.trireme.v1.FilterDryRunResponse;
import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.FilterResponse;
import dev.trireme.v1.NodeColumns;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PostFilterRequest;
import dev.trireme.v1.PostFilterResponse;
import dev.trireme.v1.PreFilterRequest;
import dev.trireme.v1.PreFilterResponse;
import dev.trireme.v1.Reservation;
import dev.trireme.v1.ReserveRequest;
import dev.trireme.v1.ReserveResponse;
import dev.trireme.v1.UnreserveRequest;
import dev.trireme.v1.UnreserveResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Serves FilterPlugin with a plugin's preFilter, filter, postFilter, reserve and unreserve. */
final class FilterHandlers {
  private final Invoker invoker;

  FilterHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  PreFilterResponse preFilter(PreFilterRequest request) throws Exception {
    return invoker.withCall(request.getCycle(), 1, call -> {
      if (!(invoker.plugin() instanceof Plugin.PreFilter plugin)) {
        return PreFilterResponse.newBuilder().setStatus(Status.SUCCESS.toMessage(invoker.name())).build();
      }
      return invoker.call("preFilter", () -> {
        Plugin.PreFilterResult result = Invoker.required(plugin.preFilter(call), "a PreFilterResult");
        PreFilterResponse.Builder out = PreFilterResponse.newBuilder()
            .setStatus(invoker.statusMessage(result.status(), Invoker.SKIP)).setState(invoker.encode(result.state()));
        if (result.nodes() != null) {
          out.setNarrowed(true).addAllNodeNames(result.nodes());
        }
        return out.build();
      });
    });
  }

  FilterResponse filter(FilterRequest request) throws Exception {
    Plugin.Filter plugin = invoker.as(Plugin.Filter.class);
    return invoker.withCall(request.getCycle(), request.getCount(), call -> {
      List<Verdict> verdicts = verdicts(plugin, call, invoker.nodesOf(request.getNodes()));
      return FilterResponse.newBuilder()
          .setColumns(pack(verdicts, request.getCycle().getGeneration())).build();
    });
  }

  FilterDryRunResponse filterDryRun(FilterDryRunRequest request) throws Exception {
    Plugin.Filter plugin = invoker.as(Plugin.Filter.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      List<Verdict> verdicts = new ArrayList<>();
      for (DryRun run : request.getRunsList()) {
        verdicts.addAll(dryRun(plugin, call, run));
      }
      return FilterDryRunResponse.newBuilder()
          .setColumns(pack(verdicts, request.getCycle().getGeneration())).build();
    });
  }

  PostFilterResponse postFilter(PostFilterRequest request) throws Exception {
    Plugin.PostFilter plugin = invoker.as(Plugin.PostFilter.class);
    Plugin.NoFit noFit = new Plugin.NoFit(request.getColumns(), request.getPreFilter());
    return invoker.withCall(request.getCycle(), 1, call -> invoker.call("postFilter", () -> {
      Plugin.PostFilterResult result = Invoker.required(plugin.postFilter(call, noFit), "a PostFilterResult");
      PostFilterResponse.Builder out = PostFilterResponse.newBuilder()
          .setStatus(invoker.statusMessage(result.status(), ""))
          .addAllActions(result.actions())
          .setNominatedNode(result.nominatedNode())
          .setClearNomination(result.clearNomination());
      if (result.disruption() != null) {
        out.setDisruption(result.disruption());
      }
      return out.build();
    }));
  }

  ReserveResponse reserve(ReserveRequest request) throws Exception {
    Plugin.Reserve plugin = invoker.as(Plugin.Reserve.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      ReserveResponse.Builder out = ReserveResponse.newBuilder();
      for (dev.trireme.v1.Placement placement : request.getPlacementsList()) {
        if (call.isCancelled()) {
          // Its Unreserve may have come: nothing more may be taken.
          throw Refusals.of(io.grpc.Status.CANCELLED, "the caller has given up");
        }
        out.addReservations(invoker.call("reserve", () -> message(plugin.reserve(call, placement(placement)))));
      }
      return out.build();
    });
  }

  UnreserveResponse unreserve(UnreserveRequest request) throws Exception {
    return invoker.withCall(request.getCycle(), 1, call -> {
      if (invoker.plugin() instanceof Plugin.Reserve plugin) {
        for (dev.trireme.v1.Placement placement : request.getPlacementsList()) {
          invoker.call("unreserve", () -> {
            plugin.unreserve(call, placement(placement));
            return null;
          });
        }
      }
      return UnreserveResponse.getDefaultInstance();
    });
  }

  private Reservation message(Plugin.Reservation result) {
    return Reservation.newBuilder()
        .setStatus(invoker.statusMessage(Invoker.required(result, "a Reservation").status(), ""))
        .addAllAssumed(result.assumed())
        .setState(invoker.encode(result.state()))
        .build();
  }

  private static Plugin.Placement placement(dev.trireme.v1.Placement message) {
    return new Plugin.Placement(message.getPod(), message.getNodeName(), message.getSlot());
  }

  private List<Verdict> verdicts(Plugin.Filter plugin, Call call, List<Node> nodes) {
    return invoker.call("filterNodes", () -> {
      List<Verdict> verdicts = Invoker.required(plugin.filterNodes(call, nodes), "a list of verdicts, one a node");
      if (verdicts.size() != nodes.size()) {
        throw new InvalidResult("returned " + verdicts.size() + " verdicts of " + nodes.size() + " nodes");
      }
      return verdicts;
    });
  }

  private NodeColumns pack(List<Verdict> verdicts, long generation) {
    return invoker.call("filter", () -> Columns.pack(invoker.name(), verdicts, generation));
  }

  /** The verdict of a dry run. Pods that are gone by now are left out; the host sees that the cluster changed. */
  private List<Verdict> dryRun(Plugin.Filter plugin, Call call, DryRun run) {
    ClusterState cluster = call.cluster();
    if (cluster == null) {
      Call dryRun = call.asDryRun(run.getRemovedPodsList(), run.getAddedPodsList());
      return verdicts(plugin, dryRun, List.of(Node.of(run.getNode())));
    }
    List<Pod> removed = run.getRemovedRowsList().stream()
        .map(cluster::pod).filter(Objects::nonNull).map(PlacedPod::pod).toList();
    List<Pod> added = run.getAddedClassesList().stream()
        .map(cluster.classes()::get).filter(Objects::nonNull).toList();
    return verdicts(plugin, call.asDryRun(removed, added), List.of(Node.at(run.getSlot(), cluster)));
  }
}
