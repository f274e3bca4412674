// Also change: internal/trireme/insight/console/views.py (the path of the document).
// The last preemptions: for whom, where, and who had to go.
import { useView } from "../api.ts";
import type { Preemption, Preemptions } from "../documents.ts";
import { age, count, plural, podHref, preciseTime } from "../format.ts";
import { moment } from "../moment.ts";
import { Answer, Empty, Panel, RowTable, Waiting, type Column } from "../parts.tsx";
import { clock, useStore } from "../store.ts";
import { NodeName } from "./refusals.tsx";

function PodName({ name }: { name: string }) {
  const [namespace, pod, more] = name.split("/");
  return namespace && pod && more === undefined ? <a href={podHref(namespace, pod)}>{name}</a> : <span>{name}</span>;
}

const COLUMNS: Column<Preemption>[] = [
  {
    title: "Time",
    cell: (each) => <time title={preciseTime(each.atMs)}>{age(clock.value - each.atMs)} ago</time>,
    sort: (each) => each.atMs,
  },
  { title: "Preemptor", wide: true, cell: (each) => <PodName name={each.preemptor} />, sort: (each) => each.preemptor },
  { title: "Priority", numeric: true, extra: true, cell: (each) => count(each.priority), sort: (each) => each.priority },
  { title: "Node", cell: (each) => (each.node ? <NodeName name={each.node} /> : "several"), sort: (each) => each.node },
  { title: "Victims", numeric: true, cell: (each) => count(each.victimCount), sort: (each) => each.victimCount },
  {
    title: "Who had to go",
    extra: true,
    wide: true,
    cell: (each) => (
      <>
        {each.victims.slice(0, 3).map((victim) => (
          <span key={victim.pod}>
            <PodName name={victim.pod} />{" "}
          </span>
        ))}
        {each.victimCount > 3 && `and ${count(each.victimCount - 3)} more`}
      </>
    ),
  },
];

export function PreemptionsView() {
  const { data, error } = useView<Preemptions>("v1/preemptions");
  useStore(clock);
  return (
    <>
      <h1>Preemptions</h1>
      {!data && <Waiting error={error} />}
      {data && (
        <Answer>
          {plural(data.preemptions.length, "preemption")} known; now {plural(data.nominated, "pod")} nominated to a node,{" "}
          {plural(data.evicting, "victim")} leaving.
        </Answer>
      )}
      {data && (
        <Panel title="Last preemptions">
          {data.preemptions.length ? (
            <RowTable label="Preemptions" columns={COLUMNS} rows={data.preemptions} rowKey={(each) => String(each.number)} />
          ) : (
            <Empty title="Nothing was preempted">
              A pod that has to leave for one of higher priority appears here; there was none{" "}
              {moment.value === null ? "since this leader began" : "in what is recorded before"}.
            </Empty>
          )}
        </Panel>
      )}
    </>
  );
}
