package dev.trireme.sdk;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.trireme.v1.BindRequest;
import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.NormalizeScoreRequest;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PermitRequest;
import dev.trireme.v1.PostFilterRequest;
import dev.trireme.v1.PreBindRequest;
import dev.trireme.v1.PreFilterRequest;
import dev.trireme.v1.PreScoreRequest;
import dev.trireme.v1.QueueSortRequest;
import dev.trireme.v1.ReserveRequest;
import dev.trireme.v1.ScoreRequest;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a method returned that its extension point does not accept: the message says plugin, RPC, what came, what is expected. */
final class WrongResultsTest {
  /** Returns null, or too few. */
  static final class Wrong
      implements Plugin.PreFilter, Plugin.Filter, Plugin.PostFilter, Plugin.PreScore, Plugin.NormalizeScore,
          Plugin.Reserve, Plugin.Permit, Plugin.PreBind, Plugin.Bind {
    @Override
    public Info info() {
      return Info.of("P");
    }

    @Override
    public PreFilterResult preFilter(Call call) {
      return null;
    }

    @Override
    public Verdict filter(Call call, Node node) {
      return node.name().equals("skipped") ? Status.SKIP : null;
    }

    @Override
    public PostFilterResult postFilter(Call call, NoFit noFit) {
      return PostFilterResult.of(Status.SKIP);
    }

    @Override
    public PreScoreResult preScore(Call call, List<Node> nodes) {
      return new PreScoreResult(null, null);
    }

    @Override
    public long score(Call call, Node node) {
      return 1;
    }

    @Override
    public List<Long> scoreNodes(Call call, List<Node> nodes) {
      return List.of();
    }

    @Override
    public List<Long> normalizeScores(Call call, List<Node> nodes, List<Long> scores) {
      return Arrays.asList(1L, null);
    }

    @Override
    public Reservation reserve(Call call, Placement placement) {
      return null;
    }

    @Override
    public void unreserve(Call call, Placement placement) {}

    @Override
    public PermitResult permit(Call call, BindItem item) {
      return PermitResult.of(Status.SKIP);
    }

    @Override
    public PreBindResult preBind(Call call, BindItem item) {
      return null;
    }

    @Override
    public Status bind(Call call, BindItem item) {
      return null;
    }
  }

  /** One call, and its error after "plugin P: ". */
  record Case(Rpc<?, ?> rpc, Message request, String problem) {}

  static Stream<Case> cases() {
    dev.trireme.v1.BindItem item = Served.item("a", ByteString.EMPTY);
    var two = Served.nodes("a", "b");
    String verdict = ": must be Verdict.PASS, a capacity, or a status that refuses";
    return Stream.of(
        new Case(Rpcs.PRE_FILTER, PreFilterRequest.newBuilder().setCycle(Served.cycle()).build(),
            "PreFilter: preFilter: returned null: must be a PreFilterResult"),
        new Case(Rpcs.FILTER, FilterRequest.newBuilder().setCycle(Served.cycle()).setNodes(two).build(),
            "Filter: filter: returned null" + verdict),
        new Case(Rpcs.FILTER, FilterRequest.newBuilder().setCycle(Served.cycle()).setNodes(Served.nodes("skipped")).build(),
            "Filter: filter: returned a status of CODE_SKIP" + verdict),
        new Case(Rpcs.POST_FILTER, PostFilterRequest.newBuilder().setCycle(Served.cycle()).build(),
            "PostFilter: postFilter: returned Status.SKIP: must be Status.SUCCESS, a refusal or an error"),
        new Case(Rpcs.PRE_SCORE, PreScoreRequest.newBuilder().setCycle(Served.cycle()).build(),
            "PreScore: preScore: returned null: must be Status.SUCCESS, Status.SKIP, a refusal or an error"),
        new Case(Rpcs.SCORE, ScoreRequest.newBuilder().setCycle(Served.cycle()).setNodes(two).build(),
            "Score: scoreNodes: returned 0 scores of 2 nodes"),
        new Case(Rpcs.NORMALIZE_SCORE,
            NormalizeScoreRequest.newBuilder().setCycle(Served.cycle()).setNodes(two).addScores(1).addScores(2).build(),
            "NormalizeScore: normalizeScores: returned null as score 1: must be a whole number"),
        new Case(Rpcs.RESERVE,
            ReserveRequest.newBuilder().setCycle(Served.cycle()).addPlacements(Served.placement("a")).build(),
            "Reserve: reserve: returned null: must be a Reservation"),
        new Case(Rpcs.PERMIT, PermitRequest.newBuilder().setCycle(Served.cycle()).addItems(item).build(),
            "Permit: permit: returned Status.SKIP: must be Status.SUCCESS, a refusal or an error"),
        new Case(Rpcs.PRE_BIND, PreBindRequest.newBuilder().setCycle(Served.cycle()).addItems(item).build(),
            "PreBind: preBind: returned null: must be a PreBindResult"),
        new Case(Rpcs.BIND, BindRequest.newBuilder().setCycle(Served.cycle()).addItems(item).build(),
            "Bind: bind: returned null: must be Status.SUCCESS, Status.SKIP, a refusal or an error"));
  }

