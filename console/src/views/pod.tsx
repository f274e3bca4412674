// Also change: protos/trireme/v1/scheduler_explanation.proto (the messages).
// Also change: internal/trireme/cli/explain_command.py, console/src/documents.ts (what is shown of an explanation).
// Also change: internal/trireme/insight/http_api/api.py (paths of insight's API).
// A pod: why it waits and what would help, or the node that it is on; and what happened to it in the queue.
import { request, usePolled, useView, type Loaded } from "../api.ts";
import type { Explanation, Timeline } from "../documents.ts";
import { age, count, plural, preciseTime } from "../format.ts";
import { Empty, Failure, Panel, Pill, State, Waiting } from "../parts.tsx";
import { clock, useStore } from "../store.ts";
import { DecisionPanel } from "./decision.tsx";
import { Preemption } from "./preemption.tsx";
import { Proposals } from "./proposals.tsx";
import { alike, NodeName, Refusals, statusText } from "./refusals.tsx";
import { Scores } from "./scores.tsx";

const PERIOD_MS = 2000;

function useExplanation(path: string): Loaded<Explanation> {
  return usePolled<Explanation>(path, async (signal) => (await request<Explanation>(path, "", signal)).body, PERIOD_MS);
}

function isRefused(explanation: Explanation): boolean {
  return explanation.queuedPod !== undefined && !explanation.nodeName && explanation.feasibleCount === 0;
}

// A member may have feasible nodes, and its group none for all.
function mayPreempt(explanation: Explanation): boolean {
  return isRefused(explanation) || (!explanation.nodeName && !!explanation.queuedPod?.podGroup);
}

// Proposals and preemption are simulated, which takes up to two seconds: again only when what nodes say has changed.
function useSimulated(path: string, explanation: Explanation | null, what: "proposals" | "preemption"): Loaded<Explanation> {
  const wanted = explanation !== null && (what === "preemption" ? mayPreempt(explanation) : isRefused(explanation));
  const facts = wanted ? JSON.stringify(explanation.refusals.map((each) => [each.status.plugin, each.status.messages, each.nodeCount])) : "";
  return usePolled<Explanation>(
    wanted ? `${path}?${what}=true ${facts}` : null,
    async (signal) => (await request<Explanation>(`${path}?${what}=true`, "", signal)).body,
    600_000,
  );
}

function stateName(state: string): string {
  const name = state.replace("QUEUED_POD_STATE_", "").toLowerCase().replaceAll("_", " ");
  return name === "pre enqueue pending" ? "gated" : name === "waiting for group" ? "waiting for its group" : name;
}

// Why it waits, in one sentence. Without numbers: it is read aloud whenever it changes.
function answer({ nodeName, queuedPod, preFilter, feasibleCount, refusals }: Explanation): string {
  if (nodeName) return `On node ${nodeName}.`;
  if (!queuedPod) return "Waits for a node.";
  const plugins = queuedPod.plugins.join(" and ");
  if (stateName(queuedPod.state) === "gated" && plugins) return `Held back by ${plugins}: no node is chosen until that ends.`;
  if (preFilter) return `Waits for a node: ${statusText(preFilter)}.`;
  const most = alike(refusals)[0];
  if (!feasibleCount && most) return `Waits for a node: none is feasible, most often because of “${statusText(most.status)}”.`;
  if (queuedPod.podGroup) return `Waits for its group ${queuedPod.podGroup}, whose pods are placed together.`;
  return feasibleCount ? "Waits for its turn: there are feasible nodes." : "Waits for a node.";
}

