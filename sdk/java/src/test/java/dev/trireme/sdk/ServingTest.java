package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.trireme.v1.ConfigureRequest;
import dev.trireme.v1.Cycle;
import dev.trireme.v1.ExtensionPoint;
import dev.trireme.v1.Fence;
import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.GetPluginInfoRequest;
import dev.trireme.v1.Hint;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodSpec;
import dev.trireme.v1.PreEnqueueRequest;
import dev.trireme.v1.QueueSortRequest;
import dev.trireme.v1.QueueingHintRequest;
import dev.trireme.v1.ReserveRequest;
import dev.trireme.v1.SortKey;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import io.prometheus.metrics.model.snapshots.CounterSnapshot;
import io.prometheus.metrics.model.snapshots.Labels;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

/** What every plugin has by the SDK: handshake, configuration, fencing, cancellation, limits, metrics, a graceful stop. */
final class ServingTest {
  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("trireme-reason", Metadata.ASCII_STRING_MARSHALLER);

  /** Lets every pod pass, but fails for the node "odd". */
  static class Passing implements Plugin.Filter {
    @Override
    public Info info() {
      return Info.of("P").withIdempotence().withMaxConcurrentCalls(3).withVersion("2");
    }

    @Override
    public Verdict filter(Call call, Node node) {
      if (node.name().equals("odd")) {
        throw new IllegalStateException("no such node");
      }
      return Verdict.PASS;
    }
  }

  private static FilterRequest filter(Cycle cycle, String... nodes) {
    return FilterRequest.newBuilder().setCycle(cycle).setCount(1).setNodes(Served.nodes(nodes)).build();
  }

  @Test
  void theHandshakeSaysWhatThePluginNeeds() throws Exception {
    try (Served served = new Served(new Passing())) {
      var info = served.call(Rpcs.GET_PLUGIN_INFO, GetPluginInfoRequest.getDefaultInstance()).getPlugins(0);
      assertTrue(info.getIdempotent());
      assertEquals(3, info.getMaxConcurrentCalls());
      assertEquals("2", info.getVersion());
    }
  }

  /** Cannot work without three features. */
  static final class Demanding extends Passing {
    @Override
    public Info info() {
      return super.info().withRequiredFeatures("one", "two", "three");
    }
  }

  @Test
  void aCallerWithoutARequiredFeatureIsRefused() throws Exception {
    try (Served served = new Served(new Demanding())) {
      StatusRuntimeException refused =
          served.error(Rpcs.GET_PLUGIN_INFO, GetPluginInfoRequest.newBuilder().addFeatures("two").build());
      assertEquals(Code.FAILED_PRECONDITION, refused.getStatus().getCode());
      assertEquals(
          "required_features: the caller does not know one, three; update the scheduler",
          refused.getStatus().getDescription());
      var request = GetPluginInfoRequest.newBuilder().addAllFeatures(List.of("four", "three", "two", "one")).build();
      var info = served.call(Rpcs.GET_PLUGIN_INFO, request).getPlugins(0);
      assertEquals(List.of("one", "two", "three"), info.getRequiredFeaturesList());
    }
  }

  @Test
  void aDeposedLeaderIsRefusedAndAnotherSchedulerIsNot() throws Exception {
    try (Served served = new Served(new Passing())) {
      served.call(Rpcs.FILTER, filter(of("one", 10), "a"));
      StatusRuntimeException refused = served.error(Rpcs.FILTER, filter(of("one", 9), "a"));
      assertEquals(Code.FAILED_PRECONDITION, refused.getStatus().getCode());
      assertEquals("stale-epoch", refused.getTrailers().get(REASON));
      served.call(Rpcs.FILTER, filter(of("two", 1), "a"));
      served.call(Rpcs.FILTER, filter(of("one", 11), "a"));
    }
  }

  private static Cycle of(String scheduler, long epoch) {
    return Served.cycle().toBuilder().setFence(Fence.newBuilder().setSchedulerId(scheduler).setEpoch(epoch)).build();
  }

  @Test
  void anExceptionNamesPluginMethodAndNodeAndTheProcessGoesOn() throws Exception {
    try (Served served = new Served(new Passing())) {
      StatusRuntimeException failed = served.error(Rpcs.FILTER, filter(Served.cycle(), "a", "odd"));
      assertEquals(Code.INTERNAL, failed.getStatus().getCode());
      assertEquals("plugin P: filter for node odd: java.lang.IllegalStateException: no such node",
          failed.getStatus().getDescription());
      assertEquals(1, served.call(Rpcs.FILTER, filter(Served.cycle(), "a")).getColumns().getSize());
    }
  }

  /** Queues pods of its zone. */
  static final class InZone implements Plugin.Configurable, Plugin.PreEnqueue, Plugin.QueueingHint, Plugin.Filter {
    @Override
    public Info info() {
      return Info.of("P").withEvents(Event.of("Node", "Add"));
    }

    @Override
    public Object configure(Configuration configuration) {
      Arguments arguments = new Arguments(configuration.args());
      String zone = arguments.string("zone", "");
      arguments.finish();
      return zone;
    }

