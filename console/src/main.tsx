// The page: its frame, which view is shown, the connection's state, and the login.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { hasToken, login, lostSince, setToken } from "./api.ts";
import { age, count, timeOfDay } from "./format.ts";
import { moment } from "./moment.ts";
import { useOverview } from "./overview_data.ts";
import { OpenRecording, TimeSlider } from "./recording.tsx";
import { PodSearch } from "./search.tsx";
import { clock, useStore } from "./store.ts";
import "./style.css";
import { ComponentsView } from "./views/components.tsx";
import { GroupsView } from "./views/groups.tsx";
import { NodeView } from "./views/node.tsx";
import { NodesView } from "./views/nodes.tsx";
import { OverviewView } from "./views/overview.tsx";
import { PendingView } from "./views/pending.tsx";
import { PodView } from "./views/pod.tsx";
import { PreemptionsView } from "./views/preemptions.tsx";
import { SimulationView } from "./views/simulation.tsx";

// Those that are `live` show what a recording does not hold, or lead to it.
const VIEWS: { href: string; name: string; live?: boolean; recorded?: boolean }[] = [
  { href: "#/", name: "Overview" },
  { href: "#/pending", name: "Pending" },
  { href: "#/nodes", name: "Nodes" },
  { href: "#/groups", name: "Groups" },
  { href: "#/preemptions", name: "Preemptions" },
  { href: "#/scheduler", name: "Scheduler", live: true },
  { href: "#/simulation", name: "Simulation" },
  { href: "#/recording", name: "Recording", live: true, recorded: true },
];

function useRoute(): { parts: string[]; query: URLSearchParams } {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = (): void => setHash(location.hash);
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

function Shown({ parts, query }: { parts: string[]; query: URLSearchParams }) {
  const [view, first, second] = parts;
  if (view === undefined) return <OverviewView />;
  if (view === "pending") return <PendingView open={query.get("reason") ?? ""} />;
  if (view === "pods" && first && second) return <PodView key={`${first}/${second}`} namespace={first} name={second} />;
  if (view === "nodes" && first) return <NodeView key={first} name={first} />;
  if (view === "nodes") return <NodesView pod={query.get("pod") ?? ""} />;
  if (view === "groups") return <GroupsView />;
  if (view === "preemptions") return <PreemptionsView />;
  if (view === "simulation") return <SimulationView />;
  if (view === "scheduler") return <ComponentsView />;
  if (view === "recording") return <OpenRecording />;
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        <a href="#/">Go to the overview</a>
      </p>
    </div>
  );
}

function Login() {
  const { message } = useStore(login);
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <main class="login">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken(text);
        }}
      >
        <h1>Trireme console</h1>
        <p>
          Send a token that the API server accepts, for example of <code>kubectl create token NAME</code>. You see what its
          user may see.
        </p>
        <label>
          Bearer token
          <input
            ref={field}
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        {message && (
          <p class="problem" role="alert">
            {message}
          </p>
        )}
        <button type="submit" class="primary" disabled={!text.trim()}>
          Log in
        </button>
        <p class="note">The token stays in the memory of this page and is gone when it is closed or loaded again.</p>
      </form>
    </main>
  );
}

function Connection() {
  const lost = useStore(lostSince);
  const now = useStore(clock);
  const overview = useOverview();
  if (lost !== null)
    return (
      <div class="banner bad" role="alert">
        No connection to insight for {age(now - lost)}. What is shown is from before; it is tried again.
      </div>
    );
  // The time slider shows a moment of the past.
  if (overview && !overview.recording && overview.disconnectedMs > 3000)
    return (
      <div class="banner bad" role="alert">
        Insight has lost the scheduler {age(overview.disconnectedMs)} ago. What is shown is from before.
      </div>
    );
  if (overview && overview.missingPhases.length > 0)
    return (
      <div class="banner bad" role="alert">
        Nothing is scheduled: no replica of {overview.missingPhases.join(" and ")} answers.
      </div>
    );
  if (overview?.recordingFailure)
    return (
      <div class="banner bad" role="alert">
        Recording fails since {timeOfDay(overview.recordingFailure.sinceMs)}
        {overview.recordingFailure.error && `: ${overview.recordingFailure.error}`}. It is tried again; what happens
        meanwhile will be missing.
      </div>
    );
  return null;
}

function Page() {
  const { needed } = useStore(login);
  const route = useRoute();
  const overview = useOverview();
  const atMs = useStore(moment);
  const isShown = atMs === null || overview?.recording?.atMs === atMs;
  const main = useRef<HTMLElement>(null);
  const path = route.parts.join("/");
  useEffect(() => {
    const name = route.parts.length > 1 ? route.parts.slice(1).join("/") : (route.parts[0] ?? "overview");
    document.title = `${name} · ${atMs === null ? "" : "past · "}Trireme`;
    window.scrollTo(0, 0);
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [path, atMs === null]);
  if (needed) return <Login />;
  const section = route.parts[0] === "pods" ? "pending" : (route.parts[0] ?? "");
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="#/" aria-label="Trireme, overview">
          <img class="mark" src="icon.svg" alt="" width="20" height="20" />
          Trireme
        </a>
        <nav aria-label="Views">
          {VIEWS.filter((view) => !(view.live && atMs !== null) && !(view.recorded && !overview?.recorded)).map((view) => (
            <a key={view.href} href={view.href} aria-current={view.href === `#/${section}` ? "page" : undefined}>
              {view.name}
              {view.name === "Pending" && isShown && overview && overview.cluster.queued > 0 && (
                <span class="badge">{count(overview.cluster.queued)}</span>
              )}
            </a>
          ))}
        </nav>
        <PodSearch />
        {hasToken() && (
          <button type="button" class="quiet" onClick={() => (setToken(""), login.set({ needed: true, message: "" }))}>
            Log out
          </button>
        )}
      </header>
      <Connection />
      {atMs !== null && <TimeSlider atMs={atMs} />}
      <main id="content" ref={main} tabIndex={-1}>
        {/* Of another moment nothing holds that was loaded before. */}
        <Shown key={atMs ?? 0} parts={route.parts} query={route.query} />
      </main>
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<Page />, root);
