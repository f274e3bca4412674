import assert from "node:assert/strict";
import { test } from "node:test";
import { ChannelCredentials, Server, ServerCredentials, status } from "@grpc/grpc-js";
import {
  ArgumentReader,
  CallError,
  describe,
  Handle,
  makeLogger,
  Metrics,
  type Plugin,
  serve,
  silentLogger,
  type SortKey,
  type SortNumbers,
  unschedulable,
} from "../src/index.js";
import { serveMetrics } from "../src/metrics.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, nodes, started } from "./serving.js";

const { filter } = v1.FilterPluginService;
const { configure, getPluginInfo } = v1.PluginServiceService;
const { preEnqueue, queueSort, queueingHint } = v1.QueueServiceService;

const configuration = (argsJson: string, configHash = 9n) => ({
  plugin: "P",
  configHash,
  profile: "default-scheduler",
  argsJson: Buffer.from(argsJson),
  featureGates: {},
});

test("the handshake describes the plugin, with the version of the moment", async (t) => {
  let version = "1";
  const plugin: Plugin = {
    get info() {
      return { name: "P", version, events: [{ resource: "Node", actions: ["Add"] }], idempotent: true };
    },
    filter: () => undefined,
    queueingHint: () => true,
  };
  const { call } = await started(t, plugin);
  const first = await call(getPluginInfo, { features: [] });
  version = "2";
  const second = await call(getPluginInfo, { features: [] });
  assert.deepEqual([first.plugins[0].version, second.plugins[0].version], ["1", "2"]);
  assert.equal(first.instance, second.instance);
  const [info] = first.plugins;
  assert.deepEqual(info.extensionPoints, [v1.ExtensionPoint.FILTER]);
  assert.equal(info.idempotent, true);
  assert.deepEqual(info.eventsToRegister, [{ resource: "Node", actions: ["Add"], hint: true }]);
});

test("a caller without a required feature is refused", async (t) => {
  const requiredFeatures = ["one", "two", "three"];
  const { call } = await started(t, { info: { name: "P", requiredFeatures }, filter: () => undefined });
  const error = await errorOf(call(getPluginInfo, { features: ["two"] }));
  assert.equal(error.code, status.FAILED_PRECONDITION);
  assert.equal(error.details, "required_features: the caller does not know one, three; update the scheduler");
  const answer = await call(getPluginInfo, { features: ["four", "three", "two", "one"] });
  assert.deepEqual(answer.plugins[0].requiredFeatures, requiredFeatures);
});

for (const [problem, plugin] of [
  [/has no method of an extension point/, { info: { name: "P" } }],
  [/info.name: must not be empty/, { info: { name: "" }, filter: () => undefined }],
  [/has both filter and filterNodes/, { info: { name: "P" }, filter: () => undefined, filterNodes: () => [] }],
  [/info.podFields: metadata.uid/, { info: { name: "P", podFields: ["metadata.uid"] }, filter: () => undefined }],
  [/info.events: no event can help/, { info: { name: "P", events: [{ resource: "Node", actions: ["Add"] }] }, score: () => 1 }],
  [/info.normalization: is for plugins with score/, { info: { name: "P", normalization: 2 }, filter: () => undefined }],
  [/--listen: nowhere is neither/, { info: { name: "P" }, filter: () => undefined, listen: "nowhere" }],
] as [RegExp, Plugin & { listen?: string }][]) {
  test(`a plugin is not served with the mistake ${problem.source}`, async () => {
    await assert.rejects(serve(plugin, { log: silentLogger, listen: plugin.listen ?? "127.0.0.1:0" }), problem);
  });
}

