// Also change: internal/trireme/insight/console/node_documents.py (states of a group).
// Also change: internal/trireme/insight/console/views.py (the path of the document).
// Groups of pods: how many each needs, has on nodes, and has in the queue.
import { useView } from "../api.ts";
import type { Group } from "../documents.ts";
import { count, plural } from "../format.ts";
import { Answer, Empty, Meter, Panel, Pill, RowTable, State, Waiting, type Column } from "../parts.tsx";

function queuedOf(group: Group): number {
  return Object.values(group.queued).reduce((sum, pods) => sum + pods, 0);
}

function standing(group: Group): number {
  if (!group.exists) return 3;
  if (group.needs !== null && group.placed >= group.needs) return queuedOf(group) ? 1 : 0;
  return queuedOf(group) ? 2 : 0;
}

const STANDINGS = [
  { tone: "ok", text: "placed" },
  { tone: "info", text: "placed, more wait" },
  { tone: "bad", text: "waits" },
  { tone: "warn", text: "no such object" },
] as const;

const COLUMNS: Column<Group>[] = [
  {
    title: "Group",
    wide: true,
    cell: (group) => (
      <span>
        <span class="faint">{group.namespace}/</span>
        {group.name}
        {group.parent && <span class="note"> of {group.parent}</span>}
      </span>
    ),
    sort: (group) => `${group.namespace}/${group.name}`,
  },
  {
    title: "Standing",
    cell: (group) => {
      const { tone, text } = STANDINGS[standing(group)] ?? STANDINGS[0];
      return <Pill tone={tone}>{text}</Pill>;
    },
    sort: standing,
  },
  {
    title: "On nodes",
    numeric: true,
    cell: (group) =>
      group.needs ? (
        <Meter goal label={`Pods of ${group.name} on nodes`} share={group.placed / group.needs} text={`${count(group.placed)} of ${count(group.needs)}`} />
      ) : (
        count(group.placed)
      ),
    sort: (group) => group.placed,
  },
  {
    title: "In the queue",
    extra: true,
    cell: (group) =>
      Object.entries(group.queued).map(([state, pods]) => (
        <span key={state}>
          <State name={state} /> {count(pods)}{" "}
        </span>
      )),
    sort: queuedOf,
  },
  {
    title: "Condition",
    extra: true,
    wide: true,
    cell: (group) => group.conditions.map((each) => `${each.type}=${each.status} ${each.reason}`).join(", "),
  },
];

export function GroupsView() {
  const { data, error } = useView<{ groups: Group[] }>("v1/groups");
  return (
    <>
      <h1>Groups of pods</h1>
      {!data && <Waiting error={error} />}
      {data && data.groups.length === 0 && (
        <Empty title="There are no groups">
          A PodGroup appears here: its pods are placed together, with the feature gate GenericWorkload.
        </Empty>
      )}
      {data && data.groups.length > 0 && (
        <>
          <Answer>
            Waiting for nodes: {count(data.groups.filter((group) => standing(group) === 2).length)} of{" "}
            {plural(data.groups.length, "group")}.
          </Answer>
          <Panel title="Groups">
            <RowTable label="Groups of pods" columns={COLUMNS} rows={data.groups} rowKey={(group) => `${group.namespace}/${group.name}`} />
          </Panel>
        </>
      )}
    </>
  );
}
