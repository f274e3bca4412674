/** Serves ScorePlugin with a plugin's preScore, score and normalizeScores. */
import { checkArray, checkFields, shown } from "../checks.js";
import { InvalidResult } from "../errors.js";
import type {
  NormalizeScoreRequest,
  NormalizeScoreResponse,
  PreScoreRequest,
  ScorePluginServer,
  ScoreRequest,
  ScoreResponse,
} from "../generated/trireme/v1/score.js";
import { PreScoreResponse } from "../generated/trireme/v1/score.js";
import type { Invoker, Turn } from "../invoker.js";
import { Status, SUCCESS } from "../results.js";

const PRE_SCORE = "nothing, SKIP, a status, or an object of {state}";

/** The implementation of ScorePlugin. */
export function scoreService(invoker: Invoker): ScorePluginServer {
  return {
    preScore: invoker.unary("PreScore", [], (request: PreScoreRequest, turn) => preScore(invoker, request, turn)),
    score: invoker.unary("Score", ["score", "scoreNodes"], (request: ScoreRequest, turn) =>
      score(invoker, request, turn),
    ),
    normalizeScore: invoker.unary("NormalizeScore", ["normalizeScores"], (request: NormalizeScoreRequest, turn) =>
      normalizeScore(invoker, request, turn),
    ),
  };
}

async function preScore(invoker: Invoker, request: PreScoreRequest, turn: Turn): Promise<PreScoreResponse> {
  const call = await invoker.callFor(request.cycle, turn);
  return invoker.call("preScore", async () => {
    const result = await invoker.plugin.preScore?.(call, invoker.nodesOf(request.nodes));
    if (result === undefined || result instanceof Status) {
      return PreScoreResponse.fromPartial({ status: invoker.statusMessage(result, PRE_SCORE) });
    }
    checkFields(result, { state: "anything" }, PRE_SCORE);
    const state = invoker.encode(result.state);
    return PreScoreResponse.fromPartial({ status: SUCCESS.toMessage(invoker.name), state });
  });
}

async function score(invoker: Invoker, request: ScoreRequest, turn: Turn): Promise<ScoreResponse> {
  const call = await invoker.callFor(request.cycle, turn);
  const nodes = invoker.nodesOf(request.nodes);
  const { plugin } = invoker;
  const method = plugin.scoreNodes === undefined ? "score" : "scoreNodes";
  const scores =
    plugin.scoreNodes === undefined
      ? await invoker.callForEachNode<number | bigint>("score", nodes, (node) => plugin.score!(call, node))
      : await invoker.call("scoreNodes", () => plugin.scoreNodes!(call, nodes));
  return {
    status: SUCCESS.toMessage(invoker.name),
    scores: await invoker.call(method, () => checkScores(scores, nodes.length)),
  };
}

async function normalizeScore(
  invoker: Invoker,
  request: NormalizeScoreRequest,
  turn: Turn,
): Promise<NormalizeScoreResponse> {
  const call = await invoker.callFor(request.cycle, turn);
  const nodes = invoker.nodesOf(request.nodes);
  const raw = request.scores.map(Number);
  const scores = await invoker.call("normalizeScores", async () =>
    checkScores(await invoker.plugin.normalizeScores!(call, nodes, raw), raw.length),
  );
  return { status: SUCCESS.toMessage(invoker.name), scores };
}

/** The scores as 64-bit integers. @throws InvalidResult for another number of scores, or what is no whole number. */
function checkScores(scores: readonly (number | bigint)[], count: number): bigint[] {
  checkArray(scores, count, "scores");
  return scores.map((value, at) => {
    if (typeof value === "bigint") return value;
    if (!Number.isSafeInteger(value)) {
      throw new InvalidResult(`returned ${shown(value)} as score ${at}: must be a whole number`);
    }
    return BigInt(value);
  });
}
