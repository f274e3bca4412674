import assert from "node:assert/strict";
import { test } from "node:test";
import { Metadata, status } from "@grpc/grpc-js";
import { type Plugin, SKIP, unresolvable, unschedulable } from "../src/index.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, nodes, started } from "./serving.js";

const { filter, filterDryRun, preFilter, reserve, unreserve, postFilter } = v1.FilterPluginService;

test("verdicts become columns with each status once", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    filter: (_, node) => {
      if (node.name.startsWith("bad")) return unresolvable("node(s) were bad", "bad", { kind: node.name.slice(4) });
      return node.name === "small" ? 2 : undefined;
    },
  };
  const { call } = await started(t, plugin);
  const request = { cycle: cycle(), count: 5, nodes: nodes("a", "bad-x", "small", "bad-y", "bad-x") };
  const { columns } = await call(filter, request);
  assert.deepEqual(columns.statusIndex, [0, 1, 0, 2, 1]);
  assert.deepEqual(columns.capacity, [2 ** 31 - 1, 0, 2, 0, 0]);
  assert.equal(columns.size, 5);
  assert.equal(columns.generation, 3n);
  const [first] = columns.statuses;
  assert.equal(columns.statuses.length, 2);
  assert.deepEqual(
    [first.code, first.plugin, first.messages, first.reasons],
    [v1.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "P", ["node(s) were bad"], [{ code: "bad", parameters: { kind: "x" } }]],
  );
});

test("filterNodes answers about all nodes at once, and its length is checked", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    filterNodes: async (call, all) => (call.profile === "short" ? [] : all.map(() => undefined)),
  };
  const { call } = await started(t, plugin);
  const good = await call(filter, { cycle: cycle(), count: 0, nodes: nodes("a", "b") });
  assert.equal(good.columns.size, 2);
  const error = await errorOf(call(filter, { cycle: cycle({ profile: "short" }), count: 1, nodes: nodes("a") }));
  assert.equal(error.code, status.INTERNAL);
  assert.match(error.details, /plugin P: Filter: filterNodes: returned 0 verdicts of 1 nodes/);
});

test("an exception of a method names plugin, method and node, and the server goes on", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    filter: (_, node) => {
      if (node.name === "odd") throw new TypeError("no such thing");
    },
  };
  const { call } = await started(t, plugin);
  const error = await errorOf(call(filter, { cycle: cycle(), count: 1, nodes: nodes("a", "odd") }));
  assert.equal(error.code, status.INTERNAL);
  assert.equal(error.details, "plugin P: filter for node odd: TypeError: no such thing");
  assert.equal((await call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") })).columns.size, 1);
});

for (const [verdict, shown] of [
  [0, "0"],
  [-1, "-1"],
  [1.5, "1.5"],
  ["no", "'no'"],
  [SKIP, "SKIP"],
] as const) {
  test(`a verdict of ${shown} is reported as the plugin's mistake`, async (t) => {
    const { call } = await started(t, { info: { name: "P" }, filter: () => verdict as never });
    const error = await errorOf(call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") }));
    assert.equal(error.code, status.INTERNAL);
    assert.match(error.details, new RegExp(`plugin P: Filter: filter: returned ${shown}: must be`));
  });
}

test("dry runs call filter with the pods that are removed and added", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    filter: (call) => (call.removedPods.length > call.addedPods.length ? undefined : unschedulable("full")),
  };
  const { call } = await started(t, plugin);
  const pod = v1.Pod.create();
  const node = { name: "a", node: undefined, json: Buffer.alloc(0) };
  const base = { node, slot: 0, removedRows: [], addedClasses: [] };
  const runs = [
    { ...base, removedPods: [pod], addedPods: [] },
    { ...base, removedPods: [], addedPods: [pod] },
  ];
  const { columns } = await call(filterDryRun, { cycle: cycle(), runs });
  assert.deepEqual(columns.statusIndex, [0, 1]);
});

test("preFilter's state comes back to filter as a value", async (t) => {
  const seen: unknown[] = [];
  const plugin: Plugin<undefined, { zone: string }> = {
    info: { name: "P" },
    preFilter: () => ({ nodes: ["a"], state: { zone: "west" } }),
    filter: (call) => {
      seen.push(call.state);
    },
  };
  const { call } = await started(t, plugin);
  const prepared = await call(preFilter, { cycle: cycle() });
  assert.deepEqual([prepared.narrowed, prepared.nodeNames, prepared.status.code], [true, ["a"], v1.Code.SUCCESS]);
  await call(filter, { cycle: cycle({ state: prepared.state }), count: 1, nodes: nodes("a") });
  assert.deepEqual(seen, [{ zone: "west" }]);
});

