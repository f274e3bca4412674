// The time slider, where the page shows a recording: the whole page is as of the moment that it sets.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "./api.ts";
import type { Recording } from "./documents.ts";
import { age, timeOfDay } from "./format.ts";
import { followOverview, useOverview } from "./overview_data.ts";
import { pinClock } from "./store.ts";

// While the slider is dragged, the page is moved this often.
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

// What the page shows; null: the cluster as it is now.
export function useRecording(): Recording | null {
  return useOverview()?.recording ?? null;
}

function stamp(milliseconds: number): string {
  const at = new Date(milliseconds);
  return `${at.toLocaleDateString("en-CA")} ${timeOfDay(milliseconds)}`;
}

export function TimeSlider({ recording }: { recording: Recording }) {
  const { fromMs, toMs } = recording;
  const [wanted, setWanted] = useState(recording.atMs);
  const [moving, setMoving] = useState(false);
  const [problem, setProblem] = useState("");
  const timer = useRef(0);
  const latest = useRef(recording.atMs);
  useEffect(() => () => window.clearTimeout(timer.current), []);

  const move = async (): Promise<void> => {
    setMoving(true);
    try {
      const { body } = await request<Recording>("v1/recording", "", undefined, { atMs: latest.current });
      if (body) pinClock(body.atMs);
      await followOverview();
      setProblem("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setMoving(false);
  };
  const set = (atMs: number): void => {
    latest.current = Math.min(Math.max(atMs, fromMs), toMs);
    setWanted(latest.current);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => void move(), SETTLE_MS);
  };
  const onKey = (event: KeyboardEvent): void => {
    const part = KEYS[event.key];
    if (part === undefined) return;
    event.preventDefault();
    set(latest.current + Math.sign(part) * Math.max(Math.round(Math.abs(part) * (toMs - fromMs)), 1));
  };
  return (
    <section class="recording" aria-label="Time of the recording">
      <strong class="file">{recording.file}</strong>
      <span class="steps">
        {STEPS.map((step) => (
          <button key={step.name} type="button" class="quiet" onClick={() => set(latest.current + step.ms)}>
            {step.name}
          </button>
        ))}
      </span>
      <input
        type="range"
        aria-label="Moment"
        aria-valuetext={stamp(wanted)}
        min={fromMs}
        max={toMs}
        // With steps the end would be out of reach: the last step ends before it.
        step="any"
        value={wanted}
        onInput={(event) => set(Math.round(Number(event.currentTarget.value)))}
        onKeyDown={onKey}
      />
      <output class="moment">
        {stamp(wanted)} <span class="note">{age(wanted - fromMs)} of {age(toMs - fromMs)}</span>
      </output>
      <span class="note" role="status">
        {moving ? "moving…" : ""}
      </span>
      {problem && (
        <span class="problem" role="alert">
          {problem}
        </span>
      )}
    </section>
  );
}
