// The overview is requested once a second for the whole page, and only with the samples that are new.
import { useEffect } from "preact/hooks";
import { login, request } from "./api.ts";
import type { Overview, Series } from "./documents.ts";
import { pinClock, Store, useStore } from "./store.ts";

const PERIOD_MS = 1000;
const SAMPLES = 900;

const overview = new Store<Overview | null>(null);
let followers = 0;
let timer = 0;

function merged(before: Overview | null, next: Overview): Overview {
  if (!before || before.instance !== next.instance) return next;
  const series = {} as Series;
  for (const name of Object.keys(next.series) as (keyof Series)[]) {
    series[name] = [...before.series[name], ...next.series[name]].slice(-SAMPLES);
  }
  const bound = next.series.atMs.length ? next.bound : { ...next.bound, perSecond: before.bound.perSecond };
  return { ...next, bound, series };
}

async function load(): Promise<void> {
  const before = overview.value;
  try {
    const after = before?.series.atMs.at(-1) ?? 0;
    const answer = await request<Overview>(`v1/overview?after=${after}`);
    if (answer.body) {
      pinClock(answer.body.recording?.atMs ?? null);
      // Of another replica, or of one that was started again: its samples are others.
      const other = before && before.instance !== answer.body.instance && after > 0;
      overview.set(other ? null : merged(before, answer.body));
    }
  } catch {
    // Shown by the frame of the page.
  }
}

// Requests it at once: the moment of a recording has changed.
export async function followOverview(): Promise<void> {
  await load();
}

function turn(): void {
  const due = !document.hidden && !login.value.needed;
  void (due ? load() : Promise.resolve()).then(() => {
    if (followers > 0) timer = window.setTimeout(turn, PERIOD_MS);
  });
}

export function useOverview(): Overview | null {
  useEffect(() => {
    followers += 1;
    if (followers === 1) turn();
    return () => {
      followers -= 1;
      if (followers === 0) window.clearTimeout(timer);
    };
  }, []);
  return useStore(overview);
}
