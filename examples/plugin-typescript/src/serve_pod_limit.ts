/** Serves the plugin PodLimit: `node dist/src/serve_pod_limit.js --listen 127.0.0.1:9000`. */
import { main } from "@trireme/plugin-sdk";
import { PodLimit } from "./pod_limit.js";

await main("PodLimit", new PodLimit());
