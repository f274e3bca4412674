// Also change: protos/trireme/v1/decision_explanation.proto (the messages).
// Also change: internal/trireme/cli/decision_display.py, console/src/documents.ts (how a decision is shown).
// How a pod that is on a node got it: the decision as it was, as far as insight remembers.
import { request, usePolled } from "../api.ts";
import type { Decision } from "../documents.ts";
import { count, plural, preciseTime, seconds } from "../format.ts";
import { Empty, Panel, Pill, Waiting } from "../parts.tsx";
import { NodeName, RefusalTable } from "./refusals.tsx";

const KINDS: Record<string, string> = {
  DECISION_KIND_SCORED: "by score",
  DECISION_KIND_ONLY_NODE: "the only feasible node",
  DECISION_KIND_NOMINATED: "nominated to it before",
};

function how(decision: Decision): string {
  if (decision.kind !== "DECISION_KIND_SCORED") return KINDS[decision.kind] ?? decision.kind;
  if (decision.tiedCount) return `tied with ${plural(decision.tiedCount, "other node")}, decided by their order`;
  return decision.feasibleNodes.length > 1 ? `by score, ${decision.margin} ahead of the next` : "by score";
}

function Facts({ decision }: { decision: Decision }) {
  return (
    <dl class="facts">
      <div>
        <dt>Node</dt>
        <dd>
          <NodeName name={decision.nodeName} />
        </dd>
      </div>
      <div>
        <dt>Chosen</dt>
        <dd>{how(decision)}</dd>
      </div>
      <div>
        <dt>Decided</dt>
        <dd>{preciseTime(Number(decision.decidedUnixMs))}</dd>
      </div>
      <div>
        <dt>Feasible</dt>
        <dd>
          {decision.feasibleAtMost && "at most "}
          {count(decision.feasibleCount)} of {plural(decision.nodeCount, "node")}
        </dd>
      </div>
      {decision.batchSize > 1 && (
        <div>
          <dt>Batch</dt>
          <dd>
            {plural(decision.batchSize, "pod")}, {count(decision.batchBefore.length)} before it
          </dd>
        </div>
      )}
      {decision.steps.map((step) => (
        <div key={step.name}>
          <dt>{step.name === decision.longestStep ? `${step.name}, the longest` : step.name}</dt>
          <dd>{seconds(Number(step.durationUs) / 1e6)}</dd>
        </div>
      ))}
    </dl>
  );
}

function Scores({ decision }: { decision: Decision }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Scores of the decision">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col" class="number">
              Total
            </th>
            {decision.scorePlugins.map((plugin) => (
              <th scope="col" class="number" key={plugin.name}>
                {plugin.name} ×{plugin.weight}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {decision.feasibleNodes.map((node) => (
            <tr key={node.name}>
              <td>
                <NodeName name={node.name} /> {node.name === decision.nodeName && <Pill tone="ok">chosen</Pill>}
              </td>
              <td class="number">
                <b>{node.total}</b>
              </td>
              {decision.scorePlugins.map((plugin, index) => (
                <td class="number" key={plugin.name}>
                  {plugin.skipped ? "–" : node.scores[index]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function DecisionPanel({ path }: { path: string }) {
  // It does not change; only a new pod of this name would have another one.
  const { data, error } = usePolled<Decision>(
    `${path}/decision`,
    async (signal) => (await request<Decision>(`${path}/decision`, "", signal)).body,
    30_000,
  );
  if (!data && error?.code === 404)
    return (
      <Panel title="Decision">
        <Empty title="The decision is not remembered">{error.message}</Empty>
      </Panel>
    );
  return (
    <Panel title="Decision" note="as it was">
      {!data && <Waiting error={error} />}
      {data && <Facts decision={data} />}
      {data?.preemption && data.preemption.victims.length > 0 && (
        <p>
          Room was made for it: {data.preemption.victims.map((victim) => `${victim.pod.namespace}/${victim.pod.name}`).join(", ")} had to go.
        </p>
      )}
      {data && (data.inexact || data.differs || data.notKnown.length > 0) && (
        <p class="note">
          {[
            data.inexact && "The cluster changed before the phase answered, so it may have decided on a later state.",
            data.differs && "Evaluated again, another node comes first.",
            ...data.notKnown,
          ]
            .filter(Boolean)
            .join(" ")}
        </p>
      )}
      {data && data.feasibleNodes.length > 0 && <Scores decision={data} />}
      {data && <RefusalTable refusals={data.refusals} nodeCount={data.nodeCount} />}
    </Panel>
  );
}
