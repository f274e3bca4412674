// Also change: sdk/java/src/main/java/dev/trireme/sdk/TestValues.java (values for plugins' tests).

/** Makes the arguments of a plugin's methods, so that its tests need no server. */
import { type Call, Node } from "./calls.js";
import type { PlacedPod } from "./cluster.js";
import { Node as NodeMessage, Pod } from "./generated/trireme/v1/core.js";
import type { BindItem, Placement } from "./plugin.js";

/** A call about an empty pod, with these fields set. */
export function makeCall<Config = unknown, State = unknown>(
  fields: Partial<Call<Config, State>> = {},
): Call<Config, State> {
  return {
    pod: makePod(),
    profile: "default-scheduler",
    config: undefined as Config,
    state: undefined,
    count: 1,
    removedPods: [],
    addedPods: [],
    cluster: undefined,
    signal: new AbortController().signal,
    deadline: undefined,
    traceParent: undefined,
    ...fields,
  };
}

/** A pod with these fields; the others are empty. */
export function makePod(fields: Parameters<typeof Pod.fromPartial>[0] = {}): Pod {
  return Pod.fromPartial(fields);
}

/** A node with these fields; the others are empty. */
export function makeNode(
  name: string,
  fields: Parameters<typeof NodeMessage.fromPartial>[0] = {},
  pods: readonly PlacedPod[] = [],
): Node {
  const message = NodeMessage.fromPartial({ ...fields, metadata: { ...fields.metadata, name } });
  const { labels, annotations } = message.metadata!;
  return new Node(name, message, Buffer.from(JSON.stringify({ metadata: { name, labels, annotations } })), pods);
}

/** The placement of a pod on a node. */
export function makePlacement(podName: string, nodeName: string, namespace = "default"): Placement {
  return { pod: { namespace, name: podName, uid: `uid-${podName}` }, nodeName, slot: 0 };
}

/** A pod that is about to be bound to a node. */
export function makeBindItem<State = unknown>(
  podName: string,
  nodeName: string,
  fields: Partial<BindItem<State>> = {},
): BindItem<State> {
  const pod = { namespace: "default", name: podName, uid: `uid-${podName}` };
  return { pod, nodeName, assumed: [], state: undefined, outcomeUnknown: false, ...fields };
}