test("arguments are checked, and reach the calls of their configuration", async (t) => {
  const plugin: Plugin<{ most: number }> = {
    info: { name: "P" },
    configure: ({ args }) => {
      const reader = new ArgumentReader(args);
      const most = reader.number("most", 3, { min: 1, integer: true });
      const zone = reader.section("zone");
      zone.string("name", "");
      zone.rejectUnknown();
      reader.finish();
      return { most };
    },
    filter: (call) => call.config.most,
  };
  const { call } = await started(t, plugin);
  const wrong = await call(configure, configuration('{"most": 0, "other": 1, "zone": {"name": 7, "x": 1}}'));
  assert.deepEqual(wrong.errors, [
    { field: "args.most", message: "must be a whole number of at least 1" },
    { field: "args.zone.name", message: "must be a text" },
    { field: "args.zone.x", message: "unknown field" },
    { field: "args.other", message: "unknown field" },
  ]);
  assert.deepEqual((await call(configure, configuration("[]"))).errors, [{ field: "args", message: "must be an object" }]);
  const unknown = await errorOf(call(filter, { cycle: cycle({ configHash: 9n }), count: 1, nodes: nodes("a") }));
  assert.deepEqual([unknown.code, unknown.metadata.get("trireme-reason")], [status.FAILED_PRECONDITION, ["config-mismatch"]]);
  await call(configure, configuration('{"most": 7}'));
  await call(configure, configuration("{}", 10n));
  for (const [configHash, most] of [[9n, 7], [10n, 3]] as const) {
    const { columns } = await call(filter, { cycle: cycle({ configHash }), count: 1, nodes: nodes("a") });
    assert.deepEqual(columns.capacity, [most]);
  }
});

test("arguments that are no JSON are an invalid argument, not a crash", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, configure: () => undefined, filter: () => undefined });
  assert.equal((await errorOf(call(configure, configuration("{")))).code, status.INVALID_ARGUMENT);
});

test("a leader that was deposed is refused, another scheduler is not", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, filter: () => undefined });
  const of = (schedulerId: string, epoch: bigint) => {
    const fence = v1.Fence.fromPartial({ schedulerId, epoch });
    return call(filter, { cycle: cycle({ fence }), count: 1, nodes: nodes("a") });
  };
  await of("one", 10n);
  const error = await errorOf(of("one", 9n));
  assert.deepEqual([error.code, error.metadata.get("trireme-reason")], [status.FAILED_PRECONDITION, ["stale-epoch"]]);
  await of("two", 1n);
  await of("one", 11n);
});

test("hints and preEnqueue get the objects and pods", async (t) => {
  const plugin: Plugin = {
    info: { name: "P", events: [{ resource: "Node", actions: ["Add"] }] },
    preEnqueue: (pod) => (pod.metadata?.name === "held" ? unschedulable("held") : undefined),
    queueingHint: (pod, change) => change.newObject.metadata.name === pod.metadata?.namespace,
    filter: () => undefined,
  };
  const { call } = await started(t, plugin);
  const pod = (metadata: object) => v1.Pod.fromPartial({ metadata });
  const entered = await call(preEnqueue, { profile: "p", configHash: 1n, pods: [pod({ name: "a" }), pod({ name: "held" })] });
  assert.deepEqual(entered.statuses.map((each: v1.Status) => each.code), [v1.Code.SUCCESS, v1.Code.UNSCHEDULABLE]);
  const answer = await call(queueingHint, {
    plugin: "P",
    event: { resource: "Node", actions: ["Add"], hint: true },
    oldJson: Buffer.alloc(0),
    newJson: Buffer.from('{"metadata": {"name": "west"}}'),
    pods: [pod({ namespace: "east" }), pod({ namespace: "west" })],
    configHash: 1n,
  });
  assert.deepEqual(answer.hints, [v1.Hint.QUEUE_SKIP, v1.Hint.QUEUE]);
});

test("keys are in the order of the pods, each by its profile's configuration", async (t) => {
  const keys: Record<string, SortNumbers | SortKey> = {
    one: 3,
    large: [-(1n << 63n), (1n << 63n) - 1n],
    parts: { level: [1, 2n], rest: new Array(16).fill(7) },
  };
  const plugin: Plugin<{ first: number }> = {
    info: { name: "P" },
    configure: ({ args }) => args as { first: number },
    sortKey: async (pod, { config }) => keys[pod.metadata!.name] ?? config.first,
  };
  const { call } = await started(t, plugin);
  assert.deepEqual(describe(plugin).extensionPoints, [v1.ExtensionPoint.QUEUE_SORT]);
  await call(configure, { ...configuration('{"first": 5}'), profile: "one" });
  await call(configure, { ...configuration('{"first": 6}'), profile: "two" });
  const sorted = async (profile: string, ...names: string[]) => {
    const pods = names.map((name) => v1.Pod.fromPartial({ metadata: { name } }));
    const answer = await call(queueSort, { profile, configHash: 9n, pods });
    assert.deepEqual(answer.statuses, []);
    return answer.keys.map((key: v1.SortKey) => [key.level, key.rest]);
  };
  assert.deepEqual(await sorted("one", "parts", "one", "large"), [
    [[1n, 2n], new Array(16).fill(7n)],
    [[3n], []],
    [[-(1n << 63n), (1n << 63n) - 1n], []],
  ]);
  assert.deepEqual([await sorted("one", "x"), await sorted("two", "x")], [[[[5n], []]], [[[6n], []]]]);
});

