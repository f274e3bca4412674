/** Serves the plugin: `node dist/src/main.js --listen 127.0.0.1:9000 --handle-address unix:/run/trireme/handle.sock`. */
import { main, type PodName } from "@trireme/plugin-sdk";
import { MaintenanceWindows } from "./maintenance_windows.js";

await main("MaintenanceWindows", ({ handle, log, signal }) => {
  if (handle === undefined) log.warn("without --handle-address pods do not wake when a window ends");
  const wake = async (pods: readonly PodName[]) => {
    try {
      const activated = await handle?.activate(pods);
      log.info("a maintenance window has ended", { pods: pods.length, activated: activated?.length ?? 0 });
    } catch (error) {
      log.error("the scheduler did not take the pods to activate", { error: String(error) });
    }
  };
  const plugin = new MaintenanceWindows({ wake, log });
  signal.addEventListener("abort", () => plugin.close());
  return plugin;
});
