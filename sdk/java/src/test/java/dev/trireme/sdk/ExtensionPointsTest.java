package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.trireme.v1.BindRequest;
import dev.trireme.v1.BindResponse;
import dev.trireme.v1.Code;
import dev.trireme.v1.DryRun;
import dev.trireme.v1.FilterDryRunRequest;
import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.NodeColumns;
import dev.trireme.v1.NodeView;
import dev.trireme.v1.NormalizeScoreRequest;
import dev.trireme.v1.ObjectKey;
import dev.trireme.v1.PermitRequest;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PostBindRequest;
import dev.trireme.v1.PostFilterRequest;
import dev.trireme.v1.PreBindPreFlightRequest;
import dev.trireme.v1.PreBindRequest;
import dev.trireme.v1.PreFilterRequest;
import dev.trireme.v1.PreFilterResponse;
import dev.trireme.v1.PreScoreRequest;
import dev.trireme.v1.ReserveRequest;
import dev.trireme.v1.ScoreRequest;
import dev.trireme.v1.UnreserveRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Each extension point over gRPC: what a method returns, and what the scheduler gets. */
final class ExtensionPointsTest {
  /** What preFilter hands to filter. */
  record Prepared(int room) {}

  /** Takes part everywhere; what it does is said by names. */
  static final class Everywhere
      implements Plugin.PreFilter, Plugin.Filter, Plugin.PostFilter, Plugin.PreScore, Plugin.NormalizeScore,
          Plugin.Reserve, Plugin.Permit, Plugin.PreBind, Plugin.Bind, Plugin.PostBind {
    final List<String> notified = Collections.synchronizedList(new ArrayList<>());

    @Override
    public Info info() {
      return Info.of("Everywhere");
    }

    @Override
    public PreFilterResult preFilter(Call call) {
      return PreFilterResult.pass().onlyOn(List.of("a")).withState(new Prepared(7));
    }

    @Override
    public Verdict filter(Call call, Node node) {
      Prepared prepared = call.state(Prepared.class);
      return switch (node.name()) {
        case "bad" -> Status.unresolvable("node(s) were bad").because("bad", "kind", 4);
        case "small" -> new Verdict.Capacity((prepared == null ? 1 : prepared.room()) + call.removedPods().size());
        default -> Verdict.PASS;
      };
    }

    @Override
    public PostFilterResult postFilter(Call call, NoFit noFit) {
      return noFit.columns().getSize() > 0
          ? PostFilterResult.nominate("a", List.of()) : PostFilterResult.of(Status.unschedulable("nothing helps"));
    }

    @Override
    public PreScoreResult preScore(Call call, List<Node> nodes) {
      return new PreScoreResult(Status.SUCCESS, nodes.size());
    }

    @Override
    public long score(Call call, Node node) {
      return node.name().length() * (long) call.state(Integer.class);
    }

    @Override
    public List<Long> normalizeScores(Call call, List<Node> nodes, List<Long> scores) {
      return scores.stream().map(score -> score * 10).toList();
    }

    @Override
    public Reservation reserve(Call call, Placement placement) {
      return placement.pod().getName().equals("late")
          ? Reservation.of(Status.pending("no licence left").because("noLicence", "product", "cad"))
          : new Reservation(Status.SUCCESS, List.of(), placement.pod().getName());
    }

    @Override
    public void unreserve(Call call, Placement placement) {
      notified.add("-" + placement.pod().getName());
    }

    @Override
    public PermitResult permit(Call call, BindItem item) {
      return switch (item.pod().getName()) {
        case "waiting" -> PermitResult.waiting(Duration.ofMillis(1500), "for quota");
        case "patient" -> PermitResult.waiting(Duration.ofSeconds(Long.MAX_VALUE), "");
        case "refused" -> PermitResult.of(Status.unschedulable("no quota"));
        default -> PermitResult.of(Status.SUCCESS);
      };
    }

    @Override
    public Status preBindPreFlight(Call call, BindItem item) {
      return item.pod().getName().equals("idle") ? Status.SKIP : Status.SUCCESS;
    }

    @Override
    public PreBindResult preBind(Call call, BindItem item) {
      return "claim".equals(item.state(String.class))
          ? PreBindResult.waiting(List.of(ObjectKey.newBuilder().setName("claim").build()), Duration.ofSeconds(30), "")
          : PreBindResult.of(Status.SUCCESS);
    }

    @Override
    public Status bind(Call call, BindItem item) {
      return item.pod().getName().equals("foreign") ? Status.SKIP : Status.SUCCESS;
    }

    @Override
    public void postBind(Call call, BindItem item) {
      notified.add("bound " + item.pod().getName());
    }
  }

  private final Everywhere plugin = new Everywhere();
  private Served served;

  @BeforeEach
  void serve() throws Exception {
    served = new Served(plugin);
  }

  @AfterEach
  void stop() throws Exception {
    served.close();
  }

  @Test
  void preFilterNarrowsAndItsStateComesBackToFilter() {
    PreFilterResponse prepared =
        served.call(Rpcs.PRE_FILTER, PreFilterRequest.newBuilder().setCycle(Served.cycle()).build());
    assertTrue(prepared.getNarrowed());
    assertEquals(List.of("a"), prepared.getNodeNamesList());
    NodeColumns columns = served.call(Rpcs.FILTER, FilterRequest.newBuilder()
        .setCycle(Served.cycle(prepared.getState())).setCount(9)
        .setNodes(Served.nodes("a", "bad", "small", "bad")).build()).getColumns();
    assertEquals(List.of(0, 1, 0, 1), columns.getStatusIndexList());
    assertEquals(List.of(Integer.MAX_VALUE, 0, 7, 0), columns.getCapacityList());
    assertEquals(1, columns.getStatusesCount());
    dev.trireme.v1.Status bad = columns.getStatuses(0);
    assertEquals(Code.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, bad.getCode());
    assertEquals("Everywhere", bad.getPlugin());
    assertEquals("4", bad.getReasons(0).getParametersOrThrow("kind"));
    assertEquals(3, columns.getGeneration());
  }

