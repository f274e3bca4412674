// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).

/** The cluster as a plugin with NodeData.SNAPSHOT follows it: nodes, the pods on them, and all other objects. */
import type { Node as NodeMessage, Pod } from "./generated/trireme/v1/core.js";
import type { ClusterObject, Delta, PodColumns } from "./generated/trireme/v1/snapshot.js";

/** Bits of a pod's flags: 1 terminating, 2 terminating because the scheduler preempted it. */
const TERMINATING = 3;

/** One pod on a node, bound or about to be. */
export interface PlacedPod {
  readonly uid: string;
  readonly name: string;
  /** What all pods of its class share: namespace, labels that a selector names, scheduling fields. */
  readonly pod: Pod;
  readonly slot: number;
  /** Seconds since 1970; 0: not started. */
  readonly startTime: number;
  readonly terminating: boolean;
}

type ObjectValue = NonNullable<ClusterObject["object"]>;
type ValueOf<K extends ObjectValue["$case"]> = Extract<ObjectValue, { $case: K }>["value"];

/** A delta does not follow the state: a full sync is needed. */
export class OutOfStepError extends Error {}

/** The cluster at one generation. It changes between calls; an async method may see a newer one after each await. */
export class ClusterState {
  generation = 0n;
  /** Whether a full sync is complete. */
  synced = false;
  /** The nodes by slot. */
  readonly nodes = new Map<number, NodeMessage>();
  /** The classes of pods by number. */
  readonly classes = new Map<number, Pod>();
  private readonly byRow = new Map<number, PlacedPod>();
  private readonly bySlot = new Map<number, Map<number, PlacedPod>>();
  private readonly others = new Map<string, Map<string, ObjectValue["value"]>>();

  /** The pods on the node at the slot. */
  podsOn(slot: number): readonly PlacedPod[] {
    return [...(this.bySlot.get(slot)?.values() ?? [])];
  }

  /** The pod of a row of the pod table. */
  pod(row: number): PlacedPod | undefined {
    return this.byRow.get(row);
  }

  /** The other objects of a kind, such as `persistentVolumeClaim`. */
  objects<K extends ObjectValue["$case"]>(kind: K): readonly ValueOf<K>[] {
    const found: unknown = [...(this.others.get(kind)?.values() ?? [])];
    return found as ValueOf<K>[];
  }

  /** Advances to the delta's generation. @throws OutOfStepError if it does not begin here, or does not fit. */
  apply(delta: Delta): void {
    if (delta.reset) {
      this.clear();
    } else if (delta.fromGeneration !== this.generation) {
      throw new OutOfStepError(`at generation ${this.generation}, not ${delta.fromGeneration}`);
    }
    try {
      this.applyChanges(delta);
    } catch (error) {
      this.clear();
      throw error;
    }
    this.generation = delta.toGeneration;
    this.synced = !delta.partial;
  }

  private clear(): void {
    this.generation = 0n;
    this.synced = false;
    for (const each of [this.nodes, this.classes, this.byRow, this.bySlot, this.others]) each.clear();
  }

  /** In the order of the contract: what is gone goes first, so that its slot or row can be given to another. */
  private applyChanges(delta: Delta): void {
    for (const row of delta.removedPods) this.removePod(row);
    for (const slot of delta.removedSlots) this.nodes.delete(slot);
    for (const entry of delta.classes) if (entry.pod) this.classes.set(entry.id, entry.pod);
    for (const entry of delta.nodes) if (entry.node) this.nodes.set(entry.slot, entry.node);
    if (delta.pods) this.setPods(delta.pods);
    for (const number of delta.removedClasses) this.classes.delete(number);
    for (const changed of delta.objects) this.setObject(changed);
    for (const removed of delta.removedObjects) {
      const kind = removed.kind.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      this.others.get(kind)?.delete(`${removed.namespace}/${removed.name}`);
    }
  }

  private setPods(columns: PodColumns): void {
    const { row, podClass, slot, uid, name, startTimeS, flags } = columns;
    if ([podClass, slot, uid, name, startTimeS, flags].some((column) => column.length !== row.length)) {
      throw new OutOfStepError("the columns of pods differ in length");
    }
    row.forEach((number, at) => {
      const pod = this.classes.get(podClass[at]!);
      if (pod === undefined) throw new OutOfStepError(`pods: there is no class ${podClass[at]}`);
      const old = this.byRow.get(number);
      if (old) this.removePod(number);
      const placed: PlacedPod = {
        uid: uid[at] || (old?.uid ?? ""),
        name: name[at] || (old?.name ?? ""),
        pod,
        slot: slot[at]!,
        startTime: Number(startTimeS[at]),
        terminating: (flags[at]! & TERMINATING) !== 0,
      };
      this.byRow.set(number, placed);
      const neighbours = this.bySlot.get(placed.slot) ?? new Map<number, PlacedPod>();
      this.bySlot.set(placed.slot, neighbours.set(number, placed));
    });
  }

  private removePod(row: number): void {
    const placed = this.byRow.get(row);
    if (placed === undefined) throw new OutOfStepError(`removed_pods: there is no row ${row}`);
    this.byRow.delete(row);
    this.bySlot.get(placed.slot)?.delete(row);
  }

  private setObject(changed: ClusterObject): void {
    if (changed.object === undefined) return;
    const { $case: kind, value } = changed.object;
    const objects = this.others.get(kind) ?? new Map<string, ObjectValue["value"]>();
    const { namespace = "", name = "" } = value.metadata ?? {};
    this.others.set(kind, objects.set(`${namespace}/${name}`, value));
  }
}

/** A cluster that records its use: for calls that lack some of its pods. */
export interface WatchedCluster {
  readonly cluster: ClusterState;
  /** The name of what was used of it first; undefined: nothing was. */
  readonly firstUse: () => string | undefined;
}

/** The cluster as it is, with its use noted. */
export function watched(cluster: ClusterState): WatchedCluster {
  let used: string | undefined;
  const noting = new Proxy(cluster, {
    get(target, property) {
      used ??= String(property);
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { cluster: noting, firstUse: () => used };
}
