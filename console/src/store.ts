// Values that several parts of the page share, and hooks that follow them.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (!Object.is(value, this.current)) {
      this.current = value;
      for (const listener of this.listeners) listener();
    }
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, redraw] = useState(0);
  useEffect(() => store.subscribe(() => redraw((count) => count + 1)), [store]);
  return store.value;
}

// The time, as often as ages on the page need it: of now, or of the recording that the page shows.
export const clock = new Store(Date.now());
let pinnedMs: number | null = null;
setInterval(() => clock.set(pinnedMs ?? Date.now()), 1000);

export function pinClock(milliseconds: number | null): void {
  pinnedMs = milliseconds;
  clock.set(pinnedMs ?? Date.now());
}