    @Override
    public Status preEnqueue(Pod pod, Context context) {
      String zone = context.config(String.class);
      return zone.equals("closed") ? Status.unschedulable(context.profile() + " is closed") : Status.SUCCESS;
    }

    @Override
    public boolean queueingHint(Pod pod, Change change, Context context) {
      return change.newObject().getAsString().equals(context.config(String.class));
    }

    @Override
    public Verdict filter(Call call, Node node) {
      return node.name().startsWith(call.config(String.class)) ? Verdict.PASS : Status.unresolvable("elsewhere");
    }
  }

  private static List<String> configure(Served served, String profile, String args) {
    return served.call(Rpcs.CONFIGURE, ConfigureRequest.newBuilder().setPlugin("P").setConfigHash(9).setProfile(profile)
            .setArgsJson(ByteString.copyFromUtf8(args)).build()).getErrorsList().stream()
        .map(error -> error.getField() + ": " + error.getMessage()).toList();
  }

  @Test
  void eachProfileHasItsConfigurationAlsoInTheQueue() throws Exception {
    try (Served served = new Served(new InZone())) {
      Cycle one = Served.cycle().toBuilder().setConfigHash(9).setProfile("one").build();
      StatusRuntimeException unknown = served.error(Rpcs.FILTER, filter(one, "east-1"));
      assertEquals("config-mismatch", unknown.getTrailers().get(REASON));
      assertEquals(List.of(), configure(served, "one", "{\"zone\": \"east\"}"));
      assertEquals(List.of(), configure(served, "two", "{\"zone\": \"closed\"}"));
      List<String> problems = configure(served, "two", "{\"zone\": 3, \"zones\": []}");
      assertEquals(2, problems.size(), problems::toString);
      assertTrue(problems.stream().allMatch(problem -> problem.startsWith("args.zone")), problems::toString);
      Cycle two = one.toBuilder().setProfile("two").build();
      assertEquals(List.of(0), served.call(Rpcs.FILTER, filter(one, "east-1")).getColumns().getStatusIndexList());
      assertEquals(List.of(1), served.call(Rpcs.FILTER, filter(two, "east-1")).getColumns().getStatusIndexList());
      PreEnqueueRequest enter = PreEnqueueRequest.newBuilder()
          .setProfile("two").setConfigHash(9).addPods(Pod.getDefaultInstance()).build();
      assertEquals("two is closed", served.call(Rpcs.PRE_ENQUEUE, enter).getStatuses(0).getMessages(0));
      QueueingHintRequest hint = QueueingHintRequest.newBuilder().setConfigHash(9)
          .setNewJson(ByteString.copyFromUtf8("\"east\"")).addPods(of("one")).addPods(of("two")).build();
      assertEquals(List.of(Hint.HINT_QUEUE, Hint.HINT_QUEUE_SKIP), served.call(Rpcs.QUEUEING_HINT, hint).getHintsList());
    }
  }

  /** Sorts pods by a rank of its configuration, and by priority. */
  static final class Sorting implements Plugin.Configurable, Plugin.QueueSort {
    @Override
    public Info info() {
      return Info.of("P");
    }

    @Override
    public Object configure(Configuration configuration) {
      return new Arguments(configuration.args()).integer("rank", 0, -1000, 1000);
    }

    @Override
    public SortKey sortKey(Pod pod, Context context) {
      if (pod.getMetadata().getName().equals("odd")) {
        throw new IllegalStateException("no rank");
      }
      SortKey key = SortKey.of(context.config(Number.class).longValue(), Long.MIN_VALUE);
      return pod.getMetadata().getName().equals("plain") ? key : key.thenBy(pod.getSpec().getPriority(), Long.MAX_VALUE);
    }
  }

  @Test
  void keysAreInTheOrderOfThePodsByTheirProfilesConfiguration() throws Exception {
    try (Served served = new Served(new Sorting())) {
      var info = served.call(Rpcs.GET_PLUGIN_INFO, GetPluginInfoRequest.getDefaultInstance()).getPlugins(0);
      assertEquals(List.of(ExtensionPoint.EXTENSION_POINT_QUEUE_SORT), info.getExtensionPointsList());
      configure(served, "one", "{\"rank\": 1}");
      configure(served, "two", "{\"rank\": -2}");
      Pod plain = Pod.newBuilder().setMetadata(ObjectMeta.newBuilder().setName("plain")).build();
      Pod important = Pod.newBuilder().setSpec(PodSpec.newBuilder().setPriority(7)).build();
      QueueSortRequest.Builder request = QueueSortRequest.newBuilder().setConfigHash(9).addPods(important).addPods(plain);
      for (var each : Map.of("one", 1L, "two", -2L).entrySet()) {
        List<SortKey> keys = served.call(Rpcs.QUEUE_SORT, request.setProfile(each.getKey()).build()).getKeysList();
        SortKey level = SortKey.newBuilder().addLevel(each.getValue()).addLevel(Long.MIN_VALUE).build();
        assertEquals(List.of(level.toBuilder().addRest(7).addRest(Long.MAX_VALUE).build(), level), keys);
      }
    }
  }

