// Also change: internal/trireme/cli/node_tables.py (scores as a table).
// The feasible nodes with their scores, in the order in which score would choose for the pod.
import { request, usePolled } from "../api.ts";
import type { Explanation } from "../documents.ts";
import { Empty, Panel, Waiting } from "../parts.tsx";
import { NodeName, statusText } from "./refusals.tsx";

const SHOWN = 10;

export function Scores({ path }: { path: string }) {
  const { data, error } = usePolled<Explanation>(
    path,
    async (signal) => (await request<Explanation>(`${path}?scores=true`, "", signal)).body,
    5000,
  );
  return (
    <Panel title="Where it would go" note="best first">
      {!data && <Waiting error={error} />}
      {data?.scoreFailure && <Empty title="Scoring failed">{statusText(data.scoreFailure)}</Empty>}
      {data && data.feasibleNodes.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Scores">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col" class="number">
                  Total
                </th>
                {data.scorePlugins.map((plugin) => (
                  <th scope="col" class="number" key={plugin.name}>
                    {plugin.name}
                    <span class="faint"> ×{plugin.weight}</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {data.feasibleNodes.slice(0, SHOWN).map((node) => (
                <tr key={node.name}>
                  <td>
                    <NodeName name={node.name} />
                  </td>
                  <td class="number">
                    <b>{node.total}</b>
                  </td>
                  {data.scorePlugins.map((plugin, index) => (
                    <td class="number" key={plugin.name}>
                      {plugin.skipped ? "–" : node.scores[index]}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
