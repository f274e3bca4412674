// Also change: protos/trireme/v1/volume_proposal.proto (the messages).
// Also change: internal/trireme/cli/proposals_display.py, internal/trireme/insight/proposals/search.py,
// tests/helpers/proposed_changes.py (kinds of changes and their words).
// Changes each of which lets a pod be scheduled, the least first, and how to make them.
import type { ApiError } from "../api.ts";
import type { Explanation, Proposal } from "../documents.ts";
import { plural, quantityNumber, quantityText, taintText } from "../format.ts";
import { Copy, Empty, Waiting } from "../parts.tsx";
import { NodeName } from "./refusals.tsx";

interface Advice {
  title: string;
  how: string;
  // A command, or a piece of YAML.
  text: string;
}

function advice(proposal: Proposal, namespace: string): Advice {
  if (proposal.tolerateTaints) {
    const { taints } = proposal.tolerateTaints;
    const entries = taints.map((taint) =>
      [
        `- key: ${taint.key}`,
        ...(taint.value ? ["  operator: Equal", `  value: ${JSON.stringify(taint.value)}`] : ["  operator: Exists"]),
        `  effect: ${taint.effect}`,
      ].join("\n"),
    );
    return {
      title: `Tolerate ${taints.map(taintText).join(", ")}`,
      how: "In the pod's template, or in the waiting pod itself:",
      text: `tolerations:\n${entries.join("\n")}`,
    };
  }
  if (proposal.lowerRequest) {
    const { container, resource, current, proposed } = proposal.lowerRequest;
    const where = container ? `container ${container}` : "the pod";
    return {
      title: `Request less: ${quantityText(resource, proposed.string)} in place of ${quantityNumber(resource, current.string)} (${where})`,
      how: "In the pod's template:",
      text: `resources:\n  requests:\n    ${resource}: ${JSON.stringify(proposed.string)}`,
    };
  }
  if (proposal.dropConstraint)
    return {
      title: `Drop ${proposal.dropConstraint.field.replace(/^spec\./, "")}`,
      how: "Remove from the pod's template:",
      text: proposal.dropConstraint.field,
    };
  if (proposal.labelNode) {
    const { nodeName, labels } = proposal.labelNode;
    const pairs = Object.keys(labels)
      .sort()
      .map((key) => `${key}=${labels[key]}`);
    return {
      title: `Label ${nodeName} with ${pairs.join(", ")}`,
      how: "If it is true of this node, or of another one:",
      text: `kubectl label node ${nodeName} ${pairs.join(" ")}`,
    };
  }
  if (proposal.addNode)
    return { title: `1 more node like ${proposal.addNode.likeNode}`, how: "A node of the same shape, without pods.", text: "" };
  if (proposal.deletePods) {
    const { pods, nodeName, budgetViolations } = proposal.deletePods;
    const byNamespace = new Map<string, string[]>();
    for (const pod of pods) byNamespace.set(pod.namespace, [...(byNamespace.get(pod.namespace) ?? []), pod.name]);
    const commands = [...byNamespace].map(([space, names]) => `kubectl delete pod -n ${space} ${names.join(" ")}`);
    return {
      title: `Delete ${plural(pods.length, "pod")} of lower priority on ${nodeName}`,
      how: budgetViolations ? `It violates disruption budgets of ${plural(budgetViolations, "pod")}.` : "No disruption budget is violated.",
      text: commands.join("\n"),
    };
  }
  return { title: "Another change", how: `A newer insight proposes it: see trireme explain --proposals in namespace ${namespace}.`, text: "" };
}

export function Proposals(props: { explanation: Explanation | null; error: ApiError | null; namespace: string; name: string }) {
  const { explanation } = props;
  if (!explanation) return props.error ? <Waiting error={props.error} /> : <div class="loading">Simulating changes…</div>;
  const limits = explanation.proposalSearchLimits;
  return (
    <>
      {explanation.proposals.length === 0 && (
        <Empty title="No single change helps">Two changes together may, or the change is of a kind that is not tried.</Empty>
      )}
      <ol class="proposals">
        {explanation.proposals.map((proposal) => {
          const { title, how, text } = advice(proposal, props.namespace);
          return (
            <li key={title}>
              <details>
                <summary>
                  <span class="title">{title}</span>
                  <span class="note">{plural(proposal.feasibleCount, "node")}</span>
                </summary>
                <p>{how}</p>
                {text && <Copy text={text} label={title} />}
                {proposal.exampleNodes.length > 0 && (
                  <p class="examples">
                    Feasible then:{" "}
                    {proposal.exampleNodes.map((name) => (
                      <NodeName key={name} name={name} />
                    ))}
                  </p>
                )}
              </details>
            </li>
          );
        })}
      </ol>
      {limits.map((limit) => (
        <p class="note" key={limit.kind}>
          Not all was tried: {limit.tried} of {limit.candidates} of kind {limit.kind}.
        </p>
      ))}
    </>
  );
}
