// Lines over time, drawn as SVG so that they follow the page's colours.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { timeOfDay } from "./format.ts";

export interface Line {
  name: string;
  // The class that gives the line its colour.
  tone: string;
  values: readonly number[];
}

const WIDTH = 600;
const HEIGHT = 120;
// The frontend sends its status once a second: where nothing came for so long, nobody knows what was.
const GAP_MS = 5000;

export function Chart(props: {
  title: string;
  unit: string;
  atMs: readonly number[];
  lines: readonly Line[];
  format: (value: number) => string;
  spanMs: number;
  note?: ComponentChildren;
}) {
  const [at, setAt] = useState<number | null>(null);
  const { atMs, lines } = props;
  const end = atMs.at(-1) ?? 0;
  // A scheduler that was started a minute ago has a minute to show.
  const span = Math.min(props.spanMs, Math.max(end - (atMs[0] ?? end), 60_000));
  const start = end - span;
  let first = 0;
  while (first < atMs.length && (atMs[first] ?? 0) < start) first += 1;
  let top = 0;
  for (const line of lines) for (let index = first; index < atMs.length; index += 1) top = Math.max(top, line.values[index] ?? 0);
  top = niceTop(top);
  const x = (time: number): number => ((time - start) / span) * WIDTH;
  const y = (value: number): number => HEIGHT - (value / top) * (HEIGHT - 6) - 1;
  const path = (values: readonly number[]): string => {
    let text = "";
    for (let index = first; index < atMs.length; index += 1) {
      const goesOn = text && (atMs[index] ?? 0) - (atMs[index - 1] ?? 0) <= GAP_MS;
      text += `${goesOn ? "L" : "M"}${x(atMs[index] ?? 0).toFixed(1)},${y(values[index] ?? 0).toFixed(1)}`;
    }
    return text;
  };
  const shown = at === null ? atMs.length - 1 : at;
  const choose = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const time = start + ((event.clientX - box.left) / box.width) * span;
    let nearest = first;
    for (let index = first; index < atMs.length; index += 1)
      if (Math.abs((atMs[index] ?? 0) - time) < Math.abs((atMs[nearest] ?? 0) - time)) nearest = index;
    setAt(nearest < atMs.length ? nearest : null);
  };
  const valueText = (line: Line): string => (shown < 0 ? "–" : props.format(line.values[shown] ?? 0));
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{props.title}</span>
        <span class="when">{at !== null && shown >= 0 ? timeOfDay(atMs[shown] ?? 0) : props.note}</span>
      </figcaption>
      <ul class="legend">
        {lines.map((line) => (
          <li key={line.name}>
            <span class={`swatch ${line.tone}`} aria-hidden="true" />
            {line.name} <b>{valueText(line)}</b>
          </li>
        ))}
      </ul>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${props.title}: ${lines.map((line) => `${line.name} ${valueText(line)} ${props.unit}`).join(", ")}`}
        onPointerMove={choose}
        onPointerLeave={() => setAt(null)}
      >
        <line class="grid" x1="0" x2={WIDTH} y1={y(top)} y2={y(top)} />
        <line class="grid" x1="0" x2={WIDTH} y1={y(top / 2)} y2={y(top / 2)} />
        <line class="grid" x1="0" x2={WIDTH} y1={HEIGHT - 1} y2={HEIGHT - 1} />
        {lines.map((line) => (
          <path key={line.name} class={`line ${line.tone}`} d={path(line.values)} />
        ))}
        {at !== null && shown >= 0 && (
          <line class="cursor" x1={x(atMs[shown] ?? 0)} x2={x(atMs[shown] ?? 0)} y1="0" y2={HEIGHT} />
        )}
      </svg>
      <div class="axis" aria-hidden="true">
        <span>{spanText(span)} ago</span>
        <span>
          top {props.format(top)} {props.unit}
        </span>
        <span>now</span>
      </div>
    </figure>
  );
}

function niceTop(value: number): number {
  if (value <= 0) return 1;
  const scale = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * scale) return step * scale;
  return 10 * scale;
}

function spanText(spanMs: number): string {
  return spanMs >= 60_000 ? `${Math.round(spanMs / 60_000)} min` : `${Math.round(spanMs / 1000)} s`;
}
