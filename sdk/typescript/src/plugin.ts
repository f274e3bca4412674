// Also change: internal/trireme/sdk/description.py (which names the other languages' files).

/** The interface of a plugin: an object with `info` and a method for each extension point that it takes part in. */
import type { Call, Change, Codec, Configuration, Context, Node } from "./calls.js";
import type { Action } from "./generated/trireme/v1/bind.js";
import type { Pod } from "./generated/trireme/v1/core.js";
import type { PodIdentity } from "./generated/trireme/v1/cycle.js";
import type { Disruption, NodeColumns } from "./generated/trireme/v1/filter.js";
import type { CompositePodGroup, PodGroup } from "./generated/trireme/v1/scheduling.js";
import type { ClusterObject, ObjectKey } from "./generated/trireme/v1/snapshot.js";
import type { Status as StatusMessage } from "./generated/trireme/v1/status.js";
import type { Status, Wait } from "./results.js";
import type { Dependency, NodeData, Normalization } from "./values.js";

/** A kind of change that may help a pod that the plugin refused, in the framework's words. */
export interface Event {
  /** Node, Pod, AssignedPod, storage.k8s.io/CSINode, … */
  readonly resource: string;
  /** Add, Delete, Update, UpdateNodeLabel, … */
  readonly actions: readonly string[];
}

/** A plugin's name, needs and limits. */
export interface Info {
  /** What profiles call it. */
  readonly name: string;
  /** Answers are cached for as long as it stays: code or settings that answer otherwise are another version. */
  readonly version?: string;
  /** What results depend on; CLUSTER if unset. */
  readonly dependsOn?: Dependency;
  /** The form of nodes; NAMES if unset. */
  readonly nodeData?: NodeData;
  /** Paths of a pod's fields, such as `spec.nodeSelector`; unset: those that the built-in plugins read. */
  readonly podFields?: readonly string[];
  /** How scores come into 0 to 100; NONE if unset. */
  readonly normalization?: Normalization;
  /** How many calls at once; the SDK has further ones wait. 0 or unset: as many as come. */
  readonly maxConcurrentCalls?: number;
  /** Which changes may help a pod that it refused; unset: every one. */
  readonly events?: readonly Event[];
  /**
   * A call may be made twice, also at the same time and at two replicas, without any effect beyond the two answers, which
   * are the same. Then the scheduler may hedge calls that change nothing.
   */
  readonly idempotent?: boolean;
  /**
   * Whether score also answers for nodes with copies of the pod on them, so that pods of a class are placed in batches
   * although the score depends on NODE_PODS. With SNAPSHOT the copies are in `node.pods`, and nowhere else. Unset means
   * that it does, and that pods are placed one at a time where it uses `call.cluster`, which does not have them; true says
   * that its answer is right all the same. With other forms of nodes the copies are in `call.addedPods`, which score has to
   * count, and unset means that it does not.
   */
  readonly scoreCopies?: boolean;
  /**
   * Additions to the contract (docs/versioning.md) that the plugin cannot work without. A scheduler that lacks one rejects
   * it and says which; an older one, which does not know this field, is refused at the handshake.
   */
  readonly requiredFeatures?: readonly string[];
}

/** A value or a promise of it: every method may be async. */
export type Awaitable<T> = T | Promise<T>;

/** Passes, or not. */
export type Result = Status | undefined | void;

/** Filter's answer about a node: nothing passes, a number above 0 passes for so many copies, a status refuses. */
export type Verdict = Status | number | undefined | void;

/** One number of a key, or several, which are compared from the first on: whole numbers of 64 bits. */
export type SortNumbers = number | bigint | readonly (number | bigint)[];

/** A pod's position in the queue; the least is tried first. */
export interface SortKey {
  /**
   * What is compared first: 1 to 16 numbers. Pods of one class with the same level may be scheduled in one batch, and
   * classes of one level take turns; so levels that all differ keep every batch to one pod.
   */
  readonly level: SortNumbers;
  /** The order of the pods of one class and level: at most 16 numbers. What is equal goes by age. */
  readonly rest?: SortNumbers;
}

/** PreFilter's answer for a pod that passes. */
export interface PreFilterResult<State> {
  /** Narrows the nodes to these names. */
  readonly nodes?: readonly string[];
  /** Handed to filter in the same cycle as `call.state`, perhaps in another process. */
  readonly state?: State;
}

/** What makes room for a pod. */
export interface PostFilterResult {
  /** What the scheduler is to write, in order. */
  readonly actions?: readonly Action[];
  /** The node that the pod is nominated to. */
  readonly nominatedNode?: string;
  readonly clearNomination?: boolean;
  readonly disruption?: Disruption;
}

/** Why no node passed. */
export interface NoFit {
  readonly columns: NodeColumns | undefined;
  readonly preFilter: StatusMessage | undefined;
}

/** One pod on one node. */
export interface Placement {
  readonly pod: PodIdentity;
  readonly nodeName: string;
  /** The node's slot, with NodeData.SNAPSHOT. */
  readonly slot: number;
}

/** What is assumed beside a pod. */
export interface Reservation<State> {
  readonly assumed?: readonly ClusterObject[];
  /** Handed to preBind as `item.state`. */
  readonly state?: State;
}

/** A pod about to be bound. */
export interface BindItem<State> {
  readonly pod: PodIdentity;
  readonly nodeName: string;
  readonly assumed: readonly ClusterObject[];
  /** What reserve or an earlier preBind returned. */
  readonly state: State | undefined;
  /** The scheduler does not know how an earlier call ended: the pod may be bound already. */
  readonly outcomeUnknown: boolean;
}

