import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelCredentials, status } from "@grpc/grpc-js";
import { type Plugin, SKIP, Status, wait } from "../src/index.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, nodes, started } from "./serving.js";

const { preFilter, filter, postFilter, reserve } = v1.FilterPluginService;
const { preScore, score, normalizeScore } = v1.ScorePluginService;
const { permit, preBind, preBindPreFlight } = v1.BindPluginService;
const { preEnqueue, queueSort, queueingHint } = v1.QueueServiceService;

const pod = { namespace: "n", name: "a", uid: "u" };
const items = [{ pod, nodeName: "a", assumed: [], state: Buffer.alloc(0), outcomeUnknown: false }];
const placements = [{ pod, nodeName: "a", slot: 0 }];
const hinted = { plugin: "P", oldJson: Buffer.alloc(0), newJson: Buffer.alloc(0), pods: [v1.Pod.create()], configHash: 1n };
const one = nodes("a");

const NOTHING = "nothing or a status";
const PRE_FILTER = "nothing, SKIP, a status, or an object of {nodes, state}";
const POST_FILTER = "nothing, a status, or an object of {actions, nominatedNode, clearNomination, disruption}";
const SORT_KEY = "a whole number of 64 bits, an array of 1 to 16 such, or an object of {level, rest} of these";
const sorted = { profile: "p", configHash: 1n, pods: [v1.Pod.create()] };
const RESERVE = "nothing, a status, or an object of {assumed, state}";
const PRE_SCORE = "nothing, SKIP, a status, or an object of {state}";
const PERMIT = "nothing, a status, or wait(seconds)";
const PRE_BIND = "nothing, SKIP, a status, or an object of {waitFor, timeoutSeconds, message, state}";

