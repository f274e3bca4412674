/** A plugin's own tests need no server: its methods are called with a call and nodes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidArguments, Status } from "@trireme/plugin-sdk";
import { makeCall, makeNode, makePod } from "@trireme/plugin-sdk/testing";
import { Maintenance, MAINTENANCE, PREFERENCE } from "../src/maintenance.js";
import { LIMIT, PodLimit } from "../src/pod_limit.js";

const call = makeCall({ config: MAINTENANCE });
const configure = (args: unknown) => new Maintenance().configure({ profile: "default-scheduler", args, featureGates: {} });

function node(labels: Record<string, string>) {
  return makeNode("node-1", { metadata: { labels } });
}

for (const value of ["", "disk"]) {
  test(`a node under maintenance is refused, with the value "${value}"`, () => {
    const verdict = new Maintenance().filter(call, node({ [MAINTENANCE]: value }));
    assert.ok(verdict instanceof Status);
    assert.equal(verdict.message, "node(s) were under maintenance");
  });
}

test("any other node passes", () => {
  assert.equal(new Maintenance().filter(call, node({ [PREFERENCE]: "5" })), undefined);
});

test("the arguments name the label", () => {
  assert.equal(configure({ maintenanceLabel: "down" }), "down");
});

for (const [args, field, message] of [
  [{ maintenanceLabel: "no key" }, "args.maintenanceLabel", "must be the key of a label"],
  [{ maintenanceLabel: 7 }, "args.maintenanceLabel", "must be a text"],
  [{ label: "down" }, "args.label", "unknown field"],
] as const) {
  test(`wrong arguments are refused with their path: ${JSON.stringify(args)}`, () => {
    assert.throws(
      () => configure(args),
      (error: unknown) => {
        assert.ok(error instanceof InvalidArguments);
        assert.deepEqual(error.problems, [{ field, message }]);
        return true;
      },
    );
  });
}

for (const [label, score] of [["7", 7], ["101", 100], ["-5", 0], ["many", 0]] as const) {
  test(`the score of the preference "${label}" is ${score}`, () => {
    assert.equal(new Maintenance().score(call, node({ [PREFERENCE]: label })), score);
  });
}

test("a node takes as many pods as its limit leaves room for, dry runs included", () => {
  const pod = makePod();
  const placed = { uid: "u", name: "p", pod, slot: 0, startTime: 0, terminating: false };
  const limited = makeNode("node-1", { metadata: { labels: { [LIMIT]: "2" } } }, [placed]);
  assert.equal(new PodLimit().filter(makeCall(), limited), 1);
  assert.ok(new PodLimit().filter(makeCall({ addedPods: [pod] }), limited) instanceof Status);
  assert.equal(new PodLimit().filter(makeCall({ removedPods: [pod] }), limited), 2);
  assert.equal(new PodLimit().filter(makeCall(), node({})), undefined);
  assert.equal(new PodLimit().score(makeCall(), limited), 50);
  assert.equal(new PodLimit().score(makeCall(), node({})), 100);
});
