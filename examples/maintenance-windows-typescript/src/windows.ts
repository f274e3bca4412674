/** Maintenance windows of a node, as its annotation lists them. */

/** Intervals in UTC, `START/END` separated by commas: `2026-11-27T22:00:00Z/2026-11-28T02:00:00Z`. */
export const ANNOTATION = "example.com/maintenance-windows";

/** One window; both in milliseconds since 1970. The end is not part of it. */
export interface Window {
  readonly start: number;
  readonly end: number;
}

/** The windows of an annotation's value. @throws Error naming the entry that is no interval. */
export function parseWindows(text: string): Window[] {
  const entries = text.split(",").map((entry) => entry.trim());
  return entries.filter((entry) => entry !== "").map(parseWindow);
}

function parseWindow(entry: string): Window {
  const [start, end, ...more] = entry.split("/").map((time) => Date.parse(time));
  if (start === undefined || end === undefined || more.length > 0 || !(start < end)) {
    throw new Error(`${JSON.stringify(entry)} is no interval START/END, as in 2026-11-27T22:00:00Z/2026-11-28T02:00:00Z`);
  }
  return { start, end };
}

/**
 * When the node takes pods again, in milliseconds since 1970; undefined: it takes them now.
 *
 * A window counts from `leadMs` before its start, so that pods are not placed only to be evicted. Windows that follow
 * each other without a gap count as one.
 */
export function closedUntil(windows: readonly Window[], now: number, leadMs: number): number | undefined {
  let until: number | undefined;
  for (;;) {
    const at: number = until ?? now;
    const found = windows.find(({ start, end }) => start - leadMs <= at && at < end);
    if (found === undefined) return until;
    until = found.end;
  }
}
