package dev.trireme.sdk;

import dev.trireme.v1.NormalizeScoreRequest;
import dev.trireme.v1.NormalizeScoreResponse;
import dev.trireme.v1.PreScoreRequest;
import dev.trireme.v1.PreScoreResponse;
import dev.trireme.v1.ScoreRequest;
import dev.trireme.v1.ScoreResponse;
import java.util.List;

/** Serves ScorePlugin with a plugin's preScore, score and normalizeScores. */
final class ScoreHandlers {
  private final Invoker invoker;

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
