import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelCredentials, status } from "@grpc/grpc-js";
import { describe } from "../src/description.js";
import { Dependency, failed, NodeData, type Plugin, SKIP, unschedulable, wait } from "../src/index.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, nodes, started } from "./serving.js";

const { preScore, score, scoreCopies, normalizeScore } = v1.ScorePluginService;
const { permit, preBind, preBindPreFlight, postBind } = v1.BindPluginService;

const items = (...names: string[]) =>
  names.map((name) => ({
    pod: { namespace: "n", name, uid: `uid-${name}` },
    nodeName: "a",
    assumed: [],
    state: Buffer.alloc(0),
    outcomeUnknown: false,
  }));

test("scores are sent in the order of the nodes, with preScore's state", async (t) => {
  const plugin: Plugin<undefined, number> = {
    info: { name: "P" },
    preScore: (_, all) => ({ state: all.length }),
    score: async (call, node) => call.state! * node.name.length,
  };
  const { call } = await started(t, plugin);
  const { state } = await call(preScore, { cycle: cycle(), nodes: nodes("a", "bb") });
  const answer = await call(score, { cycle: cycle({ state }), nodes: nodes("a", "bb", "ccc") });
  assert.deepEqual(answer.scores, [2n, 4n, 6n]);
});

test("score is called with copies of the pod on the node", async (t) => {
  const plugin: Plugin = {
    info: { name: "P", dependsOn: Dependency.NODE_PODS, scoreCopies: true },
    score: (call, node) => 90 - 20 * call.addedPods.length - node.name.length,
  };
  const { call } = await started(t, plugin);
  const answer = await call(scoreCopies, { cycle: cycle(), nodes: nodes("a", "bb"), copies: 3 });
  assert.deepEqual(answer.scores, [69n, 49n, 29n, 68n, 48n, 28n]);
  const error = await errorOf(call(scoreCopies, { cycle: cycle(), nodes: nodes("a"), copies: 0 }));
  assert.deepEqual([error.code, error.details], [status.INVALID_ARGUMENT, "copies: 0, must be at least 1"]);
});

test("scoring copies is announced where the pods of nodes have them", () => {
  const info = { name: "P", dependsOn: Dependency.NODE_PODS, nodeData: NodeData.SNAPSHOT };
  const announced = (plugin: Plugin) => describe(plugin).scoreCopies;
  assert.equal(announced({ info, score: () => 1 }), true);
  assert.equal(announced({ info, score: () => 1, normalizeScores: () => [] }), false);
  assert.equal(announced({ info: { ...info, scoreCopies: false }, score: () => 1 }), false);
  assert.equal(announced({ info: { ...info, nodeData: NodeData.NAMES }, score: () => 1 }), false);
  assert.equal(announced({ info: { ...info, scoreCopies: true }, filter: () => undefined }), false);
});

test("own normalisation gets the raw scores", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    scoreNodes: (_, all) => all.map(() => -5n),
    normalizeScores: (_, all, raw) => raw.map((value) => value * all.length),
  };
  const { call } = await started(t, plugin);
  assert.deepEqual((await call(score, { cycle: cycle(), nodes: nodes("a") })).scores, [-5n]);
  const request = { cycle: cycle(), nodes: nodes("a", "b"), scores: [1n, 2n] };
  assert.deepEqual((await call(normalizeScore, request)).scores, [2n, 4n]);
});

test("a score that is no whole number is the plugin's mistake", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, score: () => 0.5 });
  const error = await errorOf(call(score, { cycle: cycle(), nodes: nodes("a") }));
  assert.equal(error.details, "plugin P: Score: score: returned 0.5 as score 0: must be a whole number");
});

test("permit waits with a timeout", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    permit: (_, { pod }) => (pod.name === "w" ? wait(1.5, "waits for a quota") : undefined),
  };
  const { call } = await started(t, plugin);
  const { results } = await call(permit, { cycle: cycle(), items: items("go", "w") });
  assert.equal(results[0].status.code, v1.Code.SUCCESS);
  assert.deepEqual([results[1].status.code, results[1].status.plugin], [v1.Code.WAIT, "P"]);
  assert.deepEqual(results[1].timeout, { seconds: 1n, nanos: 500_000_000 });
});

