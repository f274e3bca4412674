/** Serves the plugin: `node dist/src/main.js --listen 127.0.0.1:9000 --index-url https://index.example.com/data.json`. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Logger, main } from "@trireme/plugin-sdk";
import { Gauge } from "prom-client";
import { DataLocality } from "./data_locality.js";
import { fetchText, type Index, parseIndex } from "./index_client.js";

const FLAGS = {
  "index-url": { help: "the index of data: http, https or file" },
  "refresh-seconds": { help: "how often the index is fetched", default: "30" },
};

await main(
  "DataLocality",
  async ({ flags, log, metrics, signal }) => {
    const url = parseUrl(flags["index-url"] ?? "");
    const seconds = Number(flags["refresh-seconds"]);
    if (!(seconds > 0)) throw new Error("--refresh-seconds: must be a number above 0");
    const loaded = new Gauge({
      name: "data_locality_index_loaded_timestamp_seconds",
      help: "When the index was last fetched.",
      registers: [metrics.registry],
    });
    const load = async (): Promise<Index> => {
      const timeout = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
      const index = parseIndex(await fetchText(url, timeout));
      loaded.setToCurrentTime();
      return index;
    };
    // Without an index there is nothing to answer, so the plugin does not start.
    const plugin = new DataLocality(await load());
    void refresh(plugin, load, seconds * 1000, signal, log);
    return plugin;
  },
  FLAGS,
);

function parseUrl(text: string): URL {
  if (!URL.canParse(text)) throw new Error(`--index-url: ${JSON.stringify(text)} is no URL`);
  return new URL(text);
}

/** Fetches the index again and again; one that cannot be read leaves that before in use. */
async function refresh(
  plugin: DataLocality,
  load: () => Promise<Index>,
  milliseconds: number,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(milliseconds, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (plugin.replace(await load())) log.info("the index has changed", { version: plugin.info.version });
    } catch (error) {
      log.warn("the index cannot be read; that before stays in use", { error: String(error) });
    }
  }
}
