// Also change: internal/trireme/insight/console/views.py (the path of the document).
// The overview is requested once a second for the whole page, and only with the samples that are new; that of a moment
// once.
import { useEffect } from "preact/hooks";
import { ApiError, login, mayPass, request } from "./api.ts";
import type { Overview, Series } from "./documents.ts";
import { moment, showMoment } from "./moment.ts";
import { Store, useStore } from "./store.ts";

const PERIOD_MS = 1000;
const SAMPLES = 900;

const overview = new Store<Overview | null>(null);
// Why there is none as of the moment that the page shows.
export const overviewFailure = new Store<ApiError | null>(null);
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
  const atMs = moment.value;
  try {
    const after = before?.series.atMs.at(-1) ?? 0;
    const answer = await request<Overview>(`v1/overview?after=${after}`);
    if (answer.body && moment.value === atMs) {
      // Only for a recording: there is no present state.
      if (answer.body.recording && atMs === null) showMoment(answer.body.recording.atMs);
      // Of another replica, or of one that was started again: its samples are others.
      const other = before && before.instance !== answer.body.instance && after > 0;
      overview.set(other ? null : merged(before, answer.body));
    }
    if (moment.value === atMs) overviewFailure.set(null);
  } catch (error) {
    // That the connection is lost is shown by the frame of the page.
    // A login comes first: then it is requested again.
    if (moment.value === atMs && error instanceof ApiError && error.code !== 401) overviewFailure.set(error);
  }
}

function isThere(): boolean {
  if (moment.value === null) return false;
  const failure = overviewFailure.value;
  return overview.value?.recording?.atMs === moment.value || (failure !== null && !mayPass(failure));
}

moment.subscribe(() => {
  // Of another time: its samples do not continue.
  if (moment.value === null) overview.set(null);
  overviewFailure.set(null);
  if (followers > 0 && !isThere()) void load();
});

// Somebody else may see what the one before may not.
login.subscribe(() => overviewFailure.set(null));

function turn(): void {
  const due = !document.hidden && !login.value.needed && !isThere();
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
