// Also change: internal/trireme/sdk/watched_cluster.py (which names the other languages' files).
// Also change: internal/trireme/sdk/scoring.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.NormalizeScoreRequest;
import dev.trireme.v1.NormalizeScoreResponse;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PreScoreRequest;
import dev.trireme.v1.PreScoreResponse;
import dev.trireme.v1.ScoreCopiesRequest;
import dev.trireme.v1.ScoreCopiesResponse;
import dev.trireme.v1.ScoreRequest;
import dev.trireme.v1.ScoreResponse;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** Serves ScorePlugin with a plugin's preScore, score and normalizeScores. */
final class ScoreHandlers {
  private final Invoker invoker;
  private final AtomicBoolean useLogged = new AtomicBoolean();

  ScoreHandlers(Invoker invoker) {
    this.invoker = invoker;
  }

  PreScoreResponse preScore(PreScoreRequest request) throws Exception {
    return invoker.withCall(request.getCycle(), 1, call -> {
      if (!(invoker.plugin() instanceof Plugin.PreScore plugin)) {
        return PreScoreResponse.newBuilder().setStatus(Status.SUCCESS.toMessage(invoker.name())).build();
      }
      return invoker.call("preScore", () -> {
        Plugin.PreScoreResult result =
            Invoker.required(plugin.preScore(call, invoker.nodesOf(request.getNodes())), "a PreScoreResult");
        return PreScoreResponse.newBuilder()
            .setStatus(invoker.statusMessage(result.status(), Invoker.SKIP)).setState(invoker.encode(result.state())).build();
      });
    });
  }

  ScoreResponse score(ScoreRequest request) throws Exception {
    Plugin.Score plugin = invoker.as(Plugin.Score.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      List<Node> nodes = invoker.nodesOf(request.getNodes());
      List<Long> scores = invoker.call("scoreNodes", () -> check(plugin.scoreNodes(call, nodes), nodes.size()));
      return ScoreResponse.newBuilder()
          .setStatus(Status.SUCCESS.toMessage(invoker.name())).addAllScores(scores).build();
    });
  }

  ScoreCopiesResponse scoreCopies(ScoreCopiesRequest request) throws Exception {
    Plugin.Score plugin = invoker.as(Plugin.Score.class);
    if (request.getCopies() == 0) {
      throw Refusals.of(io.grpc.Status.INVALID_ARGUMENT, "copies: 0, must be at least 1");
    }
    ClusterState cluster = invoker.follower == null ? null : invoker.follower.cluster();
    return invoker.withCall(request.getCycle(), 1, call -> {
      List<Node> bare = invoker.nodesOf(request.getNodes());
      List<List<Long>> rows = new ArrayList<>();
      for (int copies = 1; copies <= request.getCopies(); copies++) {
        Call withCopies = cluster == null ? call.asDryRun(List.of(), Collections.nCopies(copies, call.pod())) : call;
        List<Node> nodes = cluster == null ? bare : withCopies(bare, request, cluster, copies);
        rows.add(invoker.call("scoreNodes", () -> check(plugin.scoreNodes(withCopies, nodes), nodes.size())));
        if (cluster != null && call.clusterUsed() && !Boolean.TRUE.equals(invoker.plugin().info().scoreCopies())) {
          return ScoreCopiesResponse.newBuilder().setStatus(useOfCluster().toMessage(invoker.name())).build();
        }
      }
      ScoreCopiesResponse.Builder out =
          ScoreCopiesResponse.newBuilder().setStatus(Status.SUCCESS.toMessage(invoker.name()));
      for (int at = 0; at < bare.size(); at++) {
        for (List<Long> row : rows) {
          out.addScores(row.get(at));
        }
      }
      return out.build();
    });
  }

  /** The status of a score with copies that got the cluster, which does not have them; it is logged once. */
  private Status useOfCluster() {
    String text = "ScoreCopies: score called Call.cluster(), which does not have the copies of the pod, so pods are placed one"
        + " at a time: set Info.scoreCopies to true if the score counts no pods of the cluster, or to false if it does";
    if (useLogged.compareAndSet(false, true)) {
      Log.warn("plugin " + invoker.name() + ": " + text);
    }
    return Status.failed(text);
  }

  /** The nodes with so many more pods of the class on each, which have made-up names and UIDs. */
  private static List<Node> withCopies(List<Node> bare, ScoreCopiesRequest request, ClusterState cluster, int copies) {
    Pod pod = cluster.classes().get(request.getCycle().getPodClass());
    if (pod == null) {
      return bare;
    }
    List<Node> out = new ArrayList<>();
    for (int at = 0; at < bare.size(); at++) {
      Node node = bare.get(at);
      List<PlacedPod> pods = new ArrayList<>(node.pods());
      for (int copy = 0; copy < copies; copy++) {
        String name = "copy-" + copy;
        pods.add(new PlacedPod(name, name, pod, request.getNodes().getSlots(at), 0, false));
      }
      out.add(new Node(node.name(), node.message(), node.rawJson(), pods));
    }
    return out;
  }

  NormalizeScoreResponse normalizeScore(NormalizeScoreRequest request) throws Exception {
    Plugin.NormalizeScore plugin = invoker.as(Plugin.NormalizeScore.class);
    return invoker.withCall(request.getCycle(), 1, call -> {
      List<Node> nodes = invoker.nodesOf(request.getNodes());
      List<Long> scores = invoker.call("normalizeScores", () ->
          check(plugin.normalizeScores(call, nodes, request.getScoresList()), request.getScoresCount()));
      return NormalizeScoreResponse.newBuilder()
          .setStatus(Status.SUCCESS.toMessage(invoker.name())).addAllScores(scores).build();
    });
  }

  private static List<Long> check(List<Long> scores, int count) {
    if (Invoker.required(scores, "a list of scores, one a node").size() != count) {
      throw new InvalidResult("returned " + scores.size() + " scores of " + count + " nodes");
    }
    int missing = scores.indexOf(null);
    if (missing >= 0) {
      throw new InvalidResult("returned null as score " + missing + ": must be a whole number");
    }
    return scores;
  }
}