  @Test
  void aPodWhoseKeyFailsLeavesTheOthersTheirKeys() throws Exception {
    try (Served served = new Served(new Sorting())) {
      configure(served, "one", "{\"rank\": 1}");
      QueueSortRequest.Builder request = QueueSortRequest.newBuilder().setConfigHash(9).setProfile("one");
      for (String name : List.of("plain", "odd", "plain")) {
        request.addPods(Pod.newBuilder().setMetadata(ObjectMeta.newBuilder().setName(name)));
      }
      var answer = served.call(Rpcs.QUEUE_SORT, request.build());
      assertEquals(List.of(2, 0, 2), answer.getKeysList().stream().map(SortKey::getLevelCount).toList());
      assertEquals(
          List.of(dev.trireme.v1.Code.CODE_SUCCESS, dev.trireme.v1.Code.CODE_ERROR, dev.trireme.v1.Code.CODE_SUCCESS),
          answer.getStatusesList().stream().map(dev.trireme.v1.Status::getCode).toList());
      assertEquals(
          "plugin P: sortKey: java.lang.IllegalStateException: no rank", answer.getStatuses(1).getMessages(0));
    }
  }

  private static Pod of(String profile) {
    return Pod.newBuilder().setSpec(PodSpec.newBuilder().setSchedulerName(profile)).build();
  }

  /** Waits in reserve until it is released or its caller has given up. */
  static final class Waiting implements Plugin.Reserve {
    final CountDownLatch entered = new CountDownLatch(1);
    final CountDownLatch release = new CountDownLatch(1);
    final CountDownLatch left = new CountDownLatch(1);
    final AtomicInteger reserved = new AtomicInteger();
    final AtomicInteger calls = new AtomicInteger();

    @Override
    public Info info() {
      return Info.of("P").withMaxConcurrentCalls(1);
    }

    @Override
    public Reservation reserve(Call call, Placement placement) throws InterruptedException {
      assertNotNull(call.context().getDeadline());
      entered.countDown();
      calls.incrementAndGet();
      while (!call.isCancelled() && !release.await(10, TimeUnit.MILLISECONDS)) {
        // looks again
      }
      if (call.isCancelled()) {
        left.countDown();
      } else {
        reserved.incrementAndGet();
      }
      return Reservation.of(Status.SUCCESS);
    }

    @Override
    public void unreserve(Call call, Placement placement) {}
  }

  private static final ReserveRequest RESERVE =
      ReserveRequest.newBuilder().setCycle(Served.cycle()).addPlacements(Served.placement("a")).build();

  @Test
  void aCallEndsWithItsDeadlineAndLeavesItsPlace() throws Exception {
    Waiting plugin = new Waiting();
    try (Served served = new Served(plugin)) {
      StatusRuntimeException late = Assertions.assertThrows(
          StatusRuntimeException.class,
          () -> served.call(Rpcs.RESERVE, RESERVE.toBuilder().addPlacements(Served.placement("b")).build(), 500));
      assertEquals(Code.DEADLINE_EXCEEDED, late.getStatus().getCode());
      assertTrue(plugin.left.await(20, TimeUnit.SECONDS));
      plugin.release.countDown();
      served.call(Rpcs.RESERVE, RESERVE);
      assertEquals(1, plugin.reserved.get());
      // Not for "b": its Unreserve may have come.
      assertEquals(2, plugin.calls.get());
    }
  }

  @Test
  void aStopLetsCallsEndAndTheyAreCounted() throws Exception {
    Waiting plugin = new Waiting();
    PrometheusRegistry registry = new PrometheusRegistry();
    PluginServer server =
        PluginServer.start(plugin, new PluginServer.Options("127.0.0.1:0", null, Set.of(), registry));
    var channel = io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder
        .forTarget(server.address()).usePlaintext().build();
    CompletableFuture<Integer> answer = CompletableFuture.supplyAsync(() -> io.grpc.stub.ClientCalls.blockingUnaryCall(
        channel, Rpcs.RESERVE.method(),
        io.grpc.CallOptions.DEFAULT.withDeadlineAfter(20, TimeUnit.SECONDS), RESERVE).getReservationsCount());
    assertTrue(plugin.entered.await(20, TimeUnit.SECONDS));
    CompletableFuture<Void> closed = CompletableFuture.runAsync(() -> {
      try {
        server.close();
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    });
    assertFalse(closed.isDone());
    plugin.release.countDown();
    assertEquals(1, answer.get(20, TimeUnit.SECONDS));
    closed.get(20, TimeUnit.SECONDS);
    channel.shutdownNow();
    CounterSnapshot calls = (CounterSnapshot) registry.scrape().stream()
        .filter(each -> each.getMetadata().getName().equals("trireme_plugin_calls")).findFirst().orElseThrow();
    assertEquals(1, calls.getDataPoints().size());
    assertEquals(Labels.of("code", "OK", "plugin", "P", "rpc", "Reserve"), calls.getDataPoints().get(0).getLabels());
    assertEquals(1, calls.getDataPoints().get(0).getValue());
  }
}
