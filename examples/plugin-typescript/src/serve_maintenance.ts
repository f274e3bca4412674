/** Serves the plugin Maintenance: `node dist/src/serve_maintenance.js --listen 127.0.0.1:9000`. */
import { main } from "@trireme/plugin-sdk";
import { Maintenance } from "./maintenance.js";

await main("Maintenance", new Maintenance());
