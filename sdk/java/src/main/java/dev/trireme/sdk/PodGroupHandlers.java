// Also change: internal/trireme/sdk/placing.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Code;
import dev.trireme.v1.ExtensionPoint;
import dev.trireme.v1.PlacementFeasibleRequest;
import dev.trireme.v1.PlacementFeasibleResponse;
import dev.trireme.v1.PlacementStep;
import dev.trireme.v1.PluginInfo;
import dev.trireme.v1.TriedPod;
import java.util.List;
import java.util.Set;

/** Serves PodGroupPlugin with a plugin's placementFeasible. */
final class PodGroupHandlers {
  private static final Set<Code> CODES =
      Set.of(Code.CODE_SUCCESS, Code.CODE_WAIT, Code.CODE_UNSCHEDULABLE, Code.CODE_ERROR);

  private final Invoker invoker;

  PodGroupHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  /** Calls the method for each step, up to the first that ends the trial. */
  PlacementFeasibleResponse placementFeasible(PlacementFeasibleRequest request) throws Exception {
    Plugin.PlacementFeasible plugin = invoker.as(Plugin.PlacementFeasible.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      PlacementFeasibleResponse.Builder out = PlacementFeasibleResponse.newBuilder();
      List<TriedPod> tried = PlacementTrial.triedOf(request);
      for (PlacementStep step : request.getStepsList()) {
        PlacementTrial trial = PlacementTrial.of(request, tried, step);
        Status status = invoker.call("placementFeasible", () -> checked(plugin.placementFeasible(call, trial)));
        out.addStatuses(status.toMessage(invoker.name()));
        if (status.code() != Code.CODE_SUCCESS && status.code() != Code.CODE_WAIT) {
          break;
        }
      }
      return out.build();
    });
  }

  private static Status checked(Status status) {
    if (status == null || !CODES.contains(status.code())) {
      String shown = status == null ? "null" : status.code().name();
      throw new InvalidResult(
          "returned " + shown + ": must be Status.SUCCESS, moreMembers, unschedulable, or failed");
    }
    return status;
  }

  /** A description without the extension points that a caller with these features does not know. */
  static PluginInfo known(PluginInfo info, List<String> features) {
    if (features.contains("placement-feasible")) {
      return info;
    }
    List<ExtensionPoint> points = info.getExtensionPointsList().stream()
        .filter(point -> point != ExtensionPoint.EXTENSION_POINT_PLACEMENT_FEASIBLE).toList();
    return info.toBuilder().clearExtensionPoints().addAllExtensionPoints(points).build();
  }
}
