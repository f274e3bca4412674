package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.trireme.v1.Code;
import dev.trireme.v1.Cycle;
import dev.trireme.v1.Delta;
import dev.trireme.v1.Fence;
import dev.trireme.v1.Hello;
import dev.trireme.v1.NodeEntry;
import dev.trireme.v1.NodeSelection;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodClass;
import dev.trireme.v1.ScoreCopiesRequest;
import dev.trireme.v1.ScoreCopiesResponse;
import dev.trireme.v1.SyncRequest;
import dev.trireme.v1.SyncResponse;
import io.grpc.CallOptions;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
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

  /** Scores by the pods of the node, which it finds there, or in the cluster. */
  record Crowd(Info info, boolean readsCluster) implements Plugin.Score {
    @Override
    public long score(Call call, Node node) {
      int pods = readsCluster ? call.cluster().podsOn(0).size() : node.pods().size();
      return 100 - 10L * (pods + call.addedPods().size());
    }
  }

  private static final Info FOLLOWS = INFO.withNodeData(NodeData.SNAPSHOT);
  private static final Fence FENCE = Fence.newBuilder().setEpoch(1).setSchedulerId("s").build();

  /** The answer about three copies of a plugin that follows a cluster of one node without pods. */
  private static ScoreCopiesResponse threeCopies(Plugin plugin) throws Exception {
    try (Served served = new Served(plugin)) {
      CompletableFuture<SyncResponse> applied = new CompletableFuture<>();
      StreamObserver<SyncRequest> stream = ClientCalls.asyncBidiStreamingCall(
          served.channel.newCall(Rpcs.SYNC.method(), CallOptions.DEFAULT), completing(applied));
      stream.onNext(SyncRequest.newBuilder().setHello(Hello.newBuilder().setFence(FENCE)).build());
      dev.trireme.v1.Node node =
          dev.trireme.v1.Node.newBuilder().setMetadata(ObjectMeta.newBuilder().setName("n")).build();
      stream.onNext(SyncRequest.newBuilder().setDelta(Delta.newBuilder()
          .setReset(true).setToGeneration(1)
          .addNodes(NodeEntry.newBuilder().setSlot(0).setNode(node))
          .addClasses(PodClass.newBuilder().setId(1).setPod(Pod.getDefaultInstance()))).build());
      applied.get(20, TimeUnit.SECONDS);
      return served.call(Rpcs.SCORE_COPIES, ScoreCopiesRequest.newBuilder()
          .setCycle(Cycle.newBuilder().setFence(FENCE).setGeneration(1).setPodClass(1))
          .setNodes(NodeSelection.newBuilder().addSlots(0)).setCopies(3).build());
    }
  }

  private static StreamObserver<SyncResponse> completing(CompletableFuture<SyncResponse> applied) {
    return new StreamObserver<>() {
      @Override
      public void onNext(SyncResponse response) {
        applied.complete(response);
      }

      @Override
      public void onError(Throwable error) {
        applied.completeExceptionally(error);
      }

      @Override
      public void onCompleted() {}
    };
  }

  @Test
  void copiesAreAmongThePodsOfTheNodeAndNowhereElse() throws Exception {
    assertEquals(List.of(90L, 80L, 70L), threeCopies(new Crowd(FOLLOWS, false)).getScoresList());
  }

  /** The cluster has no copies, so all pods of a batch would pile up on the best node, and nothing would say so. */
  @Test
  void aScoreThatUsesTheClusterAnswersNoCopiesUnlessItsAuthorSaysSo() throws Exception {
    ScoreCopiesResponse answer = threeCopies(new Crowd(FOLLOWS, true));
    assertEquals(Code.CODE_ERROR, answer.getStatus().getCode());
    assertEquals(List.of(), answer.getScoresList());
    assertTrue(answer.getStatus().getMessages(0).contains("set Info.scoreCopies to true"), answer.toString());
    assertEquals(List.of(100L, 100L, 100L), threeCopies(new Crowd(FOLLOWS.withScoreCopies(true), true)).getScoresList());
  }
}
