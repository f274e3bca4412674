// Also change: internal/trireme/sdk/metrics.py (which names the other languages' files).

/** Metrics of a plugin's calls, as Prometheus reads them. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

/** Upper bounds of durations in seconds: a plugin's calls take from a fraction of a millisecond to its deadline. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The metrics of one plugin. A plugin may add its own to `registry`. */
export class Metrics {
  readonly registry = new Registry();
  private readonly calls = new Counter({
    name: "trireme_plugin_calls_total",
    help: "Calls that ended, by RPC and gRPC code.",
    labelNames: ["rpc", "code"] as const,
    registers: [this.registry],
  });
  private readonly durations = new Histogram({
    name: "trireme_plugin_call_duration_seconds",
    help: "Duration of calls, by RPC.",
    labelNames: ["rpc"] as const,
    buckets: BUCKETS,
    registers: [this.registry],
  });
  private readonly running = new Gauge({
    name: "trireme_plugin_calls_in_flight",
    help: "Calls that have begun and not ended.",
    registers: [this.registry],
  });

  constructor(plugin: string) {
    this.registry.setDefaultLabels({ plugin });
  }

  /** Notes that a call begins; the function that is returned notes its end. */
  begin(rpc: string): (code: string) => void {
    const started = process.hrtime.bigint();
    this.running.inc();
    return (code) => {
      this.running.dec();
      this.calls.inc({ rpc, code });
      this.durations.observe({ rpc }, Number(process.hrtime.bigint() - started) / 1e9);
    };
  }
}

/** Serves `GET /metrics` on `host:port`; resolves with the server and the address that it listens on. */
export async function serveMetrics(metrics: Metrics, listen: string): Promise<{ server: Server; address: string }> {
  const match = /^(.*):(\d+)$/.exec(listen);
  if (match === null) throw new Error(`--metrics-listen: ${JSON.stringify(listen)} is not host:port`);
  const host = match[1]!.replace(/^\[|\]$/g, "") || "0.0.0.0";
  collectDefaultMetrics({ register: metrics.registry });
  const server = createServer((request, response) => {
    if (request.url !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    metrics.registry.metrics().then(
      (text) => response.writeHead(200, { "content-type": metrics.registry.contentType }).end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(new Error(`--metrics-listen: ${listen}: ${error.message}`)));
    server.listen(Number(match[2]), host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return { server, address: `${match[1] || "0.0.0.0"}:${port}` };
}
