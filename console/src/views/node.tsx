// Also change: internal/trireme/insight/console/views.py (the path of the document).
// One node: what it has and what is on it.
import { useView } from "../api.ts";
import type { NodeDocument, PodOnNode } from "../documents.ts";
import { age, amount, amountWithUnit, count, plural, podHref, taintText } from "../format.ts";
import { Answer, Empty, Failure, Meter, Panel, Pill, RowTable, Waiting, type Column } from "../parts.tsx";
import { clock } from "../store.ts";

const COLUMNS: Column<PodOnNode>[] = [
  {
    title: "Pod",
    wide: true,
    cell: (pod) => (
      <>
        <a href={podHref(pod.namespace, pod.name)}>
          <span class="faint">{pod.namespace}/</span>
          {pod.name}
        </a>{" "}
        {pod.preempted ? <Pill tone="bad">preempted</Pill> : pod.terminating ? <Pill tone="warn">terminating</Pill> : null}
      </>
    ),
    sort: (pod) => `${pod.namespace}/${pod.name}`,
  },
  { title: "CPU", numeric: true, cell: (pod) => amount("cpu", pod.cpu), sort: (pod) => pod.cpu },
  { title: "Memory", numeric: true, cell: (pod) => amount("memory", pod.memory), sort: (pod) => pod.memory },
  { title: "Priority", numeric: true, extra: true, cell: (pod) => count(pod.priority), sort: (pod) => pod.priority },
  {
    title: "Started",
    numeric: true,
    extra: true,
    cell: (pod) => (pod.startedMs ? `${age(clock.value - pod.startedMs)} ago` : "–"),
    sort: (pod) => -pod.startedMs,
  },
];

// Beside the name of the resource: bytes have their unit, and pieces need none.
function inCell(resource: string, value: number): string {
  return resource === "cpu" ? amountWithUnit(resource, value) : amount(resource, value);
}

export function NodeView({ name }: { name: string }) {
  const { data, error } = useView<NodeDocument>(`v1/nodes/${name}`);
  if (!data)
    return (
      <>
        <h1 class="name">{name}</h1>
        <Waiting error={error} />
      </>
    );
  return (
    <>
      <h1 class="name">{name}</h1>
      <Answer>
        {count(data.podCount)} of {plural(data.allowedPods, "pod")} on it{data.unschedulable ? "; no more may come: it is cordoned" : ""}.
      </Answer>
      {error && <Failure error={error} />}
      <div class="columns">
        <Panel title="Resources">
          <div class="scroll" tabIndex={0} role="region" aria-label={`Resources of ${name}`}>
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Resource</th>
                  <th scope="col" class="number">
                    Requested
                  </th>
                  <th scope="col" class="number">
                    Allocatable
                  </th>
                  <th scope="col">Use</th>
                </tr>
              </thead>
              <tbody>
                {[...data.resources, { name: "pods", requested: data.podCount, allocatable: data.allowedPods }].map((each) => (
                  <tr key={each.name}>
                    <th scope="row">{each.name}</th>
                    <td class="number">{inCell(each.name, each.requested)}</td>
                    <td class="number">{inCell(each.name, each.allocatable)}</td>
                    <td>
                      <Meter
                        label={`Use of ${each.name}`}
                        share={each.allocatable ? each.requested / each.allocatable : 0}
                        text={`${amount(each.name, each.requested)} of ${inCell(each.name, each.allocatable)}`}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
        <Panel title="Labels and taints">
          <p class="taints">
            {data.unschedulable && <Pill tone="warn">cordoned</Pill>}
            {data.taints.map((taint) => (
              <Pill key={taintText(taint)} tone="warn">
                {taintText(taint)}
              </Pill>
            ))}
            {!data.taints.length && !data.unschedulable && <span class="note">No taints</span>}
          </p>
          <dl class="labels">
            {Object.entries(data.labels).map(([key, value]) => (
              <div key={key}>
                <dt>{key}</dt>
                <dd>{value || <span class="faint">(empty)</span>}</dd>
              </div>
            ))}
          </dl>
        </Panel>
      </div>
      <Panel title="Pods">
        {data.pods === null ? (
          <Empty title="Names of pods are not shown">They need the right to list pods in the whole cluster.</Empty>
        ) : data.pods.length ? (
          <RowTable label={`Pods on ${name}`} columns={COLUMNS} rows={data.pods} rowKey={(pod) => `${pod.namespace}/${pod.name}`} />
        ) : (
          <Empty title="No pods are on this node">A pod that is bound to it appears here. Cordons and taints above keep pods away.</Empty>
        )}
      </Panel>
    </>
  );
}
