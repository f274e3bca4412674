// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import java.util.Map;

/**
 * One profile's configuration of the plugin.
 *
 * @param profile the profile (its schedulerName)
 * @param args the profile's pluginConfig; an empty object without one
 * @param featureGates the scheduler's feature gates, by name
 */
public record Configuration(String profile, JsonElement args, Map<String, Boolean> featureGates) {}
