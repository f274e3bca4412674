// Also change: internal/trireme/queueing/states.py, internal/trireme/insight/console/pending_pods.py,
// console/src/views/reasons.tsx (the words for states of the queue).
// Parts that several views share.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "./api.ts";

export type Tone = "ok" | "warn" | "bad" | "info" | "mute";

export function Pill({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`pill ${tone}`}>{children}</span>;
}

// A page's first line: the answer to the question that it is opened for.
export function Answer({ children }: { children: ComponentChildren }) {
  return <p class="answer">{children}</p>;
}

export function Panel(props: { title: string; note?: ComponentChildren; id?: string; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={props.title} id={props.id}>
      <header>
        <h2>{props.title}</h2>
        {props.note !== undefined && <span class="note">{props.note}</span>}
      </header>
      {props.children}
    </section>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}

export function Failure({ error }: { error: ApiError }) {
  const titles: Record<number, string> = {
    403: "You may not see this",
    404: "Not found",
    410: "Not recorded, or not kept",
    429: "Too many requests",
    503: "Not available yet",
  };
  return (
    <div class="failure" role="status">
      <strong>{titles[error.code] ?? "The request failed"}</strong>
      <p>{error.message}</p>
    </div>
  );
}

// What is shown until there is data: the error, or that it is being loaded.
export function Waiting({ error }: { error: ApiError | null }) {
  return error ? <Failure error={error} /> : <div class="loading">Loading…</div>;
}

const STATE_TONES: Record<string, Tone> = {
  active: "info",
  "in flight": "info",
  backoff: "warn",
  unschedulable: "bad",
  gated: "mute",
  incomplete: "mute",
  "waiting for its group": "mute",
  "pre-enqueue pending": "mute",
  "on a node": "ok",
  done: "ok",
};

export function State({ name }: { name: string }) {
  return <Pill tone={STATE_TONES[name] ?? "mute"}>{name}</Pill>;
}

export interface Column<Row> {
  title: string;
  numeric?: boolean;
  wide?: boolean;
  // Left out on narrow screens.
  extra?: boolean;
  cell: (row: Row) => ComponentChildren;
  sort?: (row: Row) => number | string;
}

const ROW_HEIGHT = 33;
const SPARE_ROWS = 8;

// A table that scrolls; of thousands of rows only those in sight are in the page.
export function RowTable<Row>(props: {
  label: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  // Called with the first and last row in sight, where rows are loaded as they are needed.
  onWindow?: (first: number, last: number) => void;
  // All rows there are, if not all have been loaded.
  total?: number;
}) {
  const { columns, onWindow } = props;
  const [sorting, setSorting] = useState<{ by: number; descending: boolean } | null>(null);
  const [range, setRange] = useState({ first: 0, last: 40 });
  const box = useRef<HTMLDivElement>(null);
  const rows = sorting ? sortedBy(props.rows, columns[sorting.by]?.sort, sorting.descending) : props.rows;
  const total = Math.max(props.total ?? 0, rows.length);
  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(Math.floor(element.scrollTop / ROW_HEIGHT) - SPARE_ROWS, 0);
    const last = first + Math.ceil(element.clientHeight / ROW_HEIGHT) + 2 * SPARE_ROWS;
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
  };
  useLayoutEffect(measure, [total]);
  useEffect(() => {
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);
  useEffect(() => onWindow?.(range.first, Math.min(range.last, total)), [range.first, range.last, total]);
  const shown = rows.slice(range.first, range.last);
  const below = Math.max(total - range.first - shown.length, 0);
  return (
    <div class="rows" ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={props.label}>
      <table aria-rowcount={total + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column, index) => (
              <th
                key={column.title}
                scope="col"
                class={cellClass(column)}
                aria-sort={sorting?.by === index ? (sorting.descending ? "descending" : "ascending") : undefined}
              >
                {column.sort ? (
                  <button
                    type="button"
                    class="sorter"
                    onClick={() =>
                      setSorting((before) => ({
                        by: index,
                        descending: before?.by === index ? !before.descending : Boolean(column.numeric),
                      }))
                    }
                  >
                    {column.title}
                    <span aria-hidden="true">{sorting?.by === index ? (sorting.descending ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {range.first > 0 && <Spacer rows={range.first} />}
          {shown.map((row, index) => (
            <tr key={props.rowKey(row)} aria-rowindex={range.first + index + 2}>
              {columns.map((column) => (
                <td key={column.title} class={cellClass(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {below > 0 && <Spacer rows={below} />}
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ rows }: { rows: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td style={{ height: `${rows * ROW_HEIGHT}px` }} />
    </tr>
  );
}

function cellClass<Row>(column: Column<Row>): string {
  return [column.numeric && "number", column.wide && "wide", column.extra && "extra"].filter(Boolean).join(" ");
}

function sortedBy<Row>(
  rows: readonly Row[],
  sort: ((row: Row) => number | string) | undefined,
  descending: boolean,
): readonly Row[] {
  if (!sort) return rows;
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: sort(row) }));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  keyed.sort((one, other) =>
    typeof one.key === "number" && typeof other.key === "number"
      ? sign * (one.key - other.key)
      : sign * compare(String(one.key), String(other.key)),
  );
  return keyed.map((entry) => entry.row);
}

// How much of something is in use; or, of `goal`, how much is reached: then much is good, and the text is shown.
export function Meter({ label, share, text, goal = false }: { label: string; share: number; text: string; goal?: boolean }) {
  const bounded = Math.min(Math.max(share, 0), 1);
  return (
    <span class="meter" title={text}>
      <span
        class={`bar ${!goal && share > 0.9 ? "full" : ""}`}
        role="meter"
        aria-label={label}
        aria-valuenow={Math.round(bounded * 100)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuetext={text}
      >
        <span class="fill" style={{ width: `${bounded * 100}%` }} />
      </span>
      <span class="value">{goal ? text : `${Math.round(share * 100)} %`}</span>
    </span>
  );
}

export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    window.setTimeout(() => setDone(false), 1500);
  };
  return (
    <div class="copy">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" onClick={() => void copy()} aria-label={`Copy ${label}`}>
        {done ? "Copied" : "Copy"}
      </button>
    </div>
  );
}
