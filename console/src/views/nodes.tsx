// All nodes: a map coloured by use, taints, a label, or feasibility for a pod; and the same nodes as a table.
import { useMemo, useState } from "preact/hooks";
import { request, usePolled } from "../api.ts";
import { byFeasibility, byLabel, byTaints, byUse, type Colouring } from "../colouring.ts";
import type { Explanation } from "../documents.ts";
import { amount, amountWithUnit, count, nodeHref, percent, plural, podHref, taintText } from "../format.ts";
import { share, useNodes, useResourceNames, type NodeRow } from "../node_data.ts";
import { NodeMap } from "../node_map.tsx";
import { Answer, Empty, Failure, Meter, Panel, Pill, RowTable, Waiting, type Column } from "../parts.tsx";

const ZONE = "topology.kubernetes.io/zone";

function useText(row: NodeRow, resource: string): string {
  if (resource === "pods") return `${row.podCount} of ${row.allowedPods} pods`;
  const found = row.resources.get(resource);
  return found ? `${amount(resource, found.requested)} of ${amountWithUnit(resource, found.allocatable)}` : `no ${resource}`;
}

function columnsFor(label: string): Column<NodeRow>[] {
  const use = (resource: string): Column<NodeRow> => ({
    title: resource === "cpu" ? "CPU" : resource === "pods" ? "Pods" : "Memory",
    numeric: true,
    cell: (row) => <Meter label={`${resource} of ${row.name}`} share={share(row, resource) ?? 0} text={useText(row, resource)} />,
    sort: (row) => share(row, resource) ?? 0,
  });
  return [
    { title: "Node", wide: true, cell: (row) => <a href={nodeHref(row.name)}>{row.name}</a>, sort: (row) => row.name },
    use("cpu"),
    use("memory"),
    { ...use("pods"), extra: true },
    { title: label === ZONE ? "Zone" : (label.split("/").at(-1) ?? label), extra: true, cell: (row) => row.value, sort: (row) => row.value },
    {
      title: "Taints",
      extra: true,
      wide: true,
      cell: (row) => (
        <>
          {row.unschedulable && <Pill tone="warn">cordoned</Pill>} {row.taints.map(taintText).join(", ")}
        </>
      ),
      sort: (row) => row.taints.map(taintText).join(","),
    },
  ];
}

function Legend(props: { colouring: Colouring; only: number | null; choose: (entry: number | null) => void }) {
  return (
    <ul class="map-legend" aria-label="Legend">
      {props.colouring.legend.map((entry, at) =>
        entry.nodes ? (
          <li key={entry.text}>
            <button
              type="button"
              aria-pressed={props.only === at}
              onClick={() => props.choose(props.only === at ? null : at)}
              title={props.only === at ? "Show all" : "Show these alone"}
            >
              <span class={`square ${entry.colour}`} aria-hidden="true" />
              <span>{entry.text}</span> <b>{count(entry.nodes)}</b>
            </button>
          </li>
        ) : null,
      )}
    </ul>
  );
}

function useFeasibility(pod: string): { data: Explanation | null; failure: ReturnType<typeof usePolled>["error"] } {
  const [namespace, name] = pod.split("/");
  const path = namespace && name ? `v1/namespaces/${namespace}/pods/${name}/explanation` : null;
  const { data, error } = usePolled<Explanation>(
    path,
    async (signal) => (await request<Explanation>(path ?? "", "", signal)).body,
    3000,
  );
  return { data, failure: error };
}

function totals(rows: readonly NodeRow[], resource: string): string {
  let [allocatable, requested] = [0, 0];
  for (const row of rows) {
    const found = row.resources.get(resource);
    allocatable += found?.allocatable ?? 0;
    requested += found?.requested ?? 0;
  }
  return allocatable ? `${percent(requested / allocatable)} of ${amountWithUnit(resource, allocatable)}` : "";
}

export function NodesView({ pod }: { pod: string }) {
  const [by, setBy] = useState(pod ? "feasibility" : "use");
  const [resource, setResource] = useState("cpu");
  const [label, setLabel] = useState(ZONE);
  const [only, setOnly] = useState<number | null>(null);
  const { data, error } = useNodes(label);
  const feasibility = useFeasibility(pod);
  const names = useResourceNames(data?.rows);
  const rows = data?.rows ?? [];
  const colouring = useMemo<Colouring>(() => {
    if (by === "taints") return byTaints(rows);
    if (by === "label") return byLabel(rows, label);
    if (by === "feasibility" && feasibility.data && feasibility.data.queuedPod) return byFeasibility(rows, feasibility.data);
    return byUse(rows, resource);
  }, [rows, by, label, resource, feasibility.data]);
  const columns = useMemo(() => columnsFor(label), [label]);
  const listed = useMemo(
    () => (only === null ? rows : rows.filter((row) => colouring.entryOf.get(row.slot) === only)),
    [rows, only, colouring],
  );
  if (!data) return <Waiting error={error} />;
  const [namespace, name] = pod.split("/");
  const choose = (value: string): void => {
    setBy(value);
    setOnly(null);
  };
  return (
    <>
      <h1>Nodes</h1>
      {error && <Failure error={error} />}
      {rows.length === 0 ? (
        <Empty title="The cluster has no nodes">A node that registers appears here; pods wait until there is one.</Empty>
      ) : (
        <>
          <Answer>
            {plural(rows.length, "node")}: {totals(rows, "cpu")} and {totals(rows, "memory")} requested.
          </Answer>
          <Panel title="Map">
            <div class="controls">
              <label>
                Colour by{" "}
                <select value={by} onChange={(event) => choose(event.currentTarget.value)}>
                  <option value="use">use</option>
                  <option value="taints">taints</option>
                  <option value="label">label</option>
                  {pod && <option value="feasibility">feasibility</option>}
                </select>
              </label>
              {by === "use" && (
                <label>
                  of{" "}
                  <select value={resource} onChange={(event) => setResource(event.currentTarget.value)}>
                    {names.map((each) => (
                      <option key={each} value={each}>
                        {each}
                      </option>
                    ))}
                  </select>
                </label>
              )}
              {by === "label" && (
                <label>
                  key{" "}
                  <select value={label} onChange={(event) => (setLabel(event.currentTarget.value), setOnly(null))}>
                    {[...new Set([ZONE, ...data.labelKeys])].map((key) => (
                      <option key={key} value={key}>
                        {key}
                      </option>
                    ))}
                  </select>
                </label>
              )}
              {by === "feasibility" && namespace && name && (
                <span>
                  for <a href={podHref(namespace, name)}>{pod}</a>
                  {feasibility.data?.nodeName ? `, which is on ${feasibility.data.nodeName} now` : ""}
                </span>
              )}
            </div>
            {by === "feasibility" && feasibility.failure && <Failure error={feasibility.failure} />}
            <Legend colouring={colouring} only={only} choose={setOnly} />
            <NodeMap
              rows={rows}
              colouring={colouring}
              only={only}
              describe={(row) =>
                `${row.name} · ${useText(row, "cpu")} · ${useText(row, "memory")} · ${row.podCount} pods · ${colouring.legend[colouring.entryOf.get(row.slot) ?? 0]?.text ?? ""}`
              }
            />
          </Panel>
          <Panel title="Table" note={only === null ? undefined : `${plural(listed.length, "node")}: ${colouring.legend[only]?.text ?? ""}`}>
            <RowTable label="Nodes" columns={columns} rows={listed} rowKey={(row) => row.name} />
          </Panel>
        </>
      )}
    </>
  );
}
