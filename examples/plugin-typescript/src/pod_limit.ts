// Also change: examples/plugin-python/pod_limit.py, examples/plugin-go/podlimit/main.go,
// examples/plugin-java/src/main/java/dev/trireme/examples/PodLimit.java (the same plugin).

/**
 * The scheduler plugin PodLimit: nodes with the label `example.com/pod-limit` take only so many pods.
 *
 * How many pods a node has is not part of the node, so this plugin follows the cluster.
 */
import {
  type Call,
  Dependency,
  type Info,
  type Node,
  NodeData,
  type Plugin,
  unschedulable,
  type Verdict,
} from "@trireme/plugin-sdk";

/** How many pods the node takes. */
export const LIMIT = "example.com/pod-limit";

/** Counts the pods on nodes, and prefers those with room. */
export class PodLimit implements Plugin {
  readonly info: Info = {
    name: "PodLimit",
    version: "1.1.0",
    dependsOn: Dependency.NODE_PODS, // called again about a node whose pods have changed
    nodeData: NodeData.SNAPSHOT,
    podFields: ["metadata.namespace"],
    events: [
      { resource: "Node", actions: ["Add", "UpdateNodeLabel"] },
      { resource: "AssignedPod", actions: ["Delete"] },
    ],
  };

  /** As many copies of the pod as the limit leaves room for. */
  filter(call: Call, node: Node): Verdict {
    const limit = node.labels[LIMIT] ?? "";
    if (!/^[0-9]+$/.test(limit)) return undefined;
    // In a dry run of preemption pods are taken to be gone, or there.
    const count = node.pods.length - call.removedPods.length + call.addedPods.length;
    return Number(limit) > count ? Number(limit) - count : unschedulable("node(s) had as many pods as they may");
  }

  /** How much of the limit is left, in percent; also with pods of a batch on the node that are not there yet. */
  score(_: Call, node: Node): number {
    const limit = node.labels[LIMIT] ?? "";
    if (!/^[0-9]+$/.test(limit)) return 100;
    return Math.floor((Math.max(Number(limit) - node.pods.length, 0) * 100) / Math.max(Number(limit), 1));
  }
}
