/** The scheduler plugin MaintenanceWindows: nodes take no pods during their maintenance windows. */
import {
  ArgumentReader,
  type BindItem,
  type Call,
  type Change,
  type Configuration,
  Dependency,
  type Info,
  type Logger,
  type Node,
  NodeData,
  type Plugin,
  silentLogger,
  unresolvable,
  type Verdict,
} from "@trireme/plugin-sdk";
import type { Pod } from "@trireme/plugin-sdk/v1";
import { PendingPods, type Wake } from "./pending.js";
import { ANNOTATION, closedUntil, parseWindows, type Window } from "./windows.js";

/** A profile's arguments. */
export interface Settings {
  /** How long before a window's start a node takes no more pods. */
  readonly leadMs: number;
}

/** What the plugin needs of its surroundings. */
export interface Surroundings {
  readonly wake?: Wake;
  readonly now?: () => number;
  readonly log?: Logger;
}

/**
 * Its answers change with the time, which no node shows, so they depend on CLUSTER and are not cached. No event happens
 * when a window ends: the plugin itself activates the pods that it has refused.
 */
export class MaintenanceWindows implements Plugin<Settings> {
  readonly info: Info = {
    name: "MaintenanceWindows",
    version: "1.0.0",
    dependsOn: Dependency.CLUSTER,
    nodeData: NodeData.MESSAGES,
    podFields: ["metadata.namespace"],
    events: [{ resource: "Node", actions: ["Add", "UpdateNodeAnnotation"] }],
  };
  private readonly pending: PendingPods;
  private readonly now: () => number;
  private readonly log: Logger;

  constructor({ wake = async () => {}, now = Date.now, log = silentLogger }: Surroundings = {}) {
    this.pending = new PendingPods(wake, now);
    this.now = now;
    this.log = log;
  }

  /** `leadMinutes`: how long before a window's start a node takes no more pods. */
  configure({ args }: Configuration): Settings {
    const reader = new ArgumentReader(args);
    const leadMinutes = reader.number("leadMinutes", 0, { min: 0, max: 1440 });
    reader.finish();
    return { leadMs: leadMinutes * 60_000 };
  }

  /** Remembers which pods there are; lets each in. */
  preEnqueue(pod: Pod): void {
    const { namespace = "", name = "", uid = "" } = pod.metadata ?? {};
    this.pending.add({ namespace, name, uid });
  }

  /** Refuses a node during its windows. Evicting pods from it would not help. */
  filter(call: Call<Settings>, node: Node): Verdict {
    const until = closedUntil(this.windowsOf(node), this.now(), call.config.leadMs);
    if (until === undefined) return undefined;
    this.pending.refused(call.pod.metadata?.namespace ?? "", until);
    // The same message for all nodes, since messages are counted; the end is a parameter of the reason.
    const parameters = { until: new Date(until).toISOString() };
    return unresolvable("node(s) were in a maintenance window", "maintenanceWindow", parameters);
  }

  /** A node helps that is new or has other windows, unless it is in one; whether it is, the next filter finds out. */
  queueingHint(_pod: Pod, change: Change): boolean {
    const [before, after] = [change.oldObject, change.newObject].map(
      (object) => object?.metadata?.annotations?.[ANNOTATION] as string | undefined,
    );
    if (change.oldObject !== undefined && before === after) return false;
    return closedUntil(this.parse(change.newObject?.metadata?.name ?? "", after), this.now(), 0) === undefined;
  }

  /** Forgets a pod that needs no waking any more. */
  postBind(_call: Call<Settings>, item: BindItem<unknown>): void {
    this.pending.remove(item.pod.uid);
  }

  /** Stops the timer. */
  close(): void {
    this.pending.close();
  }

  private windowsOf(node: Node): readonly Window[] {
    return this.parse(node.name, node.annotations[ANNOTATION]);
  }

  /** The windows of a node; one whose annotation cannot be read has none, so that a slip does not close the cluster. */
  private parse(node: string, text: string | undefined): readonly Window[] {
    if (text === undefined) return [];
    try {
      return parseWindows(text);
    } catch (error) {
      this.log.warn("a node's maintenance windows cannot be read", { node, error: String(error) });
      return [];
    }
  }
}
