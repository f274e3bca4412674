import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { InvalidArguments, type PodName, Status } from "@trireme/plugin-sdk";
import { makeBindItem, makeCall, makeNode, makePod } from "@trireme/plugin-sdk/testing";
import { MaintenanceWindows } from "../src/maintenance_windows.js";
import { ANNOTATION, closedUntil, parseWindows } from "../src/windows.js";

const NOON = Date.parse("2026-11-27T12:00:00Z");
const MINUTE = 60_000;
const at = (minutes: number) => new Date(NOON + minutes * MINUTE).toISOString();
const around = (from: number, to: number) => `${at(from)}/${at(to)}`;
const call = makeCall({ config: { leadMs: 10 * MINUTE }, pod: makePod({ metadata: { namespace: "shop" } }) });

function node(windows?: string) {
  return makeNode("node-1", { metadata: { annotations: windows === undefined ? {} : { [ANNOTATION]: windows } } });
}

function filter(windows?: string) {
  return new MaintenanceWindows({ now: () => NOON }).filter(call, node(windows));
}

for (const [windows, name] of [
  [undefined, "without windows"],
  [around(-60, -30), "after its window"],
  [around(-60, 0), "at the end of its window"],
  [around(11, 30), "more than the lead time before its window"],
  ["tomorrow", "whose windows cannot be read"],
] as const) {
  test(`a node ${name} takes pods`, () => assert.equal(filter(windows), undefined));
}

for (const [windows, end] of [
  [around(-5, 5), 5],
  [around(10, 30), 30],
  [`${around(100, 110)}, ${around(0, 20)}`, 20],
  [`${around(-5, 5)},${around(5, 15)}`, 15],
] as const) {
  test(`a node with the windows ${windows} is refused until ${end} minutes from now`, () => {
    const verdict = filter(windows);
    assert.ok(verdict instanceof Status);
    assert.equal(verdict.message, "node(s) were in a maintenance window");
    assert.deepEqual(verdict.reasons, [{ code: "maintenanceWindow", parameters: { until: at(end) } }]);
  });
}

for (const text of ["x", `${at(0)}`, `${at(1)}/${at(0)}`, `${at(0)}/${at(1)}/${at(2)}`]) {
  test(`${text} is no interval`, () => assert.throws(() => parseWindows(text), /is no interval START\/END/));
}

test("windows that do not touch are left one by one", () => {
  assert.equal(closedUntil(parseWindows(`${around(0, 5)},${around(6, 9)}`), NOON, 0), NOON + 5 * MINUTE);
});

test("pods of the namespace that was refused wake at the end of the window, bound ones do not", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: NOON });
  const woken: string[][] = [];
  const wake = async (pods: readonly PodName[]) => void woken.push(pods.map((pod) => pod.name));
  const plugin = new MaintenanceWindows({ wake });
  for (const [namespace, name] of [["shop", "a"], ["shop", "bound"], ["other", "b"]]) {
    plugin.preEnqueue(makePod({ metadata: { namespace, name, uid: `uid-${name}` } }));
  }
  plugin.postBind(call, makeBindItem("bound", "node-2"));
  plugin.filter(call, node(around(0, 30)));
  plugin.filter(call, node(around(0, 20)));
  mock.timers.tick(20 * MINUTE - 1);
  assert.deepEqual(woken, []);
  mock.timers.tick(1);
  assert.deepEqual(woken, [["a"]]);
  plugin.close();
  mock.timers.reset();
});

const nodeObject = (windows?: string) => ({ metadata: { name: "n", annotations: windows ? { [ANNOTATION]: windows } : {} } });

for (const [name, oldObject, newObject, helps] of [
  ["a node whose window was taken back", nodeObject(around(-5, 5)), nodeObject(), true],
  ["a new node without windows", undefined, nodeObject(), true],
  ["a new node in its window", undefined, nodeObject(around(-5, 5)), false],
  ["a node whose window was prolonged", nodeObject(around(-5, 5)), nodeObject(around(-5, 9)), false],
  ["a node with the same windows", nodeObject(around(50, 60)), nodeObject(around(50, 60)), false],
] as const) {
  test(`${name} ${helps ? "helps" : "does not help"} a pod`, () => {
    const plugin = new MaintenanceWindows({ now: () => NOON });
    const change = { resource: "Node", actions: ["UpdateNodeAnnotation"], oldObject, newObject };
    assert.equal(plugin.queueingHint(makePod(), change), helps);
  });
}

test("wrong arguments are refused with their path", () => {
  const configure = (args: unknown) => new MaintenanceWindows().configure({ profile: "p", args, featureGates: {} });
  assert.deepEqual(configure({ leadMinutes: 5 }), { leadMs: 5 * MINUTE });
  assert.throws(() => configure({ leadMinutes: -1 }), new InvalidArguments({ field: "args.leadMinutes", message: "must be a number from 0 to 1440" }));
});
