// Also change: console/src/style.css (the steps of use and their colours).
// By what nodes are coloured: each node gets an entry of a legend. Colours are those of the style sheet, by number.
import type { Explanation } from "./documents.ts";
import { taintText } from "./format.ts";
import { share, type NodeRow } from "./node_data.ts";

export interface LegendEntry {
  // `use-0` to `use-5`, `kind-0` to `kind-7`, `none`, `ok`.
  colour: string;
  text: string;
  nodes: number;
}

export interface Colouring {
  legend: LegendEntry[];
  // By slot the number of its entry.
  entryOf: Map<number, number>;
}

const KINDS = 8;
const USE_STEPS = [0.2, 0.4, 0.6, 0.8, 0.95];

export function byUse(rows: readonly NodeRow[], resource: string): Colouring {
  const texts = ["under 20 %", "20–40 %", "40–60 %", "60–80 %", "80–95 %", "95 % or more"];
  const legend = texts.map((text, step) => ({ colour: `use-${step}`, text, nodes: 0 }));
  legend.push({ colour: "none", text: `no ${resource}`, nodes: 0 });
  const entryOf = new Map<number, number>();
  for (const row of rows) {
    const used = share(row, resource);
    const step = used === null ? legend.length - 1 : USE_STEPS.filter((bound) => used >= bound).length;
    entryOf.set(row.slot, step);
    (legend[step] as LegendEntry).nodes += 1;
  }
  return { legend, entryOf };
}

// Nodes with the same text get the same colour; the most frequent ones have colours of their own.
function byText(rows: readonly NodeRow[], textOf: (row: NodeRow) => string, none: string): Colouring {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(textOf(row), (counts.get(textOf(row)) ?? 0) + 1);
  const absent = counts.get("") ?? 0;
  counts.delete("");
  const ordered = [...counts].sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0]));
  const legend: LegendEntry[] = ordered.slice(0, KINDS).map(([text, nodes], at) => ({ colour: `kind-${at}`, text, nodes }));
  const numbers = new Map(legend.map((entry, at) => [entry.text, at]));
  const rest = ordered.slice(KINDS);
  let other = -1;
  if (rest.length) {
    other = legend.push({ colour: "other", text: `${rest.length} others`, nodes: rest.reduce((sum, each) => sum + each[1], 0) }) - 1;
  }
  let without = -1;
  if (absent) without = legend.push({ colour: "none", text: none, nodes: absent }) - 1;
  const entryOf = new Map<number, number>();
  for (const row of rows) {
    const text = textOf(row);
    entryOf.set(row.slot, text ? (numbers.get(text) ?? other) : without);
  }
  return { legend, entryOf };
}

export function byTaints(rows: readonly NodeRow[]): Colouring {
  return byText(rows, (row) => row.taints.map(taintText).join(", ") || (row.unschedulable ? "unschedulable" : ""), "no taints");
}

export function byLabel(rows: readonly NodeRow[], label: string): Colouring {
  return byText(rows, (row) => row.value, `without ${label}`);
}

export function byFeasibility(rows: readonly NodeRow[], explanation: Explanation): Colouring {
  const reasons = new Map<string, string>();
  for (const refusal of explanation.refusals) {
    const text = `${refusal.status.plugin}: ${refusal.status.messages.join("; ") || refusal.status.code}`;
    for (const name of refusal.nodes) reasons.set(name, text);
  }
  const feasible = new Set(explanation.feasibleNodes.map((node) => node.name));
  const whole = explanation.preFilter ? `${explanation.preFilter.plugin}: ${explanation.preFilter.messages.join("; ")}` : "";
  const coloured = byText(rows, (row) => (feasible.has(row.name) ? "" : (reasons.get(row.name) ?? (whole || "not known"))), "feasible");
  for (const entry of coloured.legend) if (entry.colour === "none") entry.colour = "ok";
  return coloured;
}