  /** Returns the key of its test. */
  record Sorting(SortKey key) implements Plugin.QueueSort {
    @Override
    public Info info() {
      return Info.of("P");
    }

    @Override
    public SortKey sortKey(Pod pod, Context context) {
      return key;
    }
  }

  /** A key, and its error after "plugin P: QueueSort: sortKey: ". */
  record WrongKey(Plugin.SortKey key, String problem) {}

  static Stream<WrongKey> wrongKeys() {
    String level = ": must be 1 to 16 whole numbers";
    String rest = ": must be 0 to 16 whole numbers";
    return Stream.of(
        new WrongKey(null, "returned null: must be a SortKey"),
        new WrongKey(new Plugin.SortKey(null, List.of()), "returned null as level" + level),
        new WrongKey(Plugin.SortKey.of(), "returned a level of 0 numbers" + level),
        new WrongKey(Plugin.SortKey.of(new long[17]), "returned a level of 17 numbers" + level),
        new WrongKey(new Plugin.SortKey(List.of(1L), null), "returned null as rest" + rest),
        new WrongKey(new Plugin.SortKey(List.of(1L), Arrays.asList(1L, null)), "returned null in rest" + rest),
        new WrongKey(Plugin.SortKey.of(1).thenBy(new long[18]), "returned a rest of 18 numbers" + rest));
  }

  @ParameterizedTest
  @MethodSource("wrongKeys")
  void aWrongKeyIsNamedWithWhatIsExpected(WrongKey each) throws Exception {
    try (Served served = new Served(new Sorting(each.key()))) {
      QueueSortRequest request = QueueSortRequest.newBuilder().addPods(Pod.getDefaultInstance()).build();
      var status = served.call(Rpcs.QUEUE_SORT, request).getStatuses(0);
      assertEquals(dev.trireme.v1.Code.CODE_ERROR, status.getCode());
      assertEquals("plugin P: QueueSort: sortKey: " + each.problem(), status.getMessages(0));
    }
  }

  @ParameterizedTest
  @MethodSource("cases")
  void theErrorSaysWhatCameAndWhatIsExpected(Case each) throws Exception {
    try (Served served = new Served(new Wrong())) {
      StatusRuntimeException error = error(served, each.rpc(), each.request());
      assertEquals(Code.INTERNAL, error.getStatus().getCode());
      assertEquals("plugin P: " + each.problem(), error.getStatus().getDescription());
    }
  }

  @SuppressWarnings("unchecked") // each case has the request of its RPC
  private static <I extends Message, O extends Message> StatusRuntimeException error(
      Served served, Rpc<?, ?> rpc, Message request) {
    Rpc<I, O> typed = (Rpc<I, O>) rpc;
    return Assertions.assertThrows(
        StatusRuntimeException.class, () -> served.stream(typed, (I) request).forEachRemaining(answer -> {}));
  }
}
