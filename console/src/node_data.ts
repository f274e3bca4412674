// Also change: internal/trireme/insight/console/views.py (the path of the document).
// Also change: internal/trireme/insight/console/node_documents.py (the columns of nodes).
// All nodes, kept up to date by what changed since the last answer.
import { useMemo, useRef } from "preact/hooks";
import { request, usePolled, type Loaded } from "./api.ts";
import type { NodeColumns, Taint } from "./documents.ts";

export interface NodeRow {
  slot: number;
  name: string;
  value: string;
  unschedulable: boolean;
  taints: Taint[];
  podCount: number;
  allowedPods: number;
  // Allocatable and requested by resource.
  resources: Map<string, { allocatable: number; requested: number }>;
}

export interface Nodes {
  rows: NodeRow[];
  label: string;
  labelKeys: string[];
}

interface Kept {
  label: string;
  incarnation: number;
  generation: number;
  bySlot: Map<number, NodeRow>;
}

export function useNodes(label: string): Loaded<Nodes> {
  const kept = useRef<Kept>({ label: "", incarnation: 0, generation: 0, bySlot: new Map() });
  return usePolled<Nodes>(
    `nodes ${label}`,
    async (signal) => {
      const before = kept.current.label === label ? kept.current : { label, incarnation: 0, generation: 0, bySlot: new Map<number, NodeRow>() };
      const query = `after=${before.generation}&incarnation=${before.incarnation}&label=${encodeURIComponent(label)}`;
      const { body } = await request<NodeColumns>(`v1/nodes?${query}`, "", signal);
      if (!body) return null;
      const known = before.generation > 0 && !body.whole && !body.slot.length && !body.gone.length;
      if (known) {
        kept.current = { ...before, generation: body.generation };
        return null;
      }
      const bySlot = body.whole ? new Map<number, NodeRow>() : new Map(before.bySlot);
      for (const slot of body.gone) bySlot.delete(slot);
      for (const row of rowsOf(body)) bySlot.set(row.slot, row);
      kept.current = { label, incarnation: body.incarnation, generation: body.generation, bySlot };
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      const rows = [...bySlot.values()].sort((one, other) => compare(one.name, other.name));
      return { rows, label: body.label, labelKeys: body.labelKeys };
    },
    2000,
  );
}

function rowsOf(columns: NodeColumns): NodeRow[] {
  return columns.slot.map((slot, at) => ({
    slot,
    name: columns.name[at] ?? "",
    value: columns.value[at] ?? "",
    unschedulable: Boolean(columns.unschedulable[at]),
    taints: columns.taintSets[columns.taints[at] ?? 0] ?? [],
    podCount: columns.podCount[at] ?? 0,
    allowedPods: columns.allowedPods[at] ?? 0,
    resources: new Map(
      columns.resources.map((each) => [
        each.name,
        { allocatable: each.allocatable[at] ?? 0, requested: each.requested[at] ?? 0 },
      ]),
    ),
  }));
}

// How much of a node's resource is requested, from 0 to 1 or more; null: it has none.
export function share(row: NodeRow, resource: string): number | null {
  if (resource === "pods") return row.allowedPods ? row.podCount / row.allowedPods : null;
  const found = row.resources.get(resource);
  return found && found.allocatable > 0 ? found.requested / found.allocatable : null;
}

export function useResourceNames(rows: readonly NodeRow[] | undefined): string[] {
  return useMemo(() => [...new Set((rows ?? []).flatMap((row) => [...row.resources.keys()]))].concat("pods"), [rows]);
}
