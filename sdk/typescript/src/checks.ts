// Also change: internal/trireme/sdk/result_checks.py (which names the other languages' files).

/** Checks what methods return, where a type assertion or JavaScript has let something else through. */
import { inspect } from "node:util";
import { InvalidResult } from "./errors.js";
import { Code } from "./generated/trireme/v1/status.js";
import { Status } from "./results.js";

type Kind = "anything" | "array" | "boolean" | "number" | "object" | "string" | "strings";

/** The result as a message shows it, in one line. */
export function shown(result: unknown): string {
  const text = inspect(result, { depth: 1, breakLength: Infinity, maxArrayLength: 3, maxStringLength: 60 });
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

/** @throws InvalidResult saying what came, and what is expected. */
export function reject(result: unknown, expected: string): never {
  throw new InvalidResult(`returned ${shown(result)}: must be ${expected}`);
}

/** Checks that a status is one that the method may return. @throws InvalidResult */
export function checkStatus(status: Status, expected: string): void {
  if (status.code === Code.SKIP && !expected.includes("SKIP")) reject(new Name("SKIP"), expected);
  if (status.code === Code.WAIT && !expected.includes("moreMembers")) reject(new Name("a status of Code.WAIT"), expected);
}

/** Checks an object's fields by their kinds. @throws InvalidResult for no object, another field, or a wrong value. */
export function checkFields(result: unknown, kinds: Readonly<Record<string, Kind>>, expected: string): void {
  if (typeof result !== "object" || result === null || Array.isArray(result)) reject(result, expected);
  for (const [name, value] of Object.entries(result)) {
    const kind = kinds[name];
    if (kind === undefined) throw new InvalidResult(`returned an object with the field ${name}: must be ${expected}`);
    if (value !== undefined && !isOf(kind, value)) {
      const wanted = kind === "strings" ? "an array of strings" : `${kind === "array" || kind === "object" ? "an" : "a"} ${kind}`;
      throw new InvalidResult(`returned ${shown(value)} as ${name}: must be ${wanted}`);
    }
  }
}

/** @throws InvalidResult for anything but an array of one element for each node. */
export function checkArray(result: unknown, count: number, elements: string): void {
  if (!Array.isArray(result)) reject(result, `an array of ${elements}, one a node`);
  if (result.length !== count) throw new InvalidResult(`returned ${result.length} ${elements} of ${count} nodes`);
}

function isOf(kind: Kind, value: unknown): boolean {
  if (kind === "anything") return true;
  if (kind === "array") return Array.isArray(value);
  if (kind === "strings") return Array.isArray(value) && value.every((each) => typeof each === "string");
  return typeof value === kind && value !== null;
}

/** Something that messages show by this name. */
class Name {
  constructor(private readonly name: string) {}

  [inspect.custom](): string {
    return this.name;
  }
}
