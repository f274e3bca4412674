// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

/** Where a server listens: `unix:/path` or `host:port`, checked before anything starts. */
import { rmSync, statSync } from "node:fs";
import { createConnection } from "node:net";
import { dirname } from "node:path";

/** A listen address. */
export interface Address {
  /** As it is announced. */
  readonly text: string;
  /** The path of a Unix socket; undefined for host:port. */
  readonly socketPath: string | undefined;
}

/** Reads the value of `--listen`. @throws Error if it is neither a Unix socket's absolute path nor host:port. */
export function parseAddress(text: string): Address {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length).replace(/^\/\/+/, "/");
    if (!path.startsWith("/")) {
      throw new Error(`--listen: ${text}: a Unix socket needs an absolute path, as in unix:/run/plugin.sock`);
    }
    if (Buffer.byteLength(path) > 107) throw new Error(`--listen: ${text}: a Unix socket's path has at most 107 bytes`);
    return { text: `unix:${path}`, socketPath: path };
  }
  const match = /^(\[[0-9a-fA-F:.%]+\]|[^:[\]/]*):(\d{1,5})$/.exec(text);
  if (match === null || Number(match[2]) > 65535) {
    throw new Error(`--listen: ${text} is neither unix:/path nor host:port`);
  }
  return { text: `${match[1] || "0.0.0.0"}:${match[2]}`, socketPath: undefined };
}

/** Removes the socket that a process which ended has left. @throws Error if another one listens there. */
export async function clearSocket(path: string): Promise<void> {
  if (!statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory()) {
    throw new Error(`--listen: unix:${path}: ${dirname(path)} is not a directory`);
  }
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`--listen: unix:${path}: there is a file that is no socket`);
  const taken = await new Promise<boolean>((resolve) => {
    const probe = createConnection(path, () => {
      probe.destroy();
      resolve(true);
    });
    probe.on("error", () => resolve(false));
  });
  if (taken) throw new Error(`--listen: unix:${path}: another process listens there`);
  rmSync(path);
}
