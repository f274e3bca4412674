// Also change: protos/trireme/v1/simulation.proto (the messages).
// Also change: internal/trireme/insight/http_api/simulation_page.py, internal/trireme/cli/simulation_display.py,
// console/src/documents.ts (what a simulation is asked and answers).
// What would happen if nodes were drained or added, or a workload scaled: simulated by insight, and carried out by nobody.
import { useState } from "preact/hooks";
import { ApiError, request } from "../api.ts";
import type { Simulated } from "../documents.ts";
import { count, plural } from "../format.ts";
import { Answer, Empty, Failure, Panel, RowTable } from "../parts.tsx";
import { NodeName } from "./refusals.tsx";

const KINDS = { drain: "drain nodes", add: "add nodes", scale: "scale a Deployment" } as const;
type Kind = keyof typeof KINDS;

function changeOf(kind: Kind, name: string, number: number): object {
  if (kind === "drain") return { drain: { nodeNames: name.split(/[\s,]+/).filter(Boolean) } };
  if (kind === "add") return { addNodes: { count: number, likeNode: name } };
  const [namespace, workload] = name.includes("/") ? name.split("/") : ["default", name];
  return { scale: { kind: "Deployment", namespace, name: workload, replicas: number } };
}

// A row for each reason, however many pods have it.
function Pending({ pending }: { pending: Simulated["pending"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Pods that would stay pending">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col" class="number">
              Pods
            </th>
            <th scope="col">Would stay pending, because</th>
            <th scope="col" class="extra">
              Examples
            </th>
          </tr>
        </thead>
        <tbody>
          {pending.map(({ message, pods }) => (
            <tr key={message}>
              <td class="number">{count(pods.length)}</td>
              <td class="message">{message}</td>
              <td class="extra message">
                {pods.slice(0, 3).map((pod) => `${pod.namespace}/${pod.name}`).join(", ")}
                {pods.length > 3 && " …"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Result({ found }: { found: Simulated }) {
  const rows = [
    ...found.placements.map((each) => ({ pod: each.pod, what: "placed on", node: each.nodeName })),
    ...found.evictions.map((each) => ({ pod: each.pod, what: "evicted from", node: each.nodeName })),
    ...found.blocked.map((each) => ({ pod: each.pod, what: "stays, by its disruption budget, on", node: each.nodeName })),
  ];
  const pending = found.pending.reduce((sum, each) => sum + each.pods.length, 0);
  return (
    <Panel title="What would happen" note={`nodes in use ${count(found.before.usedNodes)} → ${count(found.after.usedNodes)}`}>
      <p role="status">
        {plural(found.placements.length, "pod")} placed, {count(pending)} pending, {count(found.evictions.length)} evicted.{" "}
        {found.notSimulated.length > 0 && `Not simulated: ${found.notSimulated.join("; ")}.`}
      </p>
      {rows.length > 0 && (
        <RowTable
          label="Simulated pods"
          rows={rows}
          rowKey={(row) => `${row.pod.namespace}/${row.pod.name} ${row.what}`}
          columns={[
            { title: "Pod", wide: true, cell: (row) => `${row.pod.namespace}/${row.pod.name}` },
            { title: "Would be", cell: (row) => row.what },
            { title: "Node", cell: (row) => row.node && <NodeName name={row.node} /> },
          ]}
        />
      )}
      {pending > 0 && <Pending pending={found.pending} />}
      {!rows.length && !pending && (
        <Empty title="Nothing would change">Pods that would be placed, evicted, or stay pending appear here.</Empty>
      )}
    </Panel>
  );
}

export function SimulationView() {
  const [kind, setKind] = useState<Kind>("drain");
  const [name, setName] = useState("");
  const [number, setNumber] = useState(1);
  const [running, setRunning] = useState(false);
  const [found, setFound] = useState<Simulated | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const simulate = async (): Promise<void> => {
    setRunning(true);
    setError(null);
    try {
      const body = { scenario: { changes: [changeOf(kind, name, number)] } };
      setFound((await request<Simulated>("v1/simulation", "", undefined, body)).body);
    } catch (problem) {
      setFound(null);
      if (problem instanceof ApiError) setError(problem);
    }
    setRunning(false);
  };
  return (
    <>
      <h1>Simulation</h1>
      <Answer>What would happen after a change: nothing is carried out.</Answer>
      <Panel title="What if">
        <form class="controls" onSubmit={(event) => (event.preventDefault(), void simulate())}>
          <label>
            Change{" "}
            <select value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
              {Object.entries(KINDS).map(([key, text]) => (
                <option key={key} value={key}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            {kind === "drain" ? "Nodes" : kind === "add" ? "Like node" : "Namespace/name"}{" "}
            <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          {kind !== "drain" && (
            <label>
              {kind === "add" ? "How many" : "Replicas"}{" "}
              <input type="number" min="0" max="100000" value={number} onInput={(event) => setNumber(event.currentTarget.valueAsNumber || 0)} />
            </label>
          )}
          <button type="submit" class="primary" disabled={running}>
            {running ? "Simulating…" : "Simulate"}
          </button>
        </form>
      </Panel>
      {error && <Failure error={error} />}
      {found && <Result found={found} />}
    </>
  );
}
