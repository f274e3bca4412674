// Also change: internal/trireme/insight/http_api/recorded_paths.py, console/src/api.ts (the moment in the address).
// The moment that the page shows: of what was recorded, or now. It is in the page's address, so that it can be sent to
// others and outlives a reload, and in the path of each request, so that readers do not move each other's.
import { pinClock, Store } from "./store.ts";

function inAddress(): number | null {
  const text = new URLSearchParams(location.search).get("at") ?? "";
  return /^\d{1,16}$/.test(text) ? Number(text) : null;
}

// Milliseconds since 1970; null: now.
export const moment = new Store<number | null>(inAddress());
pinClock(moment.value);
moment.subscribe(() => pinClock(moment.value));
window.addEventListener("popstate", () => moment.set(inAddress()));

// `step`: so that the browser's Back leads to what was shown before.
export function showMoment(atMs: number | null, step = false): void {
  const address = new URL(location.href);
  if (atMs === null) address.searchParams.delete("at");
  else address.searchParams.set("at", String(atMs));
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  moment.set(atMs);
}