test("a wait of any length is one that the message can have", async (t) => {
  const waitFor = [{ kind: "persistent_volume_claim", namespace: "n", name: "data" }];
  for (const [timeoutSeconds, seconds, nanos] of [
    [Infinity, 315_576_000_000n, 0],
    [Number.MAX_VALUE, 315_576_000_000n, 0],
    [1.9999999999, 1n, 999_999_999],
    [Number.MIN_VALUE, 0n, 1],
  ] as const) {
    const plugin: Plugin = {
      info: { name: "P" },
      permit: () => wait(timeoutSeconds),
      preBind: () => ({ waitFor, timeoutSeconds }),
    };
    const { call } = await started(t, plugin);
    for (const rpc of [permit, preBind]) {
      const { results } = await call(rpc, { cycle: cycle(), items: items("p") });
      assert.deepEqual(results[0].timeout, { seconds, nanos }, `${timeoutSeconds}`);
    }
  }
  assert.throws(() => wait(NaN), RangeError);
});

test("preBind waits for objects, and has work for every pod unless it says otherwise", async (t) => {
  const key = { kind: "persistent_volume_claim", namespace: "n", name: "data" };
  const plugin: Plugin<undefined, { tries: number }> = {
    info: { name: "P" },
    preBind: (_, item) => {
      const tries = (item.state?.tries ?? 0) + 1;
      return tries < 2 ? { waitFor: [key], timeoutSeconds: 30, state: { tries } } : undefined;
    },
  };
  const { call } = await started(t, plugin);
  const flight = await call(preBindPreFlight, { cycle: cycle(), items: items("p") });
  assert.deepEqual(flight.statuses.map((each: v1.Status) => each.code), [v1.Code.SUCCESS]);
  const first = await call(preBind, { cycle: cycle(), items: items("p") });
  assert.deepEqual([first.results[0].status.code, first.results[0].waitFor], [v1.Code.WAIT, [key]]);
  const again = items("p").map((item) => ({ ...item, state: first.results[0].state }));
  assert.equal((await call(preBind, { cycle: cycle(), items: again })).results[0].status.code, v1.Code.SUCCESS);
});

test("preBindPreFlight leaves out preBind for a pod", async (t) => {
  const plugin: Plugin = { info: { name: "P" }, preBind: () => undefined, preBindPreFlight: () => SKIP };
  const { call } = await started(t, plugin);
  const { statuses } = await call(preBindPreFlight, { cycle: cycle(), items: items("p") });
  assert.equal(statuses[0].code, v1.Code.SKIP);
});

test("bind streams each result, and ends with an error where it throws", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    bind: async (_, { pod }) => {
      if (pod.name === "odd") throw new Error("the registrar is gone");
      return { left: SKIP, refused: unschedulable("taken"), failed: failed("no") }[pod.name];
    },
    postBind: () => undefined,
  };
  const { address, call } = await started(t, plugin);
  const client = new v1.BindPluginClient(address, ChannelCredentials.createInsecure());
  t.after(() => client.close());
  const results: v1.BindResult[] = [];
  const stream = client.bind({ cycle: cycle(), items: items("bound", "left", "refused", "failed", "odd") });
  stream.on("data", (response: v1.BindResponse) => results.push(...response.results));
  const error = await new Promise<any>((resolve) => stream.on("error", resolve));
  assert.deepEqual(
    results.map((each) => [each.index, each.status?.code]),
    [
      [0, v1.Code.SUCCESS],
      [1, v1.Code.SKIP],
      [2, v1.Code.UNSCHEDULABLE],
      [3, v1.Code.ERROR],
    ],
  );
  assert.equal(error.code, status.INTERNAL);
  assert.equal(error.details, "plugin P: bind: Error: the registrar is gone");
  assert.deepEqual(await call(postBind, { cycle: cycle(), items: items("bound") }), {});
});