  @Test
  void dryRunsHaveThePodsThatGoAndPostFilterMakesRoom() {
    DryRun run = DryRun.newBuilder()
        .setNode(NodeView.newBuilder().setName("small")).addRemovedPods(Pod.getDefaultInstance()).build();
    assertEquals(List.of(2), served.call(Rpcs.FILTER_DRY_RUN, FilterDryRunRequest.newBuilder()
        .setCycle(Served.cycle()).addRuns(run).build()).getColumns().getCapacityList());
    PostFilterRequest.Builder request = PostFilterRequest.newBuilder().setCycle(Served.cycle());
    assertEquals(Code.CODE_UNSCHEDULABLE, served.call(Rpcs.POST_FILTER, request.build()).getStatus().getCode());
    request.setColumns(NodeColumns.newBuilder().setSize(1));
    assertEquals("a", served.call(Rpcs.POST_FILTER, request.build()).getNominatedNode());
  }

  @Test
  void scoresArePreparedGivenAndNormalised() {
    ByteString state = served.call(Rpcs.PRE_SCORE, PreScoreRequest.newBuilder()
        .setCycle(Served.cycle()).setNodes(Served.nodes("a", "bb")).build()).getState();
    List<Long> scores = served.call(Rpcs.SCORE, ScoreRequest.newBuilder()
        .setCycle(Served.cycle(state)).setNodes(Served.nodes("a", "bb")).build()).getScoresList();
    assertEquals(List.of(2L, 4L), scores);
    assertEquals(List.of(20L, 40L), served.call(Rpcs.NORMALIZE_SCORE, NormalizeScoreRequest.newBuilder()
        .setCycle(Served.cycle()).setNodes(Served.nodes("a", "bb")).addAllScores(scores).build()).getScoresList());
  }

  @Test
  void reserveAnswersForEachPlacementAndUnreserveGetsEach() {
    var reservations = served.call(Rpcs.RESERVE, ReserveRequest.newBuilder().setCycle(Served.cycle())
        .addPlacements(Served.placement("one")).addPlacements(Served.placement("late")).build()).getReservationsList();
    assertEquals("\"one\"", reservations.get(0).getState().toStringUtf8());
    assertEquals(Code.CODE_PENDING, reservations.get(1).getStatus().getCode());
    assertEquals("cad", reservations.get(1).getStatus().getReasons(0).getParametersOrThrow("product"));
    served.call(Rpcs.UNRESERVE, UnreserveRequest.newBuilder().setCycle(Served.cycle())
        .addPlacements(Served.placement("late")).addPlacements(Served.placement("one")).build());
    assertEquals(List.of("-late", "-one"), plugin.notified);
  }

  @Test
  void bindingWaitsSkipsAndStreamsItsResults() {
    var permitted = served.call(Rpcs.PERMIT, PermitRequest.newBuilder().setCycle(Served.cycle())
        .addItems(Served.item("a", ByteString.EMPTY)).addItems(Served.item("waiting", ByteString.EMPTY))
        .addItems(Served.item("refused", ByteString.EMPTY))
        .addItems(Served.item("patient", ByteString.EMPTY)).build()).getResultsList();
    assertEquals(List.of(Code.CODE_SUCCESS, Code.CODE_WAIT, Code.CODE_UNSCHEDULABLE, Code.CODE_WAIT),
        permitted.stream().map(result -> result.getStatus().getCode()).toList());
    assertEquals(500_000_000, permitted.get(1).getTimeout().getNanos());
    assertEquals(315_576_000_000L, permitted.get(3).getTimeout().getSeconds());
    assertEquals(Code.CODE_SKIP, served.call(Rpcs.PRE_BIND_PRE_FLIGHT, PreBindPreFlightRequest.newBuilder()
        .setCycle(Served.cycle()).addItems(Served.item("idle", ByteString.EMPTY)).build()).getStatuses(0).getCode());
    var prepared = served.call(Rpcs.PRE_BIND, PreBindRequest.newBuilder().setCycle(Served.cycle())
        .addItems(Served.item("a", ByteString.copyFromUtf8("\"claim\""))).build()).getResults(0);
    assertEquals("claim", prepared.getWaitFor(0).getName());
    List<Code> bound = new ArrayList<>();
    served.stream(Rpcs.BIND, BindRequest.newBuilder().setCycle(Served.cycle())
            .addItems(Served.item("a", ByteString.EMPTY)).addItems(Served.item("foreign", ByteString.EMPTY)).build())
        .forEachRemaining((BindResponse each) -> bound.add(each.getResults(0).getStatus().getCode()));
    assertEquals(List.of(Code.CODE_SUCCESS, Code.CODE_SKIP), bound);
    served.call(Rpcs.POST_BIND, PostBindRequest.newBuilder().setCycle(Served.cycle())
        .addItems(Served.item("a", ByteString.EMPTY)).build());
    assertEquals(List.of("bound a"), plugin.notified);
  }
}
