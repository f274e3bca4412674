// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).
package dev.trireme.sdk;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** Results of configure, by the configuration's hash and the profile. */
final class Configurations {
  /** The most configurations held, of several schedulers or of one over time; the oldest is dropped first. */
  private static final int MAX_CONFIGURATIONS = 32;

  private final Map<Long, Map<String, Object>> byHash = new LinkedHashMap<>();

  synchronized void add(long hash, String profile, Object value) {
    Map<String, Object> profiles = byHash.remove(hash);
    if (profiles == null) {
      profiles = new HashMap<>();
    }
    profiles.put(profile, value);
    byHash.put(hash, profiles);
    if (byHash.size() > MAX_CONFIGURATIONS) {
      byHash.remove(byHash.keySet().iterator().next());
    }
  }

  synchronized boolean has(long hash) {
    return byHash.containsKey(hash);
  }

  /** The result for the profile, or for any where the call does not say which. */
  synchronized Object getAny(long hash, String profile) {
    Map<String, Object> profiles = byHash.getOrDefault(hash, Map.of());
    return profiles.containsKey(profile) || profiles.isEmpty()
        ? profiles.get(profile) : profiles.values().iterator().next();
  }

  synchronized Object get(long hash, String profile) {
    return byHash.getOrDefault(hash, Map.of()).get(profile);
  }
}
