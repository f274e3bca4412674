// Also change: internal/trireme/sdk/logs.py (which names the other languages' files).

/** Structured logs on stderr: one line an entry, as text or as JSON. */

/** How severe an entry is. */
export type Level = "debug" | "info" | "warn" | "error";

/** Named values of an entry. An Error is written with its stack. */
export type Fields = Readonly<Record<string, unknown>>;

/** Writes entries. */
export interface Logger {
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

const ORDER: readonly Level[] = ["debug", "info", "warn", "error"];

/** Makes a logger that writes entries of at least this level. */
export function makeLogger(
  format: "text" | "json" = "text",
  level: Level = "info",
  write: (line: string) => void = (line) => void process.stderr.write(line),
): Logger {
  const log = (at: Level) => (message: string, fields: Fields = {}) => {
    if (ORDER.indexOf(at) < ORDER.indexOf(level)) return;
    const time = new Date().toISOString();
    write((format === "json" ? asJson(time, at, message, fields) : asText(time, at, message, fields)) + "\n");
  };
  return { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") };
}

/** Writes nothing; for tests. */
export const silentLogger: Logger = makeLogger("text", "error", () => undefined);

function asJson(time: string, level: Level, message: string, fields: Fields): string {
  return JSON.stringify({ time, level, message, ...fields }, (_, value: unknown) => plain(value));
}

function asText(time: string, level: Level, message: string, fields: Fields): string {
  const parts = Object.entries(fields).map(([name, value]) => `${name}=${quote(plain(value))}`);
  return [time, level.charAt(0).toUpperCase(), message, ...parts].join(" ");
}

function plain(value: unknown): unknown {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === "bigint" ? value.toString() : value;
}

function quote(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return /^[\w./:@-]+$/.test(text) ? text : JSON.stringify(text);
}
