// Also change: internal/trireme/sdk/values.py (which names the other languages' files).

/** Enumerations of a plugin's description; the numbers are those of the contract. */

/** What a plugin's result for a node depends on, and so how long the scheduler caches it. */
export enum Dependency {
  /** The node object alone: cached until the node changes. */
  NODE = 1,
  /** Also the pods on the node: called again for nodes whose pods changed. */
  NODE_PODS = 2,
  /** Anything: called every time, about one pod at a time. */
  CLUSTER = 3,
}

/** The form in which the plugin gets nodes. */
export enum NodeData {
  /** `node.name` alone: the cheapest. */
  NAMES = 1,
  /** Also `node.message`, and with it `node.labels` and `node.annotations`. */
  MESSAGES = 2,
  /** Also `node.json()`, the object as the API server sent it. */
  JSON = 3,
  /** Also `node.message` and `node.pods`: the plugin follows the whole cluster (`call.cluster`). */
  SNAPSHOT = 4,
}

/** How the scheduler brings the plugin's scores into 0 to 100. */
export enum Normalization {
  /** They are in that range already. */
  NONE = 1,
  /** Divided by the largest, times 100. */
  MAX = 2,
  /** 100 minus MAX: the smallest score is best. */
  MAX_REVERSED = 3,
}
