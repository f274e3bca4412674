// Also change: console/src/parts.tsx, internal/trireme/queueing/states.py,
// internal/trireme/insight/console/pending_pods.py (the words for states of the queue).
// Reasons why pods wait, as rows that lead to their pods.
import type { WaitReason } from "../documents.ts";
import { age, count } from "../format.ts";
import { State } from "../parts.tsx";
import { clock, useStore } from "../store.ts";

export function reasonTitle(reason: WaitReason): string {
  if (reason.plugins.length) return `Refused by ${reason.plugins.join(", ")}`;
  const titles: Record<string, string> = {
    active: "Waiting for their turn",
    backoff: "Backing off",
    "in flight": "Being tried",
    gated: "Held back",
    "waiting for its group": "Waiting for their group",
    unschedulable: "Waiting for an event",
  };
  return titles[reason.state] ?? reason.state;
}

export function ReasonList({ reasons, open, toggle }: { reasons: WaitReason[]; open?: string; toggle?: (id: string) => void }) {
  const now = useStore(clock);
  const most = Math.max(...reasons.map((reason) => reason.pods), 1);
  return (
    <ul class="reasons">
      {reasons.map((reason) => (
        <li key={reason.id} class={open === reason.id ? "open" : ""}>
          <a
            href={`#/pending?reason=${reason.id}`}
            aria-expanded={toggle ? open === reason.id : undefined}
            onClick={(event) => {
              if (!toggle) return;
              event.preventDefault();
              toggle(reason.id);
            }}
          >
            <span class="share" aria-hidden="true" style={{ width: `${(100 * reason.pods) / most}%` }} />
            <b class="number">{count(reason.pods)}</b>
            <span class="what">
              <span class="name">{reasonTitle(reason)}</span>
              {reason.text && <span class="text">{reason.text}</span>}
            </span>
            <span class="states">
              {Object.entries(reason.states).map(([state, pods]) => (
                <span key={state}>
                  <State name={state} /> {reason.states[state] === reason.pods ? "" : count(pods)}
                </span>
              ))}
            </span>
            <span class="note oldest">{reason.oldestMs ? `oldest ${age(now - reason.oldestMs)}` : ""}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}
