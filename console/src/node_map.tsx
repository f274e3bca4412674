// The map of nodes: a square each, on one canvas, since a page with 5,000 elements would be slow. By keyboard the arrow
// keys move over the squares, and Enter opens the node.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Colouring } from "./colouring.ts";
import { nodeHref } from "./format.ts";
import type { NodeRow } from "./node_data.ts";

const GAP = 2;

function cellSize(nodes: number): number {
  return nodes > 3000 ? 12 : nodes > 1000 ? 15 : nodes > 300 ? 20 : 28;
}

export function NodeMap(props: {
  rows: readonly NodeRow[];
  colouring: Colouring;
  // The entry of the legend that is shown alone; null: all.
  only: number | null;
  describe: (row: NodeRow) => string;
}) {
  const { rows, colouring, only } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<number | null>(null);
  const [theme, setTheme] = useState(0);
  const cell = cellSize(rows.length);
  const columns = Math.max(Math.floor((width + GAP) / (cell + GAP)), 1);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = (): void => setTheme((count) => count + 1);
    dark.addEventListener("change", redraw);
    return () => dark.removeEventListener("change", redraw);
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || !width) return;
    const height = Math.ceil(rows.length / columns) * (cell + GAP) - GAP;
    const scale = window.devicePixelRatio || 1;
    element.width = width * scale;
    element.height = Math.max(height, 1) * scale;
    element.style.height = `${Math.max(height, 1)}px`;
    context.scale(scale, scale);
    const styles = getComputedStyle(element);
    const colours = colouring.legend.map((entry) => styles.getPropertyValue(`--map-${entry.colour}`));
    rows.forEach((row, index) => {
      const entry = colouring.entryOf.get(row.slot) ?? 0;
      context.globalAlpha = only === null || only === entry ? 1 : 0.12;
      context.fillStyle = colours[entry] ?? "";
      const [x, y] = [(index % columns) * (cell + GAP), Math.floor(index / columns) * (cell + GAP)];
      context.fillRect(x, y, cell, cell);
      if (row.unschedulable) {
        context.fillStyle = styles.getPropertyValue("--surface");
        context.fillRect(x + cell / 2 - 1, y + 2, 2, cell - 4);
      }
    });
    context.globalAlpha = 1;
    if (at !== null && at < rows.length) {
      context.strokeStyle = styles.getPropertyValue("--text");
      context.lineWidth = 2;
      context.strokeRect((at % columns) * (cell + GAP) + 1, Math.floor(at / columns) * (cell + GAP) + 1, cell - 2, cell - 2);
    }
  }, [rows, colouring, only, width, at, theme, columns, cell]);
  const indexAt = (event: PointerEvent | MouseEvent): number | null => {
    const bounds = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const column = Math.floor((event.clientX - bounds.left) / (cell + GAP));
    const index = Math.floor((event.clientY - bounds.top) / (cell + GAP)) * columns + column;
    return column < columns && index < rows.length && index >= 0 ? index : null;
  };
  const onKey = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    const step = steps[event.key];
    const row = at === null ? undefined : rows[at];
    if (step !== undefined) setAt((before) => (before === null ? 0 : Math.min(Math.max(before + step, 0), rows.length - 1)));
    else if (event.key === "Home") setAt(0);
    else if (event.key === "End") setAt(rows.length - 1);
    else if (event.key === "Enter" && row) location.hash = nodeHref(row.name);
    else return;
    event.preventDefault();
  };
  const row = at === null ? undefined : rows[at];
  return (
    <div class="node-map">
      <p class="pointed" role="status">
        {row
          ? props.describe(row)
          : `Point at a square, or move with the arrow keys; Enter opens the node.${rows.some((each) => each.unschedulable) ? " A square with a line is cordoned." : ""}`}
      </p>
      <div ref={box}>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-roledescription="map of nodes"
          aria-label={`Map of ${rows.length} nodes. The table below has the same nodes.`}
          onPointerMove={(event) => setAt(indexAt(event))}
          onPointerLeave={() => setAt(null)}
          onFocus={() => setAt((before) => before ?? 0)}
          onBlur={() => setAt(null)}
          onKeyDown={onKey}
          onClick={(event) => {
            const clicked = indexAt(event);
            const found = clicked === null ? undefined : rows[clicked];
            if (found) location.hash = nodeHref(found.name);
          }}
        />
      </div>
    </div>
  );
}