test("a pod whose key fails leaves the others their keys", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    sortKey: async (pod) => {
      if (pod.metadata!.name === "odd") throw new Error("no rank");
      return 7;
    },
  };
  const { call } = await started(t, plugin);
  const pods = ["a", "odd", "b"].map((name) => v1.Pod.fromPartial({ metadata: { name } }));
  const { keys, statuses } = await call(queueSort, { profile: "p", configHash: 0n, pods });
  assert.deepEqual([keys[0].level, keys[1].level, keys[2].level], [[7n], [], [7n]]);
  assert.deepEqual(statuses.map((each: v1.Status) => each.code), [v1.Code.SUCCESS, v1.Code.ERROR, v1.Code.SUCCESS]);
  assert.match(statuses[1].messages[0], /^plugin P: .*sortKey.*no rank/);
});

test("a hint has the configuration of the pod's profile", async (t) => {
  const plugin: Plugin<{ zone: string }> = {
    info: { name: "P", events: [{ resource: "Node", actions: ["Add"] }] },
    configure: ({ args }) => args as { zone: string },
    queueingHint: (_, change, { config, profile }) => change.newObject.zone === `${config.zone} of ${profile}`,
    filter: () => undefined,
  };
  const { call } = await started(t, plugin);
  await call(configure, { ...configuration('{"zone": "east"}'), profile: "one" });
  await call(configure, { ...configuration('{"zone": "west"}'), profile: "two" });
  const hints = async (zone: string, ...profiles: string[]) => {
    const pods = profiles.map((schedulerName) => v1.Pod.fromPartial({ spec: { schedulerName } }));
    const event = { resource: "Node", actions: ["Add"], hint: true };
    const newJson = Buffer.from(JSON.stringify({ zone }));
    const request = { plugin: "P", event, oldJson: Buffer.alloc(0), newJson, pods, configHash: 9n };
    return (await call(queueingHint, request)).hints;
  };
  assert.deepEqual(await hints("east of one", "one", "two"), [v1.Hint.QUEUE, v1.Hint.QUEUE_SKIP]);
  assert.deepEqual(await hints("west of two", "one", "two"), [v1.Hint.QUEUE_SKIP, v1.Hint.QUEUE]);
  // A scheduler of the first release does not say the profile.
  assert.deepEqual(await hints("east of ", ""), [v1.Hint.QUEUE]);
});

test("a step that the plugin does not have is unimplemented", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, preFilter: () => undefined });
  const error = await errorOf(call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") }));
  assert.deepEqual([error.code, error.details], [status.UNIMPLEMENTED, "plugin P has no filter"]);
  assert.equal((await errorOf(call(v1.ScorePluginService.score, { cycle: cycle() }))).code, status.UNIMPLEMENTED);
});

test("further calls wait beyond the limit, and one that its caller gave up leaves its place", async (t) => {
  let running = 0;
  let most = 0;
  const releases: (() => void)[] = [];
  const plugin: Plugin = {
    info: { name: "P", maxConcurrentCalls: 1 },
    filter: async (call) => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => {
        releases.push(resolve);
        call.signal.addEventListener("abort", () => resolve());
      });
      running--;
    },
  };
  const { call } = await started(t, plugin);
  const request = { cycle: cycle(), count: 1, nodes: nodes("a") };
  const given = errorOf(call(filter, request, 100));
  const second = call(filter, request);
  assert.equal((await given).code, status.DEADLINE_EXCEEDED);
  while (releases.length < 2) await new Promise((resolve) => setImmediate(resolve));
  releases.forEach((release) => release());
  await second;
  assert.equal(most, 1);
});

test("a call has the deadline of its caller", async (t) => {
  let left = 0;
  const plugin: Plugin = {
    info: { name: "P" },
    filter: (call) => {
      left = call.deadline!.getTime() - Date.now();
    },
  };
  const { call } = await started(t, plugin);
  await call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") }, 60_000);
  assert.ok(left > 30_000 && left <= 60_000, `${left} ms`);
});

