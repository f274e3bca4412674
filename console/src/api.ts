// Also change: console/src/moment.ts, internal/trireme/insight/http_api/recorded_paths.py (the moment in the address).
// Also change: internal/trireme/insight/console/views.py (the path of the document).
// Requests to insight. The token stays in the memory of this page: a reload asks for it again.
import { useEffect, useRef, useState } from "preact/hooks";
import { moment } from "./moment.ts";
import { Store } from "./store.ts";

export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

// Since when no request got an answer; null: the last one did.
export const lostSince = new Store<number | null>(null);
// Whether insight wants a token, and its answer to the last one.
export const login = new Store<{ needed: boolean; message: string }>({ needed: false, message: "" });

let token = "";

export function setToken(text: string): void {
  token = text.trim();
  login.set({ needed: false, message: "" });
}

export function hasToken(): boolean {
  return token !== "";
}

interface Answer<T> {
  body: T | null; // null: not changed
  etag: string;
}

// From when to when there are moments. It is as of no moment itself.
export const RECORDING = "v1/recording";

function asOf(path: string, atMs: number | null): string {
  return atMs === null || path === RECORDING ? path : path.replace(/^v1\//, `v1/recorded/${atMs}/`);
}

// `path` is that of the page as of now; the answer is as of the moment that the page shows.
export async function request<T>(path: string, etag = "", signal?: AbortSignal, body?: unknown): Promise<Answer<T>> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (etag) headers["If-None-Match"] = etag;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(asOf(path, moment.value), {
      headers,
      signal: signal ?? null,
      cache: "no-store",
      credentials: "omit",
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) lostSince.set(lostSince.value ?? Date.now());
    throw error;
  }
  lostSince.set(null);
  if (response.status === 304) return { body: null, etag };
  const text = await response.text();
  if (!response.ok) {
    const message = messageOf(text) || `HTTP ${response.status}`;
    if (response.status === 401) login.set({ needed: true, message: token ? message : "" });
    throw new ApiError(response.status, message);
  }
  return { body: JSON.parse(text) as T, etag: response.headers.get("ETag") ?? "" };
}

function messageOf(text: string): string {
  try {
    const status = JSON.parse(text) as { message?: string };
    return status.message ?? "";
  } catch {
    return text.slice(0, 300);
  }
}

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => void;
}

// After an error.
const RETRY_MS = 2_000;

// Whether a request that failed may succeed later, though it is of a moment: that is being read, or nobody answered.
export function mayPass(error: unknown): boolean {
  return !(error instanceof ApiError) || error.code >= 500 || error.code === 429;
}

// What `ask` returns, again after each period, while the page is visible. `key` says what is requested: with another one
// what was there before is dropped. `isPast`: it is of a moment, and requested again only after a failure.
export function usePolled<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<T | null>,
  periodMs: number,
  isPast = moment.value !== null,
): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: ApiError | null }>({
    key: null,
    data: null,
    error: null,
  });
  const [turn, setTurn] = useState(0);
  const asking = useRef(ask);
  asking.current = ask;
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const once = async (): Promise<void> => {
      let wait = periodMs;
      let failure: unknown = null;
      try {
        const data = await asking.current(abort.signal);
        if (abort.signal.aborted) return;
        if (data !== null) setState({ key, data, error: null });
        else setState((before) => (before.key === key && before.error ? { ...before, error: null } : before));
      } catch (error) {
        if (abort.signal.aborted) return;
        failure = error;
        // What is not known yet may be in a moment: a decision arrives after the pod's node.
        wait = Math.min(periodMs, RETRY_MS);
        // Lost connections are shown once for the whole page, and what is known stays.
        if (error instanceof ApiError)
          setState((before) => ({ key, data: before.key === key ? before.data : null, error }));
      }
      if (!isPast || (failure !== null && mayPass(failure))) timer = window.setTimeout(next, wait);
    };
    const next = (): void => {
      if (document.hidden || login.value.needed) timer = window.setTimeout(next, 300);
      else void once();
    };
    next();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [key, periodMs, turn, isPast]);
  const current = state.key === key;
  return {
    data: current ? state.data : null,
    error: current ? state.error : null,
    reload: () => setTurn((count) => count + 1),
  };
}

// A view, requested again after each period; what has not changed is not sent again.
export function useView<T>(path: string | null, periodMs = 2000): Loaded<T> {
  const tag = useRef({ path: "", etag: "" });
  return usePolled<T>(
    path,
    async (signal) => {
      const etag = tag.current.path === path ? tag.current.etag : "";
      const answer = await request<T>(path ?? "", etag, signal);
      tag.current = { path: path ?? "", etag: answer.etag };
      return answer.body;
    },
    periodMs,
  );
}
