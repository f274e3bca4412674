import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { ChannelCredentials, type ClientDuplexStream, status } from "@grpc/grpc-js";
import { NodeData, Dependency, type Plugin, unschedulable } from "../src/index.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, started } from "./serving.js";

const { filter, filterDryRun } = v1.FilterPluginService;

type Stream = ClientDuplexStream<v1.SyncRequest, v1.SyncResponse>;

const podLimit: Plugin = {
  info: { name: "PodLimit", dependsOn: Dependency.NODE_PODS, nodeData: NodeData.SNAPSHOT },
  filter: (call, node) => {
    const limit = Number(node.labels["limit"] ?? "100");
    const count = node.pods.length - call.removedPods.length + call.addedPods.length;
    return limit > count ? limit - count : unschedulable("full");
  },
};

const fence = (epoch: bigint) => v1.Fence.fromPartial({ epoch, schedulerId: "s" });

function open(t: TestContext, address: string): { stream: Stream; acknowledged: () => Promise<v1.SyncResponse>; ended: Promise<any> } {
  const client = new v1.SnapshotFollowerClient(address, ChannelCredentials.createInsecure());
  const stream = client.sync();
  const ended = new Promise((resolve) => stream.on("error", resolve));
  t.after(() => {
    stream.cancel();
    client.close();
  });
  return { stream, ended, acknowledged: () => new Promise((resolve) => stream.once("data", resolve)) };
}

const hello = (epoch: bigint) => v1.SyncRequest.fromPartial({ message: { $case: "hello", value: { fence: fence(epoch) } } });
const delta = (value: object) => v1.SyncRequest.fromPartial({ message: { $case: "delta", value } } as object);
const columns = (row: number[], slot: number[]) => ({
  row,
  slot,
  podClass: row.map(() => 1),
  uid: row.map((each) => `u${each}`),
  name: row.map((each) => `p${each}`),
  startTimeS: row.map(() => 0n),
  flags: row.map(() => 0),
});
const fullSync = delta({
  reset: true,
  toGeneration: 5n,
  classes: [{ id: 1, pod: { metadata: { namespace: "shop" } } }],
  nodes: [
    { slot: 0, node: { metadata: { name: "a", labels: { limit: "2" } } } },
    { slot: 1, node: { metadata: { name: "b" } } },
  ],
  pods: columns([7, 8], [0, 1]),
});

test("a follower answers about slots from what the stream brought", async (t) => {
  const { address, call } = await started(t, podLimit);
  const { stream, acknowledged } = open(t, address);
  stream.write(hello(10n));
  stream.write(fullSync);
  assert.equal((await acknowledged()).appliedGeneration, 5n);
  const at = (generation: bigint) => cycle({ fence: fence(10n), generation });
  const first = await call(filter, { cycle: at(5n), count: 1, nodes: { slots: [1, 0], nodes: [] } });
  assert.deepEqual(first.columns.capacity, [99, 1]);
  const waits = call(filter, { cycle: at(6n), count: 1, nodes: { slots: [0], nodes: [] } });
  stream.write(delta({ fromGeneration: 5n, toGeneration: 6n, pods: columns([9], [0]), removedPods: [8] }));
  assert.deepEqual((await waits).columns.statusIndex, [1]);
  const runs = [{ slot: 0, removedRows: [7, 99], addedClasses: [], removedPods: [], addedPods: [] }];
  assert.deepEqual((await call(filterDryRun, { cycle: at(6n), runs })).columns.capacity, [1]);
});

test("a generation that does not come is refused before the deadline", async (t) => {
  const { call } = await started(t, podLimit);
  const request = { cycle: cycle({ fence: fence(1n) }), count: 1, nodes: { slots: [0], nodes: [] } };
  const error = await errorOf(call(filter, request, 400));
  assert.equal(error.code, status.FAILED_PRECONDITION);
  assert.deepEqual(error.metadata.get("trireme-reason"), []);
});

test("a stream without hello is refused and replaces nothing", async (t) => {
  const { address, call } = await started(t, podLimit);
  const first = open(t, address);
  first.stream.write(hello(10n));
  first.stream.write(fullSync);
  await first.acknowledged();
  const second = open(t, address);
  second.stream.write(fullSync);
  assert.equal((await second.ended).code, status.INVALID_ARGUMENT);
  const request = { cycle: cycle({ fence: fence(10n), generation: 5n }), count: 1, nodes: { slots: [0], nodes: [] } };
  assert.deepEqual((await call(filter, request)).columns.capacity, [1]);
});

test("a new stream replaces the one before, and a lower epoch does not", async (t) => {
  const { address } = await started(t, podLimit);
  const first = open(t, address);
  first.stream.write(hello(10n));
  first.stream.write(fullSync);
  await first.acknowledged();
  const stale = open(t, address);
  stale.stream.write(hello(9n));
  assert.deepEqual((await stale.ended).metadata.get("trireme-reason"), ["stale-epoch"]);
  const second = open(t, address);
  second.stream.write(hello(11n));
  second.stream.write(fullSync);
  await second.acknowledged();
  assert.equal((await first.ended).code, status.ABORTED);
});

test("a delta that does not follow ends the stream", async (t) => {
  const { address } = await started(t, podLimit);
  const { stream, ended } = open(t, address);
  stream.write(hello(10n));
  stream.write(delta({ fromGeneration: 3n, toGeneration: 4n }));
  assert.equal((await ended).code, status.FAILED_PRECONDITION);
});

/** A plugin that follows the cluster of `fullSync`, called about copies of the pod on node a, which has one pod. */
async function copiesOnA(t: TestContext, plugin: Plugin): Promise<{ scores: bigint[]; text: string; code: v1.Code }> {
  const { address, call } = await started(t, plugin);
  const { stream, acknowledged } = open(t, address);
  stream.write(hello(10n));
  stream.write(fullSync);
  await acknowledged();
  const request = { cycle: cycle({ fence: fence(10n), podClass: 1 }), nodes: { nodes: [], slots: [0] }, copies: 3 };
  const answer = await call(v1.ScorePluginService.scoreCopies, request);
  return { scores: answer.scores, text: answer.status.messages.join(), code: answer.status.code };
}

const counting = { name: "Crowd", dependsOn: Dependency.NODE_PODS, nodeData: NodeData.SNAPSHOT };

test("copies are among the pods of the node and nowhere else", async (t) => {
  const score: Plugin["score"] = (call, node) => {
    assert.ok(call.cluster !== undefined && call.addedPods.length === 0);
    return 100 - 10 * node.pods.length;
  };
  assert.deepEqual((await copiesOnA(t, { info: counting, score })).scores, [80n, 70n, 60n]);
});

test("a score that uses the cluster, which has no copies, answers none", async (t) => {
  const score: Plugin["score"] = (call) => {
    try {
      return 100 - 10 * call.cluster!.podsOn(0).length;
    } catch {
      return 0;
    }
  };
  const answer = await copiesOnA(t, { info: counting, score });
  assert.deepEqual([answer.code, answer.scores], [v1.Code.ERROR, []]);
  assert.match(answer.text, /score used call\.cluster\.podsOn.*info\.scoreCopies/);
  const said = await copiesOnA(t, { info: { ...counting, scoreCopies: true }, score });
  assert.deepEqual(said.scores, [90n, 90n, 90n]);
});