/** PreBind's answer for a pod that waits for objects; it is called again when one of them changes. */
export interface PreBindWait<State> {
  readonly waitFor: readonly ObjectKey[];
  readonly timeoutSeconds: number;
  readonly message?: string;
  readonly state?: State;
}

/** A pod of a group that was tried in a placement. */
export interface TriedPod {
  readonly pod: Pod;
  /** The node that it would get; undefined: no node of the placement takes it. */
  readonly nodeName: string | undefined;
}

/** A group of pods that is being tried in a placement, and how far the trial has come. */
export interface PlacementTrial {
  /** The group's metadata and spec; undefined: it is made of groups. */
  readonly podGroup: PodGroup | undefined;
  /** The same of a group of groups. */
  readonly compositePodGroup: CompositePodGroup | undefined;
  /** How many pods, or groups, must fit by the group's policy. */
  readonly minCount: number;
  /** The placement's name: of a topology domain its label's value. Empty: the group is tried on all nodes. */
  readonly placement: string;
  /** The placement's nodes; none: all nodes. */
  readonly nodeNames: readonly string[];
  /** The pods that were tried so far, in order; of a group of groups those that fit in their groups. */
  readonly tried: readonly TriedPod[];
  /** Pods, or groups, that were not tried yet. */
  readonly remaining: number;
  /** Those that fit; with the pods of the group that had a node before. */
  readonly scheduled: number;
  /** Those that do not fit. */
  readonly unschedulable: number;
}

/** A plugin. Implement the methods that it needs; which there are decides the extension points that it lists. */
export interface Plugin<Config = any, State = any> {
  /** Read again at each handshake: a getter may report another version. */
  readonly info: Info;
  /** How state becomes bytes; JSON if unset. */
  readonly stateCodec?: Codec<State>;

  /** Checks the profile's arguments; its result is `call.config`. Throw InvalidArguments to refuse. */
  configure?(configuration: Configuration): Awaitable<Config>;
  /** Nothing lets the pod into the queue; a status keeps it out. */
  preEnqueue?(pod: Pod, context: Context<Config>): Awaitable<Result>;
  /**
   * The pod's position in the queue, of the pod and the configuration alone: it is called once, before the pod enters the
   * queue, and again only when a field of `info.podFields`, the configuration, the version or the process changes. Numbers
   * alone are the level; the negated priority is the scheduler's own order.
   */
  sortKey?(pod: Pod, context: Context<Config>): Awaitable<SortNumbers | SortKey>;
  /** Whether the change may help the pod, which this plugin refused. */
  queueingHint?(pod: Pod, change: Change, context: Context<Config>): Awaitable<boolean>;
  /** Before filter, whatever the node. SKIP leaves out filter. */
  preFilter?(call: Call<Config, State>): Awaitable<Result | PreFilterResult<State>>;
  /** Whether the pod may run on the node. Also answers preemption's dry runs. */
  filter?(call: Call<Config, State>, node: Node): Awaitable<Verdict>;
  /** The same for many nodes at once, instead of filter: a verdict for each, in their order. */
  filterNodes?(call: Call<Config, State>, nodes: readonly Node[]): Awaitable<readonly Verdict[]>;
  /** Makes room for a pod that no node passed for. */
  postFilter?(call: Call<Config, State>, noFit: NoFit): Awaitable<Result | PostFilterResult>;
  /** Prepares score. SKIP leaves it out. */
  preScore?(call: Call<Config, State>, nodes: readonly Node[]): Awaitable<Result | { readonly state: State }>;
  /** A whole number. */
  score?(call: Call<Config, State>, node: Node): Awaitable<number | bigint>;
  /** The same for many nodes at once, instead of score. */
  scoreNodes?(call: Call<Config, State>, nodes: readonly Node[]): Awaitable<readonly (number | bigint)[]>;
  /** Brings the scores of all nodes into 0 to 100, instead of `info.normalization`. */
  normalizeScores?(
    call: Call<Config, State>,
    nodes: readonly Node[],
    scores: readonly number[],
  ): Awaitable<readonly (number | bigint)[]>;
  /** Takes what the pod needs on the node. */
  reserve?(call: Call<Config, State>, placement: Placement): Awaitable<Result | Reservation<State>>;
  /** Gives it back. Also called for what is not reserved. */
  unreserve?(call: Call<Config, State>, placement: Placement): Awaitable<void>;
  /** Lets an assumed pod be bound, refuses it, or has it wait. */
  permit?(call: Call<Config, State>, item: BindItem<State>): Awaitable<Result | Wait>;
  /** Whether preBind has work for the pod: nothing means it has, SKIP that it has not. Writes nothing. */
  preBindPreFlight?(call: Call<Config, State>, item: BindItem<State>): Awaitable<Result>;
  /** Does what must be done before the pod is bound. */
  preBind?(call: Call<Config, State>, item: BindItem<State>): Awaitable<Result | PreBindWait<State>>;
  /** Binds the pod. Nothing: it is bound. SKIP: left to the next binder. */
  bind?(call: Call<Config, State>, item: BindItem<State>): Awaitable<Result>;
  /** Notified that the pod was bound. */
  postBind?(call: Call<Config, State>, item: BindItem<State>): Awaitable<void>;
  /**
   * Whether a group of pods may fit in a placement: called before the first pod of the group (the first group of a group of
   * groups) is tried there, and after each. Nothing: it fits, and later calls answer so too. moreMembers: it does if more of it fits.
   * unschedulable: it will not, and the trial ends. `call.pod` is empty: the pods of a group may differ.
   */
  placementFeasible?(call: Call<Config, State>, trial: PlacementTrial): Awaitable<Result>;
}

/** The name of a method of a plugin. */
export type Method = Exclude<keyof Plugin, "info" | "stateCodec">;