function Facts({ explanation, timeline }: { explanation: Explanation; timeline: Timeline | null }) {
  const now = useStore(clock);
  const queued = explanation.queuedPod;
  const backoff = Number(queued?.backoffUntilMs ?? 0);
  return (
    <dl class="facts">
      <div>
        <dt>Where</dt>
        <dd>
          {queued ? <State name={stateName(queued.state)} /> : <Pill tone="ok">on a node</Pill>}{" "}
          {explanation.nodeName && <NodeName name={explanation.nodeName} />}
        </dd>
      </div>
      {queued && timeline && timeline.queuedSinceMs > 0 && (
        <div>
          <dt>Waiting</dt>
          <dd>{age(now - timeline.queuedSinceMs)}</dd>
        </div>
      )}
      {queued && (
        <div>
          <dt>Attempts</dt>
          <dd>{count(queued.attempts)}</dd>
        </div>
      )}
      {backoff > now && (
        <div>
          <dt>Backs off for</dt>
          <dd>{age(backoff - now + 999)}</dd>
        </div>
      )}
      {queued && (
        <div>
          <dt>Profile</dt>
          <dd>{queued.profile}</dd>
        </div>
      )}
      {queued?.podGroup && (
        <div>
          <dt>Group</dt>
          <dd>
            <a href="#/groups">{queued.podGroup}</a>
          </dd>
        </div>
      )}
      {queued && queued.plugins.length > 0 && (
        <div>
          <dt>Refused by</dt>
          <dd>{queued.plugins.join(", ")}</dd>
        </div>
      )}
      {queued?.reason && (
        <div class="wide">
          <dt>Because</dt>
          <dd>{queued.reason}</dd>
        </div>
      )}
    </dl>
  );
}

function Moves({ timeline }: { timeline: Timeline }) {
  const entries = timeline.entries.map((entry) => ({ ...entry, bound: false }));
  const placed = timeline.node !== null && timeline.leftQueueAtMs !== null;
  if (!entries.length && timeline.node === null) return <Empty title="Nothing is known yet">What happens to the pod in the queue appears here: events, attempts, and why they fail.</Empty>;
  if (!entries.length)
    return <Empty title="It did not wait">A pod that is scheduled at once is not followed through the queue.</Empty>;
  return (
    <ol class="timeline">
      {entries.map((entry, index) => {
        const before = entries[index - 1];
        return (
          <li key={`${entry.atMs} ${entry.state} ${index}`}>
            <time>{preciseTime(entry.atMs)}</time>
            <State name={entry.state} />
            <span class="cause">{entry.cause}</span>
            <span class="note">{before && entry.atMs - before.atMs >= 1000 ? `after ${age(entry.atMs - before.atMs)}` : ""}</span>
          </li>
        );
      })}
      {timeline.leftQueueAtMs !== null && (
        <li>
          <time>{preciseTime(timeline.leftQueueAtMs)}</time>
          <Pill tone={placed ? "ok" : "mute"}>{placed ? "bound" : "left the queue"}</Pill>
          <span class="cause">{placed && timeline.node ? <NodeName name={timeline.node} /> : ""}</span>
        </li>
      )}
    </ol>
  );
}

export function PodView({ namespace, name }: { namespace: string; name: string }) {
  const path = `v1/namespaces/${namespace}/pods/${name}`;
  const { data: explanation, error } = useExplanation(`${path}/explanation`);
  const timeline = useView<Timeline>(`${path}/timeline`);
  const proposals = useSimulated(`${path}/explanation`, explanation, "proposals");
  const preemption = useSimulated(`${path}/explanation`, explanation, "preemption");
  const status = explanation ? answer(explanation) : "";
  return (
    <>
      <h1 class="name">
        <span class="faint">{namespace}/</span>
        {name}
      </h1>
      <p class="answer" role="status">
        {status}
      </p>
      {error && <Failure error={error} />}
      {!explanation && !error && <Waiting error={null} />}
      {explanation && (
        <>
          <Facts explanation={explanation} timeline={timeline.data} />
          {explanation.queuedPod && !explanation.nodeName && (
            <div class="columns">
              <Panel title="What nodes say" note={<a href={`#/nodes?pod=${namespace}/${name}`}>Show on the map</a>}>
                <Refusals explanation={explanation} />
              </Panel>
              {explanation.feasibleCount === 0 ? (
                <Panel title="What would help" note="each change is simulated">
                  <Proposals explanation={proposals.data} error={proposals.error} namespace={namespace} name={name} />
                </Panel>
              ) : (
                <Scores path={`${path}/explanation`} />
              )}
            </div>
          )}
          {mayPreempt(explanation) && (
            <Panel title="Preemption" note="whom it would evict">
              <Preemption explanation={preemption.data} error={preemption.error} />
            </Panel>
          )}
          {explanation.nodeName && <DecisionPanel path={path} />}
        </>
      )}
      <Panel title="Timeline" note={timeline.data?.known ? plural(timeline.data.entries.length, "change") : undefined}>
        {timeline.data ? <Moves timeline={timeline.data} /> : <Waiting error={timeline.error} />}
      </Panel>
    </>
  );
}
