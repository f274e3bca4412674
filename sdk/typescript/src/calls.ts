// Also change: internal/trireme/sdk/state.py (which names the other languages' files).
// Also change: internal/trireme/sdk/calls.py (which names the other languages' files).

/** The arguments of a plugin's methods. */
import type { ClusterState, PlacedPod } from "./cluster.js";
import type { Node as NodeMessage, Pod } from "./generated/trireme/v1/core.js";

/** What every call has: the profile, its configuration, and when to give up. */
export interface Context<Config = unknown> {
  /** The profile (its schedulerName). */
  readonly profile: string;
  /** What `configure` returned for the profile. */
  readonly config: Config;
  /** Aborted when the caller cancels, the deadline is over, or the process stops. Pass it to fetch and the like. */
  readonly signal: AbortSignal;
  /** When the caller gives up; undefined: it set no deadline. */
  readonly deadline: Date | undefined;
  /** The W3C trace context of the caller, for spans of the plugin to join; undefined: it does not trace. */
  readonly traceParent: string | undefined;
}

/** One call about one class of pods. */
export interface Call<Config = unknown, State = unknown> extends Context<Config> {
  /** What the pods of the class share: the fields that the plugin's `podFields` name. */
  readonly pod: Pod;
  /** What preFilter or preScore returned earlier in the cycle. */
  readonly state: State | undefined;
  /** How many pods of the class are pending: a filter need not count copies beyond it. */
  readonly count: number;
  /** In a dry run of preemption: pods to treat as gone from the node. `node.pods` is unchanged. */
  readonly removedPods: readonly Pod[];
  /** In a dry run of preemption: pods to treat as placed on the node. For score: see `Info.scoreCopies`. */
  readonly addedPods: readonly Pod[];
  /** The whole cluster, with NodeData.SNAPSHOT; it is shared, do not change it. It never has copies of the pod. */
  readonly cluster: ClusterState | undefined;
}

const NO_LABELS: Readonly<Record<string, string>> = Object.freeze({});

/** One node, filled as the plugin's `nodeData` requests. */
export class Node {
  constructor(
    readonly name: string,
    /** The node; with MESSAGES and SNAPSHOT. */
    readonly message?: NodeMessage,
    /** The object as the API server sent it; with JSON. */
    readonly rawJson: Uint8Array = new Uint8Array(),
    /** The pods on it; with SNAPSHOT. */
    readonly pods: readonly PlacedPod[] = [],
  ) {}

  /** Its labels; with MESSAGES and SNAPSHOT. */
  get labels(): Readonly<Record<string, string>> {
    return this.message?.metadata?.labels ?? NO_LABELS;
  }

  /** Its annotations; with MESSAGES and SNAPSHOT. */
  get annotations(): Readonly<Record<string, string>> {
    return this.message?.metadata?.annotations ?? NO_LABELS;
  }

  /** The object as the API server sent it, decoded; with JSON. */
  json<T = unknown>(): T {
    return JSON.parse(Buffer.from(this.rawJson).toString("utf8")) as T;
  }
}

/** One profile's configuration of the plugin. */
export interface Configuration {
  readonly profile: string;
  /** The decoded JSON of the profile's pluginConfig; `{}` without one. */
  readonly args: unknown;
  /** The scheduler's feature gates, by name. */
  readonly featureGates: Readonly<Record<string, boolean>>;
}

/** Something that happened in the cluster, of a kind that the plugin registered. */
export interface Change {
  readonly resource: string;
  readonly actions: readonly string[];
  /** The object before, decoded; undefined when it was added. */
  readonly oldObject: any;
  /** The object after, decoded; undefined when it was deleted. */
  readonly newObject: any;
}

/** Turns a plugin's state into bytes and back; it travels to the scheduler and returns in a later call. */
export interface Codec<T> {
  encode(value: T): Uint8Array;
  decode(bytes: Uint8Array): T;
}

/** The codec of plugins that bring none of their own: JSON. */
export const jsonCodec: Codec<any> = {
  encode: (value) => Buffer.from(JSON.stringify(value)),
  decode: (bytes) => JSON.parse(Buffer.from(bytes).toString("utf8")),
};
