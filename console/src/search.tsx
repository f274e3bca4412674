// Also change: internal/trireme/insight/console/views.py (the path of the document).
// The field that finds a pod by a part of its name; `/` leads to it.
import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "./api.ts";
import type { FoundPods } from "./documents.ts";
import { podHref } from "./format.ts";

const DELAY_MS = 150;

export function PodSearch() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<FoundPods["pods"]>([]);
  const [chosen, setChosen] = useState(0);
  const [open, setOpen] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
        event.preventDefault();
        field.current?.focus();
      }
    };
    window.addEventListener("keydown", focus);
    return () => window.removeEventListener("keydown", focus);
  }, []);
  useEffect(() => {
    setChosen(0);
    if (!text) {
      setFound([]);
      return undefined;
    }
    const abort = new AbortController();
    const timer = window.setTimeout(() => {
      request<FoundPods>(`v1/pods?text=${encodeURIComponent(text)}`, "", abort.signal)
        .then((answer) => setFound(answer.body?.pods.slice(0, 12) ?? []))
        .catch(() => setFound([]));
    }, DELAY_MS);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [text]);
  const go = (namespace: string, name: string): void => {
    location.hash = podHref(namespace, name);
    setText("");
    setOpen(false);
    field.current?.blur();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setChosen((at) => Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen((at) => Math.max(at - 1, 0));
    else if (event.key === "Escape") {
      setText("");
      field.current?.blur();
    } else if (event.key === "Enter") {
      const pod = found[chosen];
      const [namespace, name] = text.split("/");
      if (pod) go(pod.namespace, pod.name);
      else if (namespace && name) go(namespace, name);
      else return;
    } else return;
    event.preventDefault();
  };
  const listed = open && found.length > 0;
  return (
    <div class="search">
      <input
        ref={field}
        type="search"
        list={undefined}
        placeholder="Find a pod  /"
        aria-label="Find a pod by namespace/name"
        role="combobox"
        aria-expanded={listed}
        aria-controls="found-pods"
        aria-activedescendant={listed ? `found-${chosen}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value.trim().toLowerCase())}
        onKeyDown={onKey}
        onFocus={() => setOpen(true)}
        onBlur={() => window.setTimeout(() => setOpen(false), 150)}
      />
      <ul id="found-pods" role="listbox" aria-label="Pods found" hidden={!listed}>
        {found.map((pod, index) => (
          <li
            key={`${pod.namespace}/${pod.name}`}
            id={`found-${index}`}
            role="option"
            aria-selected={index === chosen}
            onPointerDown={() => go(pod.namespace, pod.name)}
          >
            <span>
              {pod.namespace}/<b>{pod.name}</b>
            </span>
            <span class="note">{pod.state}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
