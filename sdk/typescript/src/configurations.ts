// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).

/** Results of `configure`, by the configuration's hash and the profile. */

/** The most configurations held, of several schedulers or of one over time; the oldest is dropped first. */
const MAX_CONFIGURATIONS = 32;

/** The configurations that a plugin accepted. */
export class Configurations {
  private readonly byHash = new Map<bigint, Map<string, unknown>>();

  /** Records one. */
  add(hash: bigint, profile: string, value: unknown): void {
    const profiles = this.byHash.get(hash) ?? new Map<string, unknown>();
    profiles.set(profile, value);
    this.byHash.delete(hash);
    this.byHash.set(hash, profiles);
    if (this.byHash.size > MAX_CONFIGURATIONS) this.byHash.delete(this.byHash.keys().next().value as bigint);
  }

  /** Whether the plugin accepted the configuration of this hash. */
  has(hash: bigint): boolean {
    return this.byHash.has(hash);
  }

  /** The result of `configure` for the profile, or for any where the call does not say which. */
  getAny(hash: bigint, profile: string): unknown {
    const profiles = this.byHash.get(hash);
    return profiles?.has(profile) ? profiles.get(profile) : profiles?.values().next().value;
  }

  /** The result of `configure`; undefined if it was not called for the profile. */
  get(hash: bigint, profile: string): unknown {
    return this.byHash.get(hash)?.get(profile);
  }
}
