// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).

/** TLS files that are read again when one has changed. */
import { statSync } from "node:fs";
import type { Logger } from "./logging.js";

/** What is read from the files. A change that cannot be used is logged once, and what was read before stays in use. */
export class WatchedFiles<T> {
  private current: T;
  private seen: string;

  /** @throws Error of `read`. */
  constructor(
    private readonly paths: readonly string[],
    private readonly read: () => T,
    private readonly log: Logger,
  ) {
    this.seen = this.stamp();
    this.current = read();
  }

  /** What was read last. */
  get contents(): T {
    return this.current;
  }

  /** Reads the files again if one has changed; whether they are in use. */
  poll(): boolean {
    const stamp = this.stamp();
    if (stamp === this.seen) return false;
    this.seen = stamp;
    try {
      this.current = this.read();
    } catch (error) {
      this.log.warn("changed TLS files cannot be used; those before stay in use", { error: message(error) });
      return false;
    }
    this.log.info("TLS files were read again", { files: this.paths.join(", ") });
    return true;
  }

  /** What differs when a file has been replaced. */
  private stamp(): string {
    const stamps = this.paths.map((path) => {
      try {
        const found = statSync(path);
        return `${found.ino}/${found.mtimeMs}/${found.size}`;
      } catch (error) {
        return message(error);
      }
    });
    return stamps.join();
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
