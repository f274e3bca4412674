// Also change: internal/trireme/cli/decision_display.py,
// internal/trireme/insight/preemption_explanation.py (the words for fates and criteria).
// Whom a waiting pod would preempt, which pods of that node stay and why, or why it preempts nobody.
import type { ApiError } from "../api.ts";
import type { Explanation, PodPreemption, PreemptionPod } from "../documents.ts";
import { count, plural, podHref } from "../format.ts";
import { Pill, Waiting } from "../parts.tsx";
import { NodeName } from "./refusals.tsx";

const SHOWN = 10;

const EVICTED = "evicted";

const WHAT_HAPPENS: Record<string, string> = {
  PREEMPTION_POD_REASON_UNSPECIFIED: EVICTED,
  PREEMPTION_POD_REASON_PRIORITY: "stays: its priority is not lower",
  PREEMPTION_POD_REASON_REPRIEVED: "stays: the pod fits beside it",
  PREEMPTION_POD_REASON_BUDGET: "stays: a disruption budget protects it, and the pod fits beside it",
  PREEMPTION_POD_REASON_BUDGET_VIOLATED: "evicted, though a disruption budget protects it",
  PREEMPTION_POD_REASON_TERMINATING: "is being deleted already",
};

const DECIDED_BY: Record<string, string> = {
  budgetViolations: "it violates fewer disruption budgets",
  highestPriority: "its most important victim has a lower priority",
  prioritySum: "the priorities of its victims add up to less",
  victims: "it has fewer victims",
  startTime: "its most important victims started later",
  order: "both cost the same, and it was tried first",
};

// A group preempts as a whole: its victims are on any nodes.
function GroupPreemption({ found }: { found: PodPreemption }) {
  return (
    <>
      <p>
        Its group {found.podGroup} would preempt {plural(found.victims.length, "pod")}
        {found.placements.length > 0 && <>; {plural(found.placements.length, "member")} would fit then</>}.
      </p>
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Pod</th>
            <th scope="col" class="number">
              Priority
            </th>
            <th scope="col">Evicted from</th>
          </tr>
        </thead>
        <tbody>
          {found.victims.map(({ pod, priority, nodeName }) => (
            <tr key={`${pod.namespace}/${pod.name}`}>
              <td>
                <a href={podHref(pod.namespace, pod.name)}>
                  {pod.namespace}/{pod.name}
                </a>
              </td>
              <td class="number">{priority}</td>
              <td>
                <NodeName name={nodeName} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Nobody({ found }: { found: PodPreemption }) {
  const counts: [number, string][] = [
    [found.unresolvableCount, "evicting pods would not help on"],
    [found.withoutVictimsCount, "no pod of lower priority is on"],
    [found.notEnoughCount, "evicting all pods of lower priority is not enough, or was not tried, on"],
  ];
  const counted = counts.filter(([number]) => number);
  return (
    <>
      <p>
        <Pill tone="mute">nobody</Pill> {found.podGroup && `for its group ${found.podGroup}: `}
        {found.reason}
      </p>
      {/* One that says no more than the reason is left out. */}
      {counted.length > 1 && (
        <ul>
          {counted.map(([number, text]) => (
            <li key={text}>
              {text} {plural(number, "node")}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function PodRows({ pods }: { pods: PreemptionPod[] }) {
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">Pod</th>
          <th scope="col" class="number">
            Priority
          </th>
          <th scope="col">What happens</th>
        </tr>
      </thead>
      <tbody>
        {pods.map(({ pod, priority, reason }) => (
          <tr key={`${pod.namespace}/${pod.name}`}>
            <td>
              <a href={podHref(pod.namespace, pod.name)}>
                {pod.namespace}/{pod.name}
              </a>
            </td>
            <td class="number">{priority}</td>
            <td>{WHAT_HAPPENS[reason] ?? reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Preemption({ explanation, error }: { explanation: Explanation | null; error: ApiError | null }) {
  if (!explanation) return error ? <Waiting error={error} /> : <div class="loading">Looking for victims…</div>;
  const found = explanation.preemption;
  // Meanwhile a node may have become feasible, or the pod may be bound.
  if (!found) return <p class="note">A node is feasible: nobody has to go.</p>;
  if (found.reason) return <Nobody found={found} />;
  if (!found.victims.length) return <p class="note">It would preempt pods, which only those see who may list all pods and nodes.</p>;
  if (found.podGroup) return <GroupPreemption found={found} />;
  const pods = [...found.victims, ...found.spared];
  const shown = pods.slice(0, Math.max(found.victims.length, SHOWN));
  const next = found.candidates[1];
  return (
    <>
      <p>
        It would preempt {plural(found.victims.length, "pod")} on <NodeName name={found.nodeName} />
        {next && (
          <>
            , one of {count(found.candidateCount)} nodes with such pods; before <NodeName name={next.name} />, because{" "}
            {DECIDED_BY[found.decidedBy] ?? found.decidedBy}
          </>
        )}
        .
      </p>
      <PodRows pods={shown} />
      {shown.length < pods.length && <p class="note">{plural(pods.length - shown.length, "more pod")} of the node would stay.</p>}
    </>
  );
}
