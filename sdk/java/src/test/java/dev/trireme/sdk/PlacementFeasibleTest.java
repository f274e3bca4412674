package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.trireme.v1.Code;
import dev.trireme.v1.CompositePodGroup;
import dev.trireme.v1.ExtensionPoint;
import dev.trireme.v1.GetPluginInfoRequest;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.PlacementFeasibleRequest;
import dev.trireme.v1.PlacementStep;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodGroup;
import dev.trireme.v1.PodSpec;
import dev.trireme.v1.TriedPod;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** A plugin that decides where groups of pods may be. */
final class PlacementFeasibleTest {
  private static final ObjectMeta GANG = ObjectMeta.newBuilder().setNamespace("shop").setName("gang").build();

  /** Answers by the trial, and takes it down. */
  record Placing(Function<PlacementTrial, Status> answer, List<PlacementTrial> seen) implements Plugin.PlacementFeasible {
    @Override
    public Info info() {
      return Info.of("P");
    }

    @Override
    public Status placementFeasible(Call call, PlacementTrial trial) {
      seen.add(trial);
      return answer.apply(trial);
    }
  }

  private static final Pod FIRST = Pod.newBuilder().setSpec(PodSpec.newBuilder().setSchedulerName("x")).build();
  private static final Pod OTHER = Pod.newBuilder().setSpec(PodSpec.newBuilder().setSchedulerName("y")).build();

  private static TriedPod.Builder tried(Pod fields, String name, String node) {
    Pod pod = fields.toBuilder().setMetadata(ObjectMeta.newBuilder().setName(name)).build();
    return TriedPod.newBuilder().setPod(pod).setNodeName(node);
  }

  /** A gang of two whose first pod has a node, at these steps. */
  private static PlacementFeasibleRequest.Builder request(int... steps) {
    PlacementFeasibleRequest.Builder out = PlacementFeasibleRequest.newBuilder()
        .setCycle(Served.cycle()).setPodGroup(PodGroup.newBuilder().setMetadata(GANG)).setMinCount(2)
        .setPlacement("rack-a").addNodeNames("a").addNodeNames("b")
        .addPodFields(FIRST).addPodFields(OTHER)
        .addTried(tried(Pod.getDefaultInstance(), "w0", "a"))
        .addTried(tried(Pod.getDefaultInstance(), "w1", "").setFields(1));
    for (int step : steps) {
      out.addSteps(PlacementStep.newBuilder()
          .setTried(step).setRemaining(2 - step).setScheduled(Math.min(step, 1)).setUnschedulable(step / 2));
    }
    return out;
  }

  @Test
  void eachStepHasTheGroupThePlacementAndThePodsTriedByThen() throws Exception {
    List<PlacementTrial> seen = new ArrayList<>();
    Function<PlacementTrial, Status> answer =
        trial -> trial.remaining() > 0 ? Status.moreMembers("one more") : Status.SUCCESS;
    try (Served served = new Served(new Placing(answer, seen))) {
      List<dev.trireme.v1.Status> statuses =
          served.call(Rpcs.PLACEMENT_FEASIBLE, request(1, 2).build()).getStatusesList();
      assertEquals(List.of(Code.CODE_WAIT, Code.CODE_SUCCESS),
          statuses.stream().map(dev.trireme.v1.Status::getCode).toList());
      assertEquals(List.of("one more"), statuses.get(0).getMessagesList());
      assertEquals("P", statuses.get(0).getPlugin());
      served.call(Rpcs.PLACEMENT_FEASIBLE,
          request(0).setCompositePodGroup(CompositePodGroup.newBuilder().setMetadata(GANG)).build());
    }
    PlacementTrial last = seen.get(1);
    assertEquals("gang", last.podGroup().getMetadata().getName());
    assertNull(last.compositePodGroup());
    assertEquals(List.of(2, 0, 1, 1),
        List.of(last.minCount(), last.remaining(), last.scheduled(), last.unschedulable()));
    assertEquals("rack-a", last.placement());
    assertEquals(List.of("a", "b"), last.nodeNames());
    TriedPod first = tried(FIRST, "w0", "a").build();
    assertEquals(List.of(List.of(first), List.of(first, tried(OTHER, "w1", "").build()), List.of()),
        seen.stream().map(PlacementTrial::tried).toList());
    assertNull(seen.get(2).podGroup());
    assertEquals("gang", seen.get(2).compositePodGroup().getMetadata().getName());
  }

  @Test
  void theFirstRefusalOrErrorIsTheLastStatus() throws Exception {
    for (Status status : List.of(Status.unschedulable("no licence"), Status.failed("down"))) {
      List<PlacementTrial> seen = new ArrayList<>();
      try (Served served = new Served(new Placing(trial -> status, seen))) {
        List<dev.trireme.v1.Status> statuses =
            served.call(Rpcs.PLACEMENT_FEASIBLE, request(0, 1, 2).build()).getStatusesList();
        assertEquals(List.of(status.code()), statuses.stream().map(dev.trireme.v1.Status::getCode).toList());
        assertEquals(1, seen.size());
      }
    }
  }

  @Test
  void anotherResultIsThePluginsMistake() throws Exception {
    List<Status> results = new ArrayList<>(List.of(Status.pending("x"), Status.SKIP));
    results.add(null);
    for (Status result : results) {
      try (Served served = new Served(new Placing(trial -> result, new ArrayList<>()))) {
        String text = served.error(Rpcs.PLACEMENT_FEASIBLE, request(0).build()).getStatus().getDescription();
        assertTrue(text.startsWith("plugin P: PlacementFeasible: placementFeasible: returned "), text);
        assertTrue(text.endsWith(": must be Status.SUCCESS, moreMembers, unschedulable, or failed"), text);
      }
    }
  }

  @Test
  void thePointIsLeftOutForASchedulerThatDoesNotKnowIt() throws Exception {
    try (Served served = new Served(new Placing(trial -> Status.SUCCESS, new ArrayList<>()))) {
      GetPluginInfoRequest.Builder request = GetPluginInfoRequest.newBuilder();
      assertEquals(List.of(),
          served.call(Rpcs.GET_PLUGIN_INFO, request.build()).getPlugins(0).getExtensionPointsList());
      assertEquals(List.of(ExtensionPoint.EXTENSION_POINT_PLACEMENT_FEASIBLE),
          served.call(Rpcs.GET_PLUGIN_INFO, request.addFeatures("placement-feasible").build())
              .getPlugins(0).getExtensionPointsList());
    }
  }
}