test("state of another codec is the author's", async (t) => {
  const seen: unknown[] = [];
  const plugin: Plugin<undefined, bigint> = {
    info: { name: "P" },
    stateCodec: { encode: (value) => Buffer.from(value.toString(36)), decode: (bytes) => BigInt(bytes.length) },
    preFilter: () => ({ state: 36n }),
    filter: (call) => void seen.push(call.state),
  };
  const { call } = await started(t, plugin);
  const { state } = await call(preFilter, { cycle: cycle() });
  assert.equal(Buffer.from(state).toString(), "10");
  await call(filter, { cycle: cycle({ state }), count: 1, nodes: nodes("a") });
  assert.deepEqual(seen, [2n]);
});

test("preFilter may skip filter, and a plugin without it lets every pod pass", async (t) => {
  const one = await started(t, { info: { name: "P" }, preFilter: () => SKIP, filter: () => undefined });
  assert.equal((await one.call(preFilter, { cycle: cycle() })).status.code, v1.Code.SKIP);
  const other = await started(t, { info: { name: "P" }, filter: () => undefined });
  assert.equal((await other.call(preFilter, { cycle: cycle() })).status.code, v1.Code.SUCCESS);
});

test("reserve answers for each placement in order, unreserve is called for each", async (t) => {
  const calls: string[] = [];
  const plugin: Plugin<undefined, string> = {
    info: { name: "P" },
    reserve: (_, { pod, nodeName }) => {
      calls.push(`+${pod.name}@${nodeName}`);
      if (pod.name === "two") return unschedulable("no licence left");
      return { state: `for ${pod.name}` };
    },
    unreserve: async (_, { pod }) => void calls.push(`-${pod.name}`),
  };
  const { call } = await started(t, plugin);
  const placement = (name: string) => ({ pod: { namespace: "n", name, uid: name }, nodeName: "a", slot: 0 });
  const placements = [placement("one"), placement("two")];
  const { reservations } = await call(reserve, { cycle: cycle(), placements });
  const codes = reservations.map((each: v1.Reservation) => each.status?.code);
  assert.deepEqual(codes, [v1.Code.SUCCESS, v1.Code.UNSCHEDULABLE]);
  assert.equal(Buffer.from(reservations[0].state).toString(), '"for one"');
  await call(unreserve, { cycle: cycle(), placements: placements.reverse() });
  assert.deepEqual(calls, ["+one@a", "+two@a", "-two", "-one"]);
});

test("reserve is not called for further placements once the caller has given up", async (t) => {
  const calls: string[] = [];
  const plugin: Plugin = {
    info: { name: "P", maxConcurrentCalls: 1 },
    reserve: async (call, { pod }) => {
      calls.push(pod.name);
      if (pod.name === "one") await new Promise((resolve) => call.signal.addEventListener("abort", resolve));
    },
    unreserve: () => {},
  };
  const { call } = await started(t, plugin);
  const placement = (name: string) => ({ pod: { namespace: "n", name, uid: name }, nodeName: "a", slot: 0 });
  const placements = [placement("one"), placement("two")];
  await errorOf(call(reserve, { cycle: cycle(), placements }, 200));
  // Its turn comes when the call above has ended.
  await call(unreserve, { cycle: cycle(), placements });
  assert.deepEqual(calls, ["one"]);
});

test("postFilter returns actions and a nomination", async (t) => {
  const pod = { namespace: "n", name: "victim", uid: "u" };
  const plugin: Plugin = {
    info: { name: "P" },
    postFilter: (_, noFit) => {
      if (noFit.columns === undefined) return unschedulable("nothing helps");
      const evict = { message: "made room", observedGeneration: 0n, preemptor: pod, nodeName: "a" };
      return { actions: [{ pod, action: { $case: "evict", value: evict } }], nominatedNode: "a" };
    },
  };
  const { call } = await started(t, plugin);
  const refused = await call(postFilter, { cycle: cycle() });
  assert.deepEqual([refused.status.code, refused.actions], [v1.Code.UNSCHEDULABLE, []]);
  const columns = v1.NodeColumns.fromPartial({ size: 1 });
  const found = await call(postFilter, { cycle: cycle(), columns });
  assert.deepEqual([found.status.code, found.nominatedNode], [v1.Code.SUCCESS, "a"]);
  assert.equal(found.actions[0].action.value.message, "made room");
});

test("a call has the trace of its caller", async (t) => {
  const plugin: Plugin = { info: { name: "P" }, filter: (call) => unschedulable(`trace ${call.traceParent}`) };
  const { call } = await started(t, plugin);
  const request = { cycle: cycle(), count: 1, nodes: nodes("a") };
  const headers = new Metadata();
  headers.set("traceparent", "00-0a-0b-01");
  assert.deepEqual((await call(filter, request)).columns.statuses[0].messages, ["trace undefined"]);
  const traced = await call(filter, request, undefined, headers);
  assert.deepEqual(traced.columns.statuses[0].messages, ["trace 00-0a-0b-01"]);
});
