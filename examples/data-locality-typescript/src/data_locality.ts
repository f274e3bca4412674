/** The scheduler plugin DataLocality: prefers nodes that have a pod's data, as an external index says. */
import {
  ArgumentReader,
  type Call,
  type Configuration,
  Dependency,
  type Info,
  type Node,
  NodeData,
  type Plugin,
  SKIP,
  type Status,
} from "@trireme/plugin-sdk";
import type { Pod } from "@trireme/plugin-sdk/v1";
import type { DataSet, Index } from "./index_client.js";

/** The data sets that a pod reads, separated by commas. */
export const ANNOTATION = "example.com/data-sets";
const ZONE = "topology.kubernetes.io/zone";

/** A profile's arguments. */
export interface Settings {
  /** The score of a node in a zone with a copy, where a node with a copy has 100. */
  readonly sameZone: number;
}

/**
 * Its answers depend on the node and on the index. The scheduler caches them for as long as the version stays, so the
 * version has the index's revision: with another index the cached answers are dropped.
 */
export class DataLocality implements Plugin<Settings, undefined> {
  private index: Index;

  constructor(index: Index) {
    this.index = index;
  }

  /** Read again at each handshake, every few seconds. */
  get info(): Info {
    return {
      name: "DataLocality",
      version: `1.0.0+index.${this.index.revision}`,
      dependsOn: Dependency.NODE,
      nodeData: NodeData.MESSAGES,
      podFields: [`metadata.annotations['${ANNOTATION}']`],
    };
  }

  /** Uses another index from now on; whether it differs. */
  replace(index: Index): boolean {
    const differs = index.revision !== this.index.revision;
    this.index = index;
    return differs;
  }

  /** `sameZone`: the score of a node in a zone with a copy, 0 to 100. */
  configure({ args }: Configuration): Settings {
    const reader = new ArgumentReader(args);
    const sameZone = reader.number("sameZone", 50, { min: 0, max: 100, integer: true });
    reader.finish();
    return { sameZone };
  }

  /** Pods without data that the index knows are not scored. */
  preScore(call: Call<Settings, undefined>): Status | undefined {
    return this.dataSetsOf(call.pod).length === 0 ? SKIP : undefined;
  }

  /** 0 to 100: how near the node is to the pod's data, each data set weighted by its size. */
  score(call: Call<Settings, undefined>, node: Node): number {
    const dataSets = this.dataSetsOf(call.pod);
    const total = dataSets.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total === 0) return 0;
    const near = dataSets.reduce((sum, each) => sum + each.bytes * nearness(each, node, call.config.sameZone), 0);
    return Math.round(near / total);
  }

  private dataSetsOf(pod: Pod): DataSet[] {
    const names = (pod.metadata?.annotations[ANNOTATION] ?? "").split(",").map((name) => name.trim());
    return [...new Set(names)].map((name) => this.index.dataSets.get(name)).filter((found) => found !== undefined);
  }
}

function nearness(dataSet: DataSet, node: Node, sameZone: number): number {
  if (dataSet.nodes.has(node.name)) return 100;
  return dataSet.zones.has(node.labels[ZONE] ?? "") ? sameZone : 0;
}
