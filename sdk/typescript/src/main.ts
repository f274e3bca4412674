// Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

/** The command line of a plugin: address, certificates, callers, logs, metrics, and the author's own flags. */
import { parseArgs } from "node:util";
import { Handle } from "./handle.js";
import { type Level, type Logger, makeLogger } from "./logging.js";
import { Metrics, serveMetrics } from "./metrics.js";
import type { Plugin } from "./plugin.js";
import { type RunningServer, serve, type ServeOptions } from "./server.js";

/** A flag of the author's own; every flag takes a text. */
export interface Flag {
  readonly help: string;
  readonly default?: string;
}

/** What a plugin may need when it is made. */
export interface Startup {
  /** The values of the author's own flags. */
  readonly flags: Readonly<Record<string, string>>;
  readonly log: Logger;
  /** The scheduler, with `--handle-address`. */
  readonly handle: Handle | undefined;
  readonly metrics: Metrics;
  /** Aborted when the process stops. */
  readonly signal: AbortSignal;
}

/** A plugin, or what makes it. */
export type PluginSource = Plugin | ((startup: Startup) => Plugin | Promise<Plugin>);

const FLAGS: Readonly<Record<string, Flag>> = {
  listen: { help: "host:port or unix:/path", default: "127.0.0.1:0" },
  "tls-cert-file": { help: "certificate to serve with; read again when it changes" },
  "tls-private-key-file": { help: "its private key" },
  "client-ca-file": { help: "CA that callers' certificates must be signed by" },
  "allowed-identities": { help: "names of callers' certificates, comma-separated" },
  "handle-address": { help: "where the scheduler serves its handle, for allow, reject and activate" },
  "handle-ca-file": { help: "CA of the scheduler's handle; with it the certificate above is shown to the scheduler" },
  "metrics-listen": { help: "host:port of Prometheus metrics; without it there are none" },
  "log-format": { help: "text or json", default: "text" },
  "log-level": { help: "debug, info, warn or error", default: "info" },
};

/** A mistake in the command line. */
class UsageError extends Error {}

/**
 * Serves the plugin until SIGTERM or SIGINT, then exits with 0. An error is one line on stderr and exit code 1, a wrong
 * flag exit code 2. A second signal ends the process at once.
 */
export async function main(
  name: string,
  source: PluginSource,
  flags: Readonly<Record<string, Flag>> = {},
  argv: readonly string[] = process.argv.slice(2),
): Promise<void> {
  try {
    const values = parseFlags({ ...FLAGS, ...flags }, argv);
    if (values === undefined) {
      process.stdout.write(usage(name, { ...FLAGS, ...flags }));
      return;
    }
    await run(name, source, values);
    process.exit(0);
  } catch (error) {
    process.stderr.write(`${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(error instanceof UsageError ? 2 : 1);
  }
}

async function run(name: string, source: PluginSource, flags: Readonly<Record<string, string>>): Promise<void> {
  const log = makeLogger(flags["log-format"] as "text" | "json", flags["log-level"] as Level);
  const metrics = new Metrics(name);
  const stop = new AbortController();
  const handle = makeHandle(name, flags, log);
  const plugin = typeof source === "function" ? await source({ flags, log, handle, metrics, signal: stop.signal }) : source;
  if (plugin.info.name !== name) throw new Error(`main is called for ${name}, but info.name is ${plugin.info.name}`);
  const metricsListen = flags["metrics-listen"];
  const exposed = metricsListen ? await serveMetrics(metrics, metricsListen) : undefined;
  if (exposed) log.info("serving metrics", { address: exposed.address });
  const server = await serve(plugin, { ...serveOptions(flags), log, metrics });
  process.stdout.write(`listening on ${server.address}\n`);
  await untilSignal(log);
  await shutDown(server, stop);
  handle?.close();
  exposed?.server.close();
}

async function shutDown(server: RunningServer, stop: AbortController): Promise<void> {
  await server.stop();
  stop.abort();
}

function untilSignal(log: Logger): Promise<void> {
  return new Promise((resolve) => {
    let stopping = false;
    const onSignal = (signal: string) => {
      if (stopping) process.exit(1);
      stopping = true;
      log.info("stopping: calls in flight may finish", { signal });
      resolve();
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}

function makeHandle(name: string, flags: Readonly<Record<string, string>>, log: Logger): Handle | undefined {
  const address = flags["handle-address"];
  const ca = flags["handle-ca-file"];
  if (!address) return undefined;
  const tls = ca
    ? { ca, certificate: flags["tls-cert-file"] || undefined, privateKey: flags["tls-private-key-file"] || undefined }
    : undefined;
  return new Handle(address, name, tls, log);
}

function serveOptions(flags: Readonly<Record<string, string>>): ServeOptions {
  const certificate = flags["tls-cert-file"] ?? "";
  const privateKey = flags["tls-private-key-file"] ?? "";
  const clientCa = flags["client-ca-file"] ?? "";
  const allowedIdentities = (flags["allowed-identities"] ?? "").split(",").map((each) => each.trim()).filter(Boolean);
  if (Boolean(certificate) !== Boolean(privateKey)) {
    throw new UsageError("--tls-cert-file and --tls-private-key-file need each other");
  }
  if (clientCa && !certificate) {
    throw new UsageError("--client-ca-file needs --tls-cert-file and --tls-private-key-file");
  }
  if (allowedIdentities.length > 0 && !clientCa) {
    throw new UsageError("--allowed-identities needs --client-ca-file: without it no caller shows an identity");
  }
  const tls = certificate ? { certificate, privateKey, clientCa: clientCa || undefined } : undefined;
  return { listen: flags["listen"], tls, allowedIdentities };
}

/** The values of the flags; undefined where help is asked for. @throws UsageError */
function parseFlags(flags: Readonly<Record<string, Flag>>, argv: readonly string[]): Record<string, string> | undefined {
  const options: Record<string, { type: "string" | "boolean"; short?: string }> = { help: { type: "boolean", short: "h" } };
  for (const name of Object.keys(flags)) options[name] = { type: "string" };
  let values: Record<string, unknown>;
  try {
    ({ values } = parseArgs({ args: [...argv], options, allowPositionals: false }));
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split(". ")[0]}; --help lists the flags`);
  }
  if (values["help"]) return undefined;
  const all = Object.fromEntries(
    Object.entries(flags).map(([name, flag]) => [name, String(values[name] ?? flag.default ?? "")]),
  );
  requireOneOf(all, "log-format", ["text", "json"]);
  requireOneOf(all, "log-level", ["debug", "info", "warn", "error"]);
  return all;
}

function requireOneOf(values: Readonly<Record<string, string>>, name: string, allowed: readonly string[]): void {
  const value = values[name] ?? "";
  if (!allowed.includes(value)) throw new UsageError(`--${name}: ${JSON.stringify(value)} is none of ${allowed.join(", ")}`);
}

function usage(name: string, flags: Readonly<Record<string, Flag>>): string {
  const width = Math.max(...Object.keys(flags).map((flag) => flag.length)) + 4;
  const lines = Object.entries(flags).map(([flag, { help, default: fallback }]) => {
    const suffix = fallback ? ` (default ${fallback})` : "";
    return `  ${`--${flag}`.padEnd(width)}${help}${suffix}\n`;
  });
  return `The scheduler plugin ${name}.\n\n${lines.join("")}`;
}