// For each method: how it is called, what it returns wrongly, and what the caller reads after "plugin P: ".
const WRONG: [string, any, object, unknown, string][] = [
  ["preEnqueue", preEnqueue, { profile: "p", configHash: 1n, pods: [v1.Pod.create()] }, false, `returned false: must be ${NOTHING}`],
  ["preEnqueue", preEnqueue, { profile: "p", configHash: 1n, pods: [v1.Pod.create()] }, SKIP, `returned SKIP: must be ${NOTHING}`],
  ["sortKey", queueSort, sorted, undefined, `returned undefined: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, null, `returned null: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, "high", `returned 'high': must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, 1.5, `returned 1.5: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, 2 ** 53, `returned 9007199254740992: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, 1n << 63n, `returned 9223372036854775808n: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, [], `returned []: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, new Array(17).fill(0), `returned [ 0, 0, 0, ... 14 more items ]: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, { rest: 1 }, `returned { rest: 1 }: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, { level: 1, rest: true }, `returned { level: 1, rest: true }: must be ${SORT_KEY}`],
  ["sortKey", queueSort, sorted, { level: 1, order: 1 }, `returned an object with the field order: must be ${SORT_KEY}`],
  ["queueingHint", queueingHint, hinted, undefined, "returned undefined: must be true or false"],
  ["preFilter", preFilter, { cycle: cycle() }, true, `returned true: must be ${PRE_FILTER}`],
  ["preFilter", preFilter, { cycle: cycle() }, ["a"], `returned [ 'a' ]: must be ${PRE_FILTER}`],
  ["preFilter", preFilter, { cycle: cycle() }, { node: ["a"] }, `returned an object with the field node: must be ${PRE_FILTER}`],
  ["preFilter", preFilter, { cycle: cycle() }, { nodes: "a" }, "returned 'a' as nodes: must be an array of strings"],
  ["filter", filter, { cycle: cycle(), count: 1, nodes: one }, null, "returned null: must be nothing, a whole number above 0, or a status"],
  ["filterNodes", filter, { cycle: cycle(), count: 1, nodes: one }, 3, "returned 3: must be an array of verdicts, one a node"],
  ["postFilter", postFilter, { cycle: cycle() }, "a", `returned 'a': must be ${POST_FILTER}`],
  ["postFilter", postFilter, { cycle: cycle() }, { nominatedNode: 1 }, "returned 1 as nominatedNode: must be a string"],
  ["reserve", reserve, { cycle: cycle(), placements }, 3, `returned 3: must be ${RESERVE}`],
  ["reserve", reserve, { cycle: cycle(), placements }, SKIP, `returned SKIP: must be ${RESERVE}`],
  ["reserve", reserve, { cycle: cycle(), placements }, { sate: 1 }, `returned an object with the field sate: must be ${RESERVE}`],
  ["preScore", preScore, { cycle: cycle(), nodes: one }, 3, `returned 3: must be ${PRE_SCORE}`],
  ["score", score, { cycle: cycle(), nodes: one }, "9", "returned '9' as score 0: must be a whole number"],
  ["scoreNodes", score, { cycle: cycle(), nodes: one }, 9, "returned 9: must be an array of scores, one a node"],
  ["normalizeScores", normalizeScore, { cycle: cycle(), nodes: one, scores: [1n] }, undefined, "returned undefined: must be an array of scores, one a node"],
  ["permit", permit, { cycle: cycle(), items }, 30, `returned 30: must be ${PERMIT}`],
  ["permit", permit, { cycle: cycle(), items }, new Status(v1.Code.WAIT), `returned a status of Code.WAIT: must be ${PERMIT}`],
  ["preBindPreFlight", preBindPreFlight, { cycle: cycle(), items }, true, "returned true: must be nothing, SKIP, or a status"],
  ["preBind", preBind, { cycle: cycle(), items }, 5, `returned 5: must be ${PRE_BIND}`],
  ["preBind", preBind, { cycle: cycle(), items }, { waitFor: [], timeoutSeconds: "5" }, "returned '5' as timeoutSeconds: must be a number"],
];

// Whose methods' names are not those of the RPCs.
const RPCS: Record<string, string> = {
  sortKey: "QueueSort",
  filterNodes: "Filter",
  scoreNodes: "Score",
  normalizeScores: "NormalizeScore",
};
// What a plugin with the method needs beside it.
const BESIDE: Record<string, object> = {
  queueingHint: { filter: () => undefined },
  normalizeScores: { score: () => 1 },
  preBindPreFlight: { preBind: () => undefined },
};

for (const [method, rpc, request, result, problem] of WRONG) {
  test(`${method}: ${problem.replace(/: must.*/, "")} is reported with RPC and what is expected`, async (t) => {
    const info = { name: "P", ...(method === "queueingHint" ? { events: [{ resource: "Node", actions: ["Add"] }] } : {}) };
    const plugin = { info, ...BESIDE[method], [method]: () => result } as unknown as Plugin;
    const { call } = await started(t, plugin);
    if (method === "sortKey") {
      // The error is that of the pod, not of the call.
      const [one] = (await call(rpc, request)).statuses;
      assert.deepEqual([one.code, one.messages], [v1.Code.ERROR, [`plugin P: QueueSort: sortKey: ${problem}`]]);
      return;
    }
    const error = await errorOf(call(rpc, request));
    const name = RPCS[method] ?? method[0]!.toUpperCase() + method.slice(1);
    assert.deepEqual([error.code, error.details], [status.INTERNAL, `plugin P: ${name}: ${method}: ${problem}`]);
  });
}

test("bind's wrong result ends the stream with its error", async (t) => {
  const plugin = { info: { name: "P" }, bind: () => wait(3) } as unknown as Plugin;
  const { address } = await started(t, plugin);
  const client = new v1.BindPluginClient(address, ChannelCredentials.createInsecure());
  t.after(() => client.close());
  const stream = client.bind({ cycle: cycle(), items });
  stream.on("data", () => assert.fail("a result"));
  const error = await new Promise<{ details: string }>((resolve) => stream.on("error", resolve as never));
  assert.match(error.details, /^plugin P: Bind: bind: returned Wait .*: must be nothing, SKIP, or a status$/);
});
