// Also change: internal/trireme/insight/console/views.py (the path of the document).
// Throughput, latency and queue at a glance, and what waits longest.
import { Chart } from "../chart.tsx";
import { useView } from "../api.ts";
import type { Overview, Pending } from "../documents.ts";
import { count, plural, rate, seconds } from "../format.ts";
import { moment } from "../moment.ts";
import { overviewFailure, useOverview } from "../overview_data.ts";
import { Answer, Empty, Failure, Panel } from "../parts.tsx";
import { useStore } from "../store.ts";
import { ReasonList } from "./reasons.tsx";

const SPAN_MS = 15 * 60_000;
// Reasons that are shown; the page of pending pods has all.
const SHOWN = 8;

function Figure(props: { name: string; value: string; note: string; tone?: string }) {
  return (
    <div class={`figure ${props.tone ?? ""}`}>
      <dt>{props.name}</dt>
      <dd>
        <b>{props.value}</b>
        <span>{props.note}</span>
      </dd>
    </div>
  );
}

function Figures({ overview }: { overview: Overview }) {
  const { queue, cluster, podLatency, replicas, plugins } = overview;
  const components = replicas.total + plugins.total;
  const well = replicas.inStep + plugins.ok;
  const refused = queue.unschedulable + queue.backoff;
  if (overview.recording)
    return (
      <dl class="figures">
        <Figure name="In the queue" value={count(cluster.queued)} note="with those that are tried" tone={cluster.queued ? "warn" : ""} />
        <Figure name="Cluster" value={plural(cluster.nodes, "node")} note={`${plural(cluster.pods, "pod")} on them`} />
      </dl>
    );
  return (
    <dl class="figures">
      <Figure name="Throughput" value={`${rate(overview.bound.perSecond)} pods/s`} note={`${count(overview.bound.total)} bound by this leader`} />
      <Figure
        name="Latency, p99"
        value={seconds(podLatency.p99Seconds)}
        note={podLatency.count ? `p50 ${seconds(podLatency.p50Seconds)}, last minute` : "no pod bound in the last minute"}
      />
      <Figure
        name="In the queue"
        value={count(cluster.queued)}
        note={refused ? `${count(refused)} refused, ${count(queue.active)} active` : `${count(queue.active)} active`}
        tone={refused ? "warn" : ""}
      />
      <Figure name="Cluster" value={plural(cluster.nodes, "node")} note={`${plural(cluster.pods, "pod")} on them`} />
      <Figure
        name="Components"
        value={`${well} of ${components}`}
        note={well === components ? "all in step" : "see Scheduler"}
        tone={well === components ? "" : "bad"}
      />
    </dl>
  );
}

export function OverviewView() {
  const overview = useOverview();
  const pending = useView<Pending>("v1/pending");
  const failure = useStore(overviewFailure);
  // Of another moment it would be taken for that of this one.
  const isOther = moment.value !== null && overview?.recording?.atMs !== moment.value;
  if (failure && (!overview || isOther)) return <Failure error={failure} />;
  if (!overview || isOther) return <div class="loading">Waiting for the first state of the cluster…</div>;
  const { series } = overview;
  const latency = overview.attemptLatency;
  const recorded = overview.recording !== undefined;
  const reasons = pending.data?.reasons ?? [];
  return (
    <>
      <h1>Overview</h1>
      <Answer>
        {overview.cluster.queued
          ? `${plural(overview.cluster.queued, "pod")} in the queue, beside ${count(overview.cluster.pods)} on nodes.`
          : `Each pod has a node: ${plural(overview.cluster.pods, "pod")} on ${plural(overview.cluster.nodes, "node")}.`}
      </Answer>
      <Figures overview={overview} />
      {recorded && <p class="note">A recording has the cluster, the queue and the decisions, but no throughput and no latency.</p>}
      {!overview.reportsScheduler && !recorded && (
        <div class="failure" role="status">
          <strong>The scheduler has not reported yet</strong>
          <p>A frontend older than this insight sends the cluster and the queue, but no throughput and no latency.</p>
        </div>
      )}
      {!recorded && <div class="charts">
        <Panel title="Pods per second" note={`attempt p50 ${seconds(latency.p50Seconds)}, p99 ${seconds(latency.p99Seconds)}`}>
          <Chart
            title="Pods per second"
            unit="per second"
            atMs={series.atMs}
            spanMs={SPAN_MS}
            format={rate}
            lines={[
              { name: "bound", tone: "ok", values: series.bound },
              { name: "unschedulable", tone: "bad", values: series.unschedulable },
              { name: "errors", tone: "warn", values: series.errors },
            ]}
          />
        </Panel>
        <Panel title="Queue">
          <Chart
            title="Pods in the queue"
            unit="pods"
            atMs={series.atMs}
            spanMs={SPAN_MS}
            format={count}
            lines={[
              { name: "active", tone: "info", values: series.active },
              { name: "back-off", tone: "warn", values: series.backoff },
              { name: "unschedulable", tone: "bad", values: series.waiting },
              { name: "gated", tone: "mute", values: series.gated },
            ]}
          />
        </Panel>
      </div>}
      <Panel title="Why pods wait" note={<a href="#/pending">{reasons.length > SHOWN ? `All ${count(reasons.length)} reasons` : "All pending pods"}</a>}>
        {pending.error && <Failure error={pending.error} />}
        {pending.data &&
          (reasons.length ? (
            <ReasonList reasons={reasons.slice(0, SHOWN)} />
          ) : (
            <Empty title="No pod is waiting">Each pod has found a node. The reasons of pods that wait appear here.</Empty>
          ))}
      </Panel>
    </>
  );
}
