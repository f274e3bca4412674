/** The index of where data is: a JSON document that is fetched again and again. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

/** Where one data set is. */
export interface DataSet {
  /** Its size in bytes, by which data sets of one pod are weighted; at least 1. */
  readonly bytes: number;
  /** Names of nodes that have a copy. */
  readonly nodes: ReadonlySet<string>;
  /** Zones with a copy, beside those of the nodes. */
  readonly zones: ReadonlySet<string>;
}

/** The whole index at one time. */
export interface Index {
  readonly dataSets: ReadonlyMap<string, DataSet>;
  /** The same for equal documents. */
  readonly revision: string;
}

/** Reads a document. @throws Error naming the field that is wrong. */
export function parseIndex(text: string): Index {
  const document: unknown = JSON.parse(text);
  const entries = Object.entries(objectAt(objectAt(document, "document")["dataSets"], "dataSets"));
  const dataSets = new Map(entries.map(([name, entry]) => [name, parseDataSet(entry, `dataSets.${name}`)]));
  return { dataSets, revision: createHash("sha256").update(text).digest("hex").slice(0, 12) };
}

function parseDataSet(entry: unknown, path: string): DataSet {
  const fields = objectAt(entry, path);
  const { bytes } = fields;
  if (typeof bytes !== "number" || !(bytes >= 1)) throw new Error(`${path}.bytes: must be a number of at least 1`);
  return { bytes, nodes: namesAt(fields["nodes"], `${path}.nodes`), zones: namesAt(fields["zones"], `${path}.zones`) };
}

function objectAt(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${path}: must be an object`);
  return value as Record<string, unknown>;
}

function namesAt(value: unknown, path: string): ReadonlySet<string> {
  if (value === undefined) return new Set();
  if (!Array.isArray(value) || value.some((each) => typeof each !== "string")) {
    throw new Error(`${path}: must be a list of names`);
  }
  return new Set(value as string[]);
}

/** The text at an http(s) URL or a file URL. @throws Error if it cannot be read. */
export async function fetchText(url: URL, signal: AbortSignal): Promise<string> {
  if (url.protocol === "file:") return readFile(url, "utf8");
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return response.text();
}
