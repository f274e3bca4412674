// Also change: console/src/documents.ts, internal/trireme/recording/frame_times.py,
// internal/trireme/cli/explain_command.py (causes of gaps).
// What was recorded: the way to it, and the time slider, which sets the moment that the whole page shows.
import { useEffect, useRef, useState } from "preact/hooks";
import { mayPass, RECORDING, request, usePolled, type Loaded } from "./api.ts";
import type { Recording, RecordingGap } from "./documents.ts";
import { age, timeOfDay } from "./format.ts";
import { showMoment } from "./moment.ts";
import { overviewFailure, useOverview } from "./overview_data.ts";
import { Pill, Waiting } from "./parts.tsx";
import { useStore } from "./store.ts";

// The end of a recording moves on; how often it is looked at.
const PERIOD_MS = 2000;
// The page is moved once the slider has been still for so long.
const SETTLE_MS = 200;
const STEPS = [
  { name: "−1 min", ms: -60_000 },
  { name: "−5 s", ms: -5_000 },
  { name: "+5 s", ms: 5_000 },
  { name: "+1 min", ms: 60_000 },
];
// By how much keys move it, as parts of all that is recorded.
const KEYS: Record<string, number> = {
  ArrowLeft: -0.001,
  ArrowDown: -0.001,
  ArrowRight: 0.001,
  ArrowUp: 0.001,
  PageDown: -0.1,
  PageUp: 0.1,
};

function useRecording(): Loaded<Recording> {
  return usePolled<Recording>(RECORDING, async (signal) => (await request<Recording>(RECORDING, "", signal)).body, PERIOD_MS, false);
}

function stamp(milliseconds: number): string {
  const at = new Date(milliseconds);
  return `${at.toLocaleDateString("en-CA")} ${timeOfDay(milliseconds)}`;
}

// Why it is not certain what was at a moment; "" where it is.
function uncertainty(gaps: RecordingGap[], milliseconds: number): string {
  const inside = gaps.filter((gap) => gap.fromMs < milliseconds && milliseconds < gap.toMs);
  const gap = inside.find((each) => each.reason !== "clockSetBack") ?? inside[0];
  if (!gap) return "";
  const span = `from ${stamp(gap.fromMs)} to ${stamp(gap.toMs)}`;
  if (gap.reason === "notRecorded") return `Nothing was recorded ${span}. What is shown is from before.`;
  if (gap.reason === "noStream")
    return `Nothing came from the scheduler ${span}. What is shown is from before.`;
  return `Insight's clock was set back. What was ${span} is not certain.`;
}

// Where they are on the slider, below it.
function Gaps({ gaps, fromMs, toMs }: { gaps: RecordingGap[]; fromMs: number; toMs: number }) {
  const percent = (milliseconds: number): number => (100 * (milliseconds - fromMs)) / Math.max(toMs - fromMs, 1);
  return (
    <span class="gaps" aria-hidden="true">
      {gaps.map((gap) => {
        const left = Math.max(percent(gap.fromMs), 0);
        const width = Math.min(percent(gap.toMs), 100) - left;
        return <span key={`${gap.fromMs} ${gap.reason}`} style={{ left: `${left}%`, width: `${Math.max(width, 0)}%` }} />;
      })}
    </span>
  );
}

// Goes to the newest moment once it is known: the process that reads the recording may have to be started first.
export function OpenRecording() {
  const { data, error } = useRecording();
  useEffect(() => {
    if (!data) return;
    showMoment(data.atMs);
    location.replace("#/");
  }, [data]);
  return (
    <>
      <h1>Recording</h1>
      <p>What was recorded is being opened, at its newest moment.</p>
      <Waiting error={error} />
    </>
  );
}

export function TimeSlider({ atMs }: { atMs: number }) {
  const { data: recording, error } = useRecording();
  const overview = useOverview();
  const [wanted, setWanted] = useState(atMs);
  const timer = useRef(0);
  const latest = useRef(atMs);
  useEffect(() => {
    // The browser's Back and Forward lead to another moment.
    window.clearTimeout(timer.current);
    latest.current = atMs;
    setWanted(atMs);
    return () => window.clearTimeout(timer.current);
  }, [atMs]);

  // What is shown stays, also once its part of the recording was deleted.
  const fromMs = recording?.fromMs ?? atMs;
  const toMs = Math.max(recording?.toMs ?? atMs, fromMs);
  const set = (milliseconds: number): void => {
    latest.current = Math.min(Math.max(milliseconds, fromMs), toMs);
    setWanted(latest.current);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => showMoment(latest.current), SETTLE_MS);
  };
  const onKey = (event: KeyboardEvent): void => {
    const part = KEYS[event.key];
    if (part === undefined) return;
    event.preventDefault();
    set(latest.current + Math.sign(part) * Math.max(Math.round(Math.abs(part) * (toMs - fromMs)), 1));
  };
  const gaps = recording?.gaps ?? [];
  const warning = uncertainty(gaps, wanted);
  const failure = useStore(overviewFailure);
  const isReading = overview?.recording?.atMs !== wanted && (failure === null || mayPass(failure));
  return (
    <section class="recording" aria-label="Time of the recording">
      <span class="what">
        <Pill tone="warn">Past</Pill> <strong class="file">{recording && !recording.live ? recording.file : ""}</strong>
      </span>
      <span class="steps">
        {STEPS.map((step) => (
          <button key={step.name} type="button" class="quiet" onClick={() => set(latest.current + step.ms)}>
            {step.name}
          </button>
        ))}
      </span>
      <span class="track">
        <input
          type="range"
          aria-label="Moment"
          aria-valuetext={warning ? `${stamp(wanted)}. ${warning}` : stamp(wanted)}
          min={fromMs}
          max={toMs}
          // With steps the end would be out of reach: the last step ends before it.
          step="any"
          value={wanted}
          onInput={(event) => set(Math.round(Number(event.currentTarget.value)))}
          onKeyDown={onKey}
        />
        <Gaps gaps={gaps} fromMs={fromMs} toMs={toMs} />
      </span>
      <output class="moment">
        {stamp(wanted)}{" "}
        <span class="note">
          {isReading ? "reading…" : `${age(Math.max(wanted - fromMs, 0))} of ${age(toMs - fromMs)}${recording?.live ? `, ${age(Date.now() - wanted)} ago` : ""}`}
        </span>
      </output>
      {recording?.live && (
        <button type="button" class="primary" onClick={() => showMoment(null, true)}>
          Back to now
        </button>
      )}
      <span class="note" role="status">
        {isReading && failure ? failure.message : ""}
      </span>
      {warning && (
        <span class="problem" role="alert">
          {warning}
        </span>
      )}
      {error && (
        <span class="problem" role="alert">
          {error.message}
        </span>
      )}
    </section>
  );
}
