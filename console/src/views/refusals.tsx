// Also change: protos/trireme/v1/shortage.proto (the messages).
// Also change: internal/trireme/cli/node_tables.py (how a shortage and refusals are shown).
// The nodes' verdicts on a pod: how many refuse it for which reason, and how many take it.
import { useState } from "preact/hooks";
import type { Explanation, RefusalStatus, Shortage } from "../documents.ts";
import { count, nodeHref, plural, podHref, quantityNumber, quantityText, taintText } from "../format.ts";
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
  return (
    <>
      <p class="feasible">
        <Pill tone={explanation.feasibleCount ? "ok" : "bad"}>
          {explanation.feasibleAtMost && "at most "}
          {count(explanation.feasibleCount)} of {plural(explanation.nodeCount, "node")}
        </Pill>{" "}
        {feasibility(explanation.feasibleCount)}
      </p>
      <RefusalTable refusals={explanation.refusals} nodeCount={explanation.nodeCount} limit={limit} />
    </>
  );
}

// A row for each reason; refusals that are alike share one.
export function RefusalTable(props: { refusals: Refusal[]; nodeCount: number; limit?: number }) {
  const [all, setAll] = useState(false);
  const refusals = alike(props.refusals);
  const shown = all || props.limit === undefined ? refusals : refusals.slice(0, props.limit);
  const total = Math.max(props.nodeCount, 1);
  return (
    <>
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
              <tr key={refusal.key}>
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
                  {refusal.single.length > 1 ? <Values refusals={refusal.single} /> : <Parameters status={refusal.status} />}
                  {refusal.shortages.map((shortage) => (
                    <ShortageLine key={shortage.resource} shortage={shortage} />
                  ))}
                </td>
                <td class="extra examples">
                  {refusal.nodes.slice(0, 3).map((name) => (
                    <span key={name}>
                      <NodeName name={name} />{" "}
                    </span>
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
      {shortage.resource}: at most {quantityNumber(shortage.resource, shortage.free.string)} of{" "}
      {quantityText(shortage.resource, shortage.allocatable.string)} free, on{" "}
      <NodeName name={shortage.nodeName} />
      {users.length > 0 && "; used by "}
      {users.map((user, number) => (
        <>
          {number > 0 && ", "}
          {user.nominated ? "a nominated pod" : <a href={podHref(user.pod.namespace, user.pod.name)}>{user.pod.name}</a>} ({quantityText(shortage.resource, user.used.string)})
        </>
      ))}
      {more > 0 && (users.length ? ` and ${plural(more, "more pod")}` : `; ${plural(more, "pod")} there`)}
    </span>
  );
}

// A decision of the past has no shortages.
type Refusal = Omit<Explanation["refusals"][number], "shortages"> & { shortages?: Shortage[] };
type Reason = RefusalStatus["reasons"][number];

// Refusals that differ in the parameter `value` alone, as taints with one key do.
interface Alike {
  key: string;
  status: RefusalStatus;
  nodeCount: number;
  nodes: string[];
  shortages: Shortage[];
  single: Refusal[];
}

const VALUE = "value";

export function alike(refusals: Refusal[]): Alike[] {
  const found = new Map<string, Alike>();
  for (const refusal of refusals) {
    const reasons = refusal.status.reasons.map((reason) => [
      reason.code,
      ...Object.entries(reason.parameters).filter(([name]) => name !== VALUE).sort(),
    ]);
    const key = JSON.stringify([refusal.status.plugin, refusal.status.messages, reasons]);
    const other = found.get(key);
    if (!other)
      found.set(key, {
        key,
        status: refusal.status,
        nodeCount: refusal.nodeCount,
        nodes: refusal.nodes,
        shortages: refusal.shortages ?? [],
        single: [refusal],
      });
    else {
      other.nodeCount += refusal.nodeCount;
      other.nodes = [...other.nodes, ...refusal.nodes];
      other.single.push(refusal);
    }
  }
  return [...found.values()].sort((one, other) => other.nodeCount - one.nodeCount);
}

// What a reason says, in words where they are known: `1,000 CPUs requested`, `gpu=true:NoSchedule`.
function reasonText({ code, parameters }: Reason): string {
  const { resource, asked, key, value, effect } = parameters;
  if (code === "insufficientResource" && resource && asked) return `${quantityText(resource, asked)} requested`;
  if (code === "untoleratedTaint" && key) return taintText({ key, value: value ?? "", effect: effect ?? "" });
  return Object.entries(parameters)
    .map(([name, each]) => `${name} ${each}`)
    .join(" · ");
}

function reasonsText(status: RefusalStatus): string {
  return status.reasons.map(reasonText).filter(Boolean).join(" · ");
}

// What is behind a refusal, as plugins give it.
function Parameters({ status }: { status: RefusalStatus }) {
  const text = reasonsText(status);
  return text ? <span class="parameters">{text}</span> : null;
}

// The refusals that one row stands for.
function Values({ refusals }: { refusals: Refusal[] }) {
  const common = refusals[0]!.status.reasons.map((reason) => ({ ...reason, parameters: { ...reason.parameters, [VALUE]: "*" } }));
  return (
    <details class="values">
      <summary>
        {common.map(reasonText).join(" · ")}, {plural(refusals.length, "value")}
      </summary>
      <ul>
        {refusals.map((refusal) => (
          <li key={reasonsText(refusal.status)}>
            <b class="number">{count(refusal.nodeCount)}</b> {reasonsText(refusal.status)}
          </li>
        ))}
      </ul>
    </details>
  );
}

export function NodeName({ name }: { name: string }) {
  return name.startsWith("(") ? <span>{name}</span> : <a href={nodeHref(name)}>{name}</a>;
}
