package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.trireme.v1.ScoreCopiesRequest;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Score of nodes with copies of the pod on them. */
final class ScoreCopiesTest {
  private static final Info INFO = Info.of("Crowded").dependingOn(Dependency.NODE_PODS);

  /** Scores by the pods that a call adds to the node. */
  record Crowded(Info info) implements Plugin.Score {
    @Override
    public long score(Call call, Node node) {
      return 90 - 20L * call.addedPods().size() - node.name().length();
    }
  }

  @Test
  void scoreIsCalledWithCopiesOfThePod() throws Exception {
    try (Served served = new Served(new Crowded(INFO.withScoreCopies(true)))) {
      ScoreCopiesRequest.Builder request =
          ScoreCopiesRequest.newBuilder().setCycle(Served.cycle()).setNodes(Served.nodes("a", "bb"));
      assertEquals(List.of(69L, 49L, 29L, 68L, 48L, 28L),
          served.call(Rpcs.SCORE_COPIES, request.setCopies(3).build()).getScoresList());
      io.grpc.Status refused = served.error(Rpcs.SCORE_COPIES, request.setCopies(0).build()).getStatus();
      assertEquals(io.grpc.Status.Code.INVALID_ARGUMENT, refused.getCode());
      assertEquals("copies: 0, must be at least 1", refused.getDescription());
    }
  }

  @Test
  void itIsAnnouncedWhereThePodsOfNodesHaveTheCopies() {
    Info follows = INFO.withNodeData(NodeData.SNAPSHOT);
    assertEquals(true, Description.of(new Crowded(follows)).getScoreCopies());
    assertEquals(false, Description.of(new Crowded(follows.withScoreCopies(false))).getScoreCopies());
    assertEquals(false, Description.of(new Crowded(INFO)).getScoreCopies());
    assertEquals(false, Description.of(new Crowded(follows.dependingOn(Dependency.NODE))).getScoreCopies());
  }
}
