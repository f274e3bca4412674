// Also change: internal/trireme/sdk/watched_cluster.py (which names the other languages' files).
// Also change: internal/trireme/sdk/scoring.py (which names the other languages' files).

/** Serves ScorePlugin with a plugin's preScore, score and normalizeScores. */
import { status } from "@grpc/grpc-js";
import { type Call, Node } from "../calls.js";
import { checkArray, checkFields, shown } from "../checks.js";
import { type ClusterState, type PlacedPod, watched } from "../cluster.js";
import { CallError, InvalidResult } from "../errors.js";
import type { ScoreCopiesRequest, ScoreCopiesResponse } from "../generated/trireme/v1/score_copies.js";
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
import { failed, Status, SUCCESS } from "../results.js";

const PRE_SCORE = "nothing, SKIP, a status, or an object of {state}";

/** The implementation of ScorePlugin. */
export function scoreService(invoker: Invoker): ScorePluginServer {
  return {
    preScore: invoker.unary("PreScore", [], (request: PreScoreRequest, turn) => preScore(invoker, request, turn)),
    score: invoker.unary("Score", ["score", "scoreNodes"], (request: ScoreRequest, turn) =>
      score(invoker, request, turn),
    ),
    scoreCopies: invoker.unary("ScoreCopies", ["score", "scoreNodes"], (request: ScoreCopiesRequest, turn) =>
      scoreCopies(invoker, request, turn),
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
  const scores = await scoresOf(invoker, call, invoker.nodesOf(request.nodes));
  return { status: SUCCESS.toMessage(invoker.name), scores };
}

async function scoreCopies(invoker: Invoker, request: ScoreCopiesRequest, turn: Turn): Promise<ScoreCopiesResponse> {
  const call = await invoker.callFor(request.cycle, turn);
  if (request.copies === 0) throw new CallError(status.INVALID_ARGUMENT, "copies: 0, must be at least 1");
  const rows =
    call.cluster === undefined
      ? await rowsByAddedPods(invoker, call, request)
      : await rowsByPodsOfNodes(invoker, call, call.cluster, request);
  if (rows instanceof Status) return { status: rows.toMessage(invoker.name), scores: [] };
  const scores = rows[0]!.flatMap((_, at) => rows.map((row) => row[at]!));
  return { status: SUCCESS.toMessage(invoker.name), scores };
}

/** The scores of all nodes with one copy of the pod in `call.addedPods`, with two, and so on. */
async function rowsByAddedPods(
  invoker: Invoker,
  call: Call<any, any>,
  request: ScoreCopiesRequest,
): Promise<bigint[][]> {
  const nodes = invoker.nodesOf(request.nodes);
  const rows: bigint[][] = [];
  for (let copies = 1; copies <= request.copies; copies++) {
    const addedPods = new Array<typeof call.pod>(copies).fill(call.pod);
    rows.push(await scoresOf(invoker, { ...call, addedPods }, nodes));
  }
  return rows;
}

/**
 * The scores of all nodes with one copy of the pod in `node.pods`, with two, and so on. An error if the score used the
 * cluster, which does not have the copies, and its author has not said that it is right all the same.
 */
async function rowsByPodsOfNodes(
  invoker: Invoker,
  call: Call<any, any>,
  cluster: ClusterState,
  request: ScoreCopiesRequest,
): Promise<bigint[][] | Status> {
  const { cluster: noting, firstUse } = watched(cluster);
  const given = invoker.plugin.info.scoreCopies ? call : { ...call, cluster: noting };
  const bare = invoker.nodesOf(request.nodes);
  const slots = request.nodes?.slots ?? [];
  const pod = cluster.classes.get(request.cycle?.podClass ?? 0);
  const rows: bigint[][] = [];
  for (let copies = 1; copies <= request.copies; copies++) {
    const nodes = bare.map(({ name, message, rawJson, pods }, at) => {
      const added = pod === undefined ? [] : copiesOf(pod, slots[at]!, copies);
      return new Node(name, message, rawJson, [...pods, ...added]);
    });
    rows.push(await scoresOf(invoker, given, nodes));
    const used = firstUse();
    if (used !== undefined) return useOfCluster(invoker, used);
  }
  return rows;
}

// The plugins whose log has it already.
const logged = new WeakSet<Invoker>();

/** The status of a score that used this of the cluster; it is logged once. */
function useOfCluster(invoker: Invoker, used: string): Status {
  const text =
    `ScoreCopies: score used call.cluster.${used}, and call.cluster does not have the copies of the pod, so pods are ` +
    "placed one at a time: set info.scoreCopies to true if the score counts no pods of call.cluster, or to false if it does";
  if (!logged.has(invoker)) {
    logged.add(invoker);
    invoker.log.warn(`plugin ${invoker.name}: ${text}`);
  }
  return failed(text);
}

/** So many pods of a class on a node, each with a made-up name and UID. */
function copiesOf(pod: PlacedPod["pod"], slot: number, copies: number): PlacedPod[] {
  return Array.from({ length: copies }, (_, copy) => {
    const name = `copy-${copy}`;
    return { uid: name, name, pod, slot, startTime: 0, terminating: false };
  });
}

/** What score or scoreNodes returns for the nodes. @throws CallError where it throws, or returns something else. */
async function scoresOf(invoker: Invoker, call: Call<any, any>, nodes: readonly Node[]): Promise<bigint[]> {
  const { plugin } = invoker;
  const method = plugin.scoreNodes === undefined ? "score" : "scoreNodes";
  const scores =
    plugin.scoreNodes === undefined
      ? await invoker.callForEachNode<number | bigint>("score", nodes, (node) => plugin.score!(call, node))
      : await invoker.call("scoreNodes", () => plugin.scoreNodes!(call, nodes));
  return invoker.call(method, () => checkScores(scores, nodes.length));
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