test("an error that the author chose is the status of the call", async (t) => {
  const plugin: Plugin = {
    info: { name: "P" },
    filter: () => {
      throw new CallError(status.UNAVAILABLE, "the index is loading");
    },
  };
  const { call } = await started(t, plugin);
  const error = await errorOf(call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") }));
  assert.deepEqual([error.code, error.details], [status.UNAVAILABLE, "the index is loading"]);
});

test("metrics count calls by RPC and code", async (t) => {
  const metrics = new Metrics("P");
  const { call } = await started(t, { info: { name: "P" }, filter: () => undefined }, { metrics });
  await call(filter, { cycle: cycle(), count: 1, nodes: nodes("a") });
  await errorOf(call(v1.FilterPluginService.reserve, { cycle: cycle(), placements: [] }));
  const { server, address } = await serveMetrics(metrics, "127.0.0.1:0");
  t.after(() => server.close());
  const response = await fetch(`http://${address}/metrics`);
  const text = await response.text();
  assert.match(text, /trireme_plugin_calls_total\{rpc="Filter",code="OK",plugin="P"\} 1/);
  assert.match(text, /trireme_plugin_calls_total\{rpc="Reserve",code="UNIMPLEMENTED",plugin="P"\} 1/);
  assert.match(text, /trireme_plugin_call_duration_seconds_count\{plugin="P",rpc="Filter"\} 1/);
  assert.equal((await fetch(`http://${address}/other`)).status, 404);
});

test("logs are one line an entry, as JSON or text", () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  makeLogger("json", "info", write).info("started", { epoch: 7n, error: new Error("no\nway") });
  makeLogger("text", "warn", write).info("not written");
  makeLogger("text", "warn", write).warn("odd", { name: "a b", count: 2 });
  assert.equal(lines.length, 2);
  const entry = JSON.parse(lines[0]!) as Record<string, string>;
  assert.deepEqual([entry["level"], entry["message"], entry["epoch"]], ["info", "started", "7"]);
  assert.match(entry["error"]!, /^Error: no\nway\n/);
  assert.match(lines[1]!, /^\S+Z W odd name="a b" count=2\n$/);
});

test("the handle allows, rejects and activates pods in the plugin's name", async (t) => {
  const seen: unknown[] = [];
  const frontend = new Server();
  const notFound = { code: status.NOT_FOUND, details: "the pod does not wait" };
  frontend.addService(v1.HandleServiceService, {
    allow: (call: any, done: any) => {
      seen.push(call.request);
      done(call.request.pod.name === "gone" ? notFound : null, {});
    },
    reject: (call: any, done: any) => {
      seen.push(call.request);
      done(null, {});
    },
    activate: (call: any, done: any) => done(null, { activated: call.request.pods.slice(1) }),
  });
  const port = await new Promise<number>((resolve) =>
    frontend.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (_, chosen) => resolve(chosen)),
  );
  const handle = new Handle(`127.0.0.1:${port}`, "P");
  t.after(() => {
    handle.close();
    frontend.forceShutdown();
  });
  const pod = { namespace: "n", name: "a", uid: "u" };
  const gone = { ...pod, name: "gone" };
  assert.deepEqual([await handle.allow(pod), await handle.allow(gone), await handle.reject(pod, "no")], [true, false, true]);
  assert.deepEqual(seen[0], { pod, plugin: "P" });
  assert.deepEqual(seen[2], { pod, plugin: "P", message: "no" });
  assert.deepEqual(await handle.activate([pod, gone]), [gone]);
});

test("health turns to not serving while calls in flight end", async (t) => {
  let release = () => {};
  const entered = new Promise<void>((resolve) => {
    release = resolve;
  });
  let finish = () => {};
  const plugin: Plugin = {
    info: { name: "P" },
    filter: () => {
      release();
      return new Promise<undefined>((resolve) => {
        finish = () => resolve(undefined);
      });
    },
  };
  const server = await serve(plugin, { log: silentLogger });
  const client = new v1.FilterPluginClient(server.address, ChannelCredentials.createInsecure());
  t.after(() => client.close());
  const answer = new Promise((resolve, reject) =>
    client.filter({ cycle: cycle(), count: 1, nodes: nodes("a") }, (error, response) => (error ? reject(error) : resolve(response))),
  );
  await entered;
  const stopped = server.stop();
  finish();
  assert.equal(((await answer) as v1.FilterResponse).columns?.size, 1);
  client.close();
  await stopped;
});
