// Also change: internal/trireme/insight/console/views.py (the path of the document).
// The pods in the queue, by why they wait; of the reason that is open also what nodes say, and its pods.
import { useEffect, useRef, useState } from "preact/hooks";
import { request, usePolled, useView } from "../api.ts";
import type { Explanation, Pending, PendingPod, PodsOfReason, WaitReason } from "../documents.ts";
import { age, count, plural, podHref } from "../format.ts";
import { Answer, Empty, Panel, RowTable, State, Waiting, type Column } from "../parts.tsx";
import { clock, useStore } from "../store.ts";
import { ReasonList, reasonTitle } from "./reasons.tsx";
import { Refusals } from "./refusals.tsx";

const PAGE = 200;

const COLUMNS: Column<PendingPod>[] = [
  {
    title: "Pod",
    wide: true,
    cell: (pod) => (
      <a href={podHref(pod.namespace, pod.name)}>
        <span class="faint">{pod.namespace}/</span>
        {pod.name}
      </a>
    ),
  },
  { title: "State", cell: (pod) => <State name={pod.state} /> },
  { title: "Waiting", numeric: true, cell: (pod) => (pod.sinceMs ? age(clock.value - pod.sinceMs) : "–") },
  { title: "Attempts", numeric: true, extra: true, cell: (pod) => count(pod.attempts) },
  { title: "Profile", extra: true, cell: (pod) => pod.profile },
];

// Some of the pods of a reason: those in sight are loaded, and again every few seconds.
function PodsOfOneReason({ reason }: { reason: WaitReason }) {
  const [page, setPage] = useState(0);
  const offset = Math.max(page - 1, 0) * PAGE;
  const path = `v1/pending/pods?reason=${reason.id}&offset=${offset}&limit=${3 * PAGE}`;
  const { data, error } = useView<PodsOfReason>(path);
  const last = useRef<PodsOfReason | null>(null);
  const from = useRef(0);
  useStore(clock);
  if (data) {
    last.current = data;
    from.current = offset;
  }
  const shown = last.current;
  if (!shown) return <Waiting error={error} />;
  // Rows that are not loaded have their place, so that the bar shows how many there are.
  const rows: (PendingPod | null)[] = Array.from({ length: from.current }, () => null);
  rows.push(...shown.pods);
  return (
    <RowTable
      label={`Pods: ${reasonTitle(reason)}`}
      columns={COLUMNS.map((column) => ({
        ...column,
        cell: (row: PendingPod | null) => (row ? column.cell(row) : <span class="faint">…</span>),
        sort: undefined,
      })) as Column<PendingPod | null>[]}
      rows={rows}
      total={shown.total}
      rowKey={(row) => (row ? `${row.namespace}/${row.name}` : "")}
      onWindow={(first) => setPage(Math.floor(first / PAGE))}
    />
  );
}

function Example({ reason }: { reason: WaitReason }) {
  const pod = reason.example;
  const path = pod && reason.plugins.length ? `v1/namespaces/${pod.namespace}/pods/${pod.name}/explanation` : null;
  const { data, error } = usePolled<Explanation>(
    path,
    async (signal) => (await request<Explanation>(path ?? "", "", signal)).body,
    5000,
  );
  if (!pod || !path) return null;
  return (
    <div class="example">
      <h3>
        The nodes' verdicts on <a href={podHref(pod.namespace, pod.name)}>{pod.name}</a>, which waits longest
      </h3>
      {data ? <Refusals explanation={data} limit={5} /> : <Waiting error={error} />}
    </div>
  );
}

export function PendingView({ open }: { open: string }) {
  const { data, error } = useView<Pending>("v1/pending", 1500);
  const heading = useRef<HTMLHeadingElement>(null);
  const reason = data?.reasons.find((each) => each.id === open) ?? null;
  useEffect(() => {
    if (open) heading.current?.scrollIntoView({ block: "nearest" });
  }, [open, reason === null]);
  const toggle = (id: string): void => {
    location.hash = id === open ? "#/pending" : `#/pending?reason=${id}`;
  };
  return (
    <>
      <h1>Pending pods</h1>
      {!data && <Waiting error={error} />}
      {data && data.total > 0 && (
        <Answer>
          {plural(data.total, "pod")} in the queue, for {plural(data.reasons.length, "reason")}.
        </Answer>
      )}
      {data && data.total === 0 && (
        <Empty title="No pod is waiting">Each pod has found a node. A pod that waits longer than a moment appears here.</Empty>
      )}
      {data && data.total > 0 && (
        <Panel title="By reason">
          <ReasonList reasons={data.reasons} open={open} toggle={toggle} />
        </Panel>
      )}
      {reason && (
        <section class="panel" aria-label={reasonTitle(reason)}>
          <header>
            <h2 ref={heading}>{reasonTitle(reason)}</h2>
            <span class="note">
              {plural(reason.pods, "pod")}, up to {plural(reason.mostAttempts, "attempt")}
            </span>
          </header>
          <Example reason={reason} />
          {reason.example ? (
            <PodsOfOneReason key={reason.id} reason={reason} />
          ) : (
            <Empty title="Names of pods are not shown">They need the right to list pods in the whole cluster.</Empty>
          )}
        </section>
      )}
      {data && open && !reason && <Empty title="No pod waits for this reason any more">They have found a node, or wait for something else.</Empty>}
    </>
  );
}
