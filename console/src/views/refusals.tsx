// The nodes' verdicts on a pod: how many refuse it for which reason, and how many take it.
import { useState } from "preact/hooks";
import type { Explanation, RefusalStatus, Shortage } from "../documents.ts";
import { count, nodeHref, plural, podHref } from "../format.ts";
import { moment } from "../moment.ts";
import { Pill } from "../parts.tsx";

export function statusText(status: RefusalStatus): string {
  return status.messages.join("; ") || status.code;
}

function feasibility(nodes: number): string {
  if (moment.value !== null) return `${nodes === 1 ? "was" : "were"} feasible then`;
  return `${nodes === 1 ? "is" : "are"} feasible now`;
}

export function Refusals({ explanation, limit }: { explanation: Explanation; limit?: number }) {
  const [all, setAll] = useState(false);
  if (explanation.nodeName)
    return (
      <p>
        It is on node <NodeName name={explanation.nodeName} />.
      </p>
    );
  if (explanation.preFilter)
    return (
      <p class="whole">
        <Pill tone="bad">{explanation.preFilter.plugin}</Pill> refuses it on all nodes at once: {statusText(explanation.preFilter)}
      </p>
    );
  const refusals = explanation.refusals;
  const shown = all || limit === undefined ? refusals : refusals.slice(0, limit);
  const total = Math.max(explanation.nodeCount, 1);
  return (
    <>
      <p class="feasible">
        <Pill tone={explanation.feasibleCount ? "ok" : "bad"}>
          {explanation.feasibleAtMost && "at most "}
          {count(explanation.feasibleCount)} of {plural(explanation.nodeCount, "node")}
        </Pill>{" "}
        {feasibility(explanation.feasibleCount)}
      </p>
      {refusals.length > 0 && (
        <table class="plain">
          <thead>
            <tr>
              <th scope="col" class="number">
                Nodes
              </th>
              <th scope="col">Refused by</th>
              <th scope="col">Reason</th>
              <th scope="col" class="extra">
                Examples
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((refusal) => (
              <tr key={`${refusal.status.plugin} ${statusText(refusal.status)}`}>
                <td class="number share-cell">
                  <span
                    class="share"
                    aria-hidden="true"
                    style={{ width: `${(100 * refusal.nodeCount) / total}%` }}
                  />
                  <b>{count(refusal.nodeCount)}</b>
                </td>
                <td>{refusal.status.plugin}</td>
                <td class="message">
                  {statusText(refusal.status)}
                  <Parameters status={refusal.status} />
                  {(refusal.shortages ?? []).map((shortage) => (
                    <ShortageLine key={shortage.resource} shortage={shortage} />
                  ))}
                </td>
                <td class="extra examples">
                  {refusal.nodes.slice(0, 3).map((name) => (
                    <NodeName key={name} name={name} />
                  ))}
                  {refusal.nodes.length > 3 && "…"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shown.length < refusals.length && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show all {refusals.length} reasons
        </button>
      )}
    </>
  );
}

// How much is free where most is, and who uses the rest.
function ShortageLine({ shortage }: { shortage: Shortage }) {
  const users = shortage.users.slice(0, 3);
  const more = shortage.moreUsers + shortage.users.length - users.length;
  return (
    <span class="shortage">
      {shortage.resource}: at most {shortage.free.string} of {shortage.allocatable.string} free, on{" "}
      <NodeName name={shortage.nodeName} />
      {users.length > 0 && "; used by "}
      {users.map((user, number) => (
        <>
          {number > 0 && ", "}
          {user.nominated ? "a nominated pod" : <a href={podHref(user.pod.namespace, user.pod.name)}>{user.pod.name}</a>} ({user.used.string})
        </>
      ))}
      {more > 0 && (users.length ? ` and ${plural(more, "more pod")}` : `; ${plural(more, "pod")} there`)}
    </span>
  );
}

// The numbers behind a refusal, as plugins give them.
function Parameters({ status }: { status: RefusalStatus }) {
  const texts = status.reasons.flatMap((reason) => Object.entries(reason.parameters).map(([name, value]) => `${name} ${value}`));
  return texts.length ? <span class="parameters">{texts.join(" · ")}</span> : null;
}

export function NodeName({ name }: { name: string }) {
  return name.startsWith("(") ? <span>{name}</span> : <a href={nodeHref(name)}>{name}</a>;
}
