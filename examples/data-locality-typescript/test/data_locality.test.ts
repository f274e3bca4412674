import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { InvalidArguments, SKIP } from "@trireme/plugin-sdk";
import { makeCall, makeNode, makePod } from "@trireme/plugin-sdk/testing";
import { ANNOTATION, DataLocality } from "../src/data_locality.js";
import { fetchText, parseIndex } from "../src/index_client.js";

const INDEX = new URL("../../index.json", import.meta.url);
const text = readFileSync(INDEX, "utf8");
const plugin = new DataLocality(parseIndex(text));

function about(dataSets?: string) {
  const annotations = dataSets === undefined ? {} : { [ANNOTATION]: dataSets };
  return makeCall<{ sameZone: number }, undefined>({ config: { sameZone: 40 }, pod: makePod({ metadata: { annotations } }) });
}

function node(name: string, zone: string) {
  return makeNode(name, { metadata: { labels: { "topology.kubernetes.io/zone": zone } } });
}

for (const [dataSets, name, zone, score] of [
  ["imagenet", "node-1", "zone-a", 100],
  ["imagenet", "node-9", "zone-a", 40],
  ["imagenet", "node-9", "zone-b", 0],
  ["imagenet, labels", "node-1", "zone-a", 85], // three quarters of the bytes at 100, a quarter at 40
  ["labels,imagenet,labels", "node-2", "zone-b", 25],
  ["unknown", "node-1", "zone-a", 0],
] as const) {
  test(`the score of ${name} in ${zone} for ${dataSets} is ${score}`, () => {
    assert.equal(plugin.score(about(dataSets), node(name, zone)), score);
  });
}

for (const dataSets of [undefined, "", "unknown"]) {
  test(`a pod whose data is ${dataSets} is not scored`, () => assert.equal(plugin.preScore(about(dataSets)), SKIP));
}

test("a pod with data is scored", () => assert.equal(plugin.preScore(about("labels")), undefined));

test("another index is another version, and its answers count", () => {
  const changing = new DataLocality(parseIndex(text));
  const before = changing.info.version;
  assert.equal(changing.replace(parseIndex(text)), false);
  assert.equal(changing.info.version, before);
  assert.equal(changing.replace(parseIndex('{"dataSets": {"imagenet": {"bytes": 1, "nodes": ["node-9"]}}}')), true);
  assert.notEqual(changing.info.version, before);
  assert.equal(changing.score(about("imagenet"), node("node-9", "")), 100);
});

for (const [wrong, message] of [
  ["[]", "document: must be an object"],
  ["{}", "dataSets: must be an object"],
  ['{"dataSets": {"a": {"bytes": 0}}}', "dataSets.a.bytes: must be a number of at least 1"],
  ['{"dataSets": {"a": {"bytes": 1, "nodes": "n"}}}', "dataSets.a.nodes: must be a list of names"],
] as const) {
  test(`the index ${wrong} is refused`, () => assert.throws(() => parseIndex(wrong), { message }));
}

test("the index is read from a file", async () => {
  assert.equal(await fetchText(INDEX, new AbortController().signal), text);
});

test("wrong arguments are refused with their path", () => {
  const configure = (args: unknown) => plugin.configure({ profile: "p", args, featureGates: {} });
  assert.deepEqual(configure({}), { sameZone: 50 });
  const refused = new InvalidArguments({ field: "args.sameZone", message: "must be a whole number from 0 to 100" });
  assert.throws(() => configure({ sameZone: 101 }), refused);
});
