import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { failed, moreMembers, pending, type PlacementTrial, type Plugin, SKIP, unschedulable } from "../src/index.js";
import * as v1 from "../src/v1.js";
import { cycle, errorOf, started } from "./serving.js";

const { placementFeasible } = v1.PodGroupPluginService;
const { getPluginInfo } = v1.PluginServiceService;

const metadata = { namespace: "shop", name: "gang" };

/** A gang of two whose first pod has a node, at these steps. */
function trial(group: object, ...steps: number[]): v1.PlacementFeasibleRequest {
  return v1.PlacementFeasibleRequest.fromPartial({
    cycle: cycle(),
    group,
    minCount: 2,
    placement: "rack-a",
    nodeNames: ["a", "b"],
    tried: [{ pod: { metadata: { name: "w0" } }, nodeName: "a" }, { pod: { metadata: { name: "w1" } }, fields: 1 }],
    podFields: [{ spec: { schedulerName: "x" } }, { spec: { schedulerName: "y" } }],
    steps: steps.map((tried) => ({ tried, remaining: 2 - tried, scheduled: Math.min(tried, 1), unschedulable: tried > 1 ? 1 : 0 })),
  } as object);
}

const PODS = { $case: "podGroup", value: { metadata } };
const GROUPS = { $case: "compositePodGroup", value: { metadata } };

test("each step has the group, the placement and the pods tried by then", async (t) => {
  const seen: PlacementTrial[] = [];
  const plugin: Plugin = {
    info: { name: "P" },
    placementFeasible: async (_, each) => {
      seen.push(each);
      return each.remaining > 0 ? moreMembers("one more") : undefined;
    },
  };
  const { call } = await started(t, plugin);
  const { statuses } = await call(placementFeasible, trial(PODS, 1, 2));
  assert.deepEqual(statuses.map((each: v1.Status) => [each.code, each.messages, each.plugin]), [
    [v1.Code.WAIT, ["one more"], "P"],
    [v1.Code.SUCCESS, [], ""],
  ]);
  await call(placementFeasible, trial(GROUPS, 0));
  assert.deepEqual(
    seen.map((each) => [each.podGroup?.metadata?.name, each.compositePodGroup?.metadata?.name]),
    [["gang", undefined], ["gang", undefined], [undefined, "gang"]],
  );
  const { minCount, placement, nodeNames, remaining, scheduled, unschedulable: refused } = seen[1]!;
  assert.deepEqual([minCount, placement, nodeNames, remaining, scheduled, refused], [2, "rack-a", ["a", "b"], 0, 1, 1]);
  assert.deepEqual(
    seen.map((each) => each.tried.map(({ pod, nodeName }) => [pod.metadata?.name, pod.spec?.schedulerName, nodeName])),
    [[["w0", "x", "a"]], [["w0", "x", "a"], ["w1", "y", undefined]], []],
  );
});

test("the first refusal or error is the last status", async (t) => {
  for (const [result, code] of [
    [unschedulable("no licence"), v1.Code.UNSCHEDULABLE],
    [failed("down"), v1.Code.ERROR],
  ] as const) {
    let calls = 0;
    const plugin: Plugin = { info: { name: "P" }, placementFeasible: () => (calls++, result) };
    const { call } = await started(t, plugin);
    const { statuses } = await call(placementFeasible, trial(PODS, 0, 1, 2));
    assert.deepEqual([statuses.map((each: v1.Status) => each.code), calls], [[code], 1]);
  }
});

test("another result is the plugin's mistake", async (t) => {
  for (const result of [pending("x"), SKIP, true as any]) {
    const { call } = await started(t, { info: { name: "P" }, placementFeasible: () => result });
    const error = await errorOf(call(placementFeasible, trial(PODS, 0)));
    assert.equal(error.code, status.INTERNAL);
    assert.match(error.details, /^plugin P: PlacementFeasible: placementFeasible: returned .*: must be nothing, moreMembers, /);
  }
});

test("only placementFeasible may answer moreMembers", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, reserve: () => moreMembers("x") });
  const request = { cycle: cycle(), placements: [{ pod: metadata, nodeName: "a", slot: 0 }] };
  const error = await errorOf(call(v1.FilterPluginService.reserve, request));
  assert.match(error.details, /returned a status of Code.WAIT/);
});

test("the point is left out for a scheduler that does not know it", async (t) => {
  const { call } = await started(t, { info: { name: "P" }, filter: () => undefined, placementFeasible: () => undefined });
  const points = async (...features: string[]) => (await call(getPluginInfo, { features })).plugins[0].extensionPoints;
  assert.deepEqual(await points(), [v1.ExtensionPoint.FILTER]);
  assert.deepEqual(await points("placement-feasible"), [v1.ExtensionPoint.FILTER, v1.ExtensionPoint.PLACEMENT_FEASIBLE]);
});
