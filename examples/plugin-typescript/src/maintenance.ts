// Also change: examples/plugin-python/maintenance.py, examples/plugin-go/maintenance.go,
// examples/plugin-java/src/main/java/dev/trireme/examples/Maintenance.java (the same plugin).

/** The scheduler plugin Maintenance: keeps pods off nodes under maintenance, and prefers nodes that are wanted. */
import {
  ArgumentReader,
  type Call,
  type Configuration,
  Dependency,
  type Info,
  type Node,
  NodeData,
  type Plugin,
  unresolvable,
  type Verdict,
} from "@trireme/plugin-sdk";

/** A node with this label, whatever its value, gets no new pods. A profile's args may name another one. */
export const MAINTENANCE = "example.com/maintenance";

/** How much a node is wanted: a whole number from 0 to 100. Without it: 0. */
export const PREFERENCE = "example.com/preference";

/** A label's key. */
const KEY = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

/** Its answers depend on the node alone, so it is called once for each node and class of pods. */
export class Maintenance implements Plugin<string> {
  readonly info: Info = {
    name: "Maintenance",
    version: "1.0.0",
    dependsOn: Dependency.NODE,
    nodeData: NodeData.MESSAGES,
    // Nothing else of the pod matters, so nothing else is sent.
    podFields: ["metadata.namespace"],
    // These changes may help a pod that was refused.
    events: [{ resource: "Node", actions: ["Add", "UpdateNodeLabel"] }],
  };

  /** The label of nodes under maintenance: `maintenanceLabel` of the profile's args. */
  configure({ args }: Configuration): string {
    const reader = new ArgumentReader(args);
    const label = reader.string("maintenanceLabel", MAINTENANCE, (value) =>
      KEY.test(value) ? undefined : "must be the key of a label",
    );
    reader.finish();
    return label;
  }

  /** Refuses the nodes under maintenance. Evicting pods from them would not help. */
  filter(call: Call<string>, node: Node): Verdict {
    const label = call.config;
    if (!Object.hasOwn(node.labels, label)) return undefined;
    return unresolvable("node(s) were under maintenance", "underMaintenance", { label });
  }

  /** The node's preference. */
  score(_call: Call<string>, node: Node): number {
    const preference = node.labels[PREFERENCE] ?? "";
    return /^-?[0-9]+$/.test(preference) ? Math.min(Math.max(Number(preference), 0), 100) : 0;
  }
}
