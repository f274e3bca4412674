// Also change: internal/trireme/sdk/description.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.ClusterEvent;
import dev.trireme.v1.ExtensionPoint;
import dev.trireme.v1.PluginInfo;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A plugin's description for the handshake: its info, and the extension points whose interfaces it implements. */
final class Description {
  private static final List<Map.Entry<Class<? extends Plugin>, ExtensionPoint>> POINTS =
      List.of(
          Map.entry(Plugin.PreEnqueue.class, ExtensionPoint.EXTENSION_POINT_PRE_ENQUEUE),
          Map.entry(Plugin.QueueSort.class, ExtensionPoint.EXTENSION_POINT_QUEUE_SORT),
          Map.entry(Plugin.PreFilter.class, ExtensionPoint.EXTENSION_POINT_PRE_FILTER),
          Map.entry(Plugin.Filter.class, ExtensionPoint.EXTENSION_POINT_FILTER),
          Map.entry(Plugin.PostFilter.class, ExtensionPoint.EXTENSION_POINT_POST_FILTER),
          Map.entry(Plugin.PreScore.class, ExtensionPoint.EXTENSION_POINT_PRE_SCORE),
          Map.entry(Plugin.Score.class, ExtensionPoint.EXTENSION_POINT_SCORE),
          Map.entry(Plugin.NormalizeScore.class, ExtensionPoint.EXTENSION_POINT_NORMALIZE_SCORE),
          Map.entry(Plugin.Reserve.class, ExtensionPoint.EXTENSION_POINT_RESERVE),
          Map.entry(Plugin.Permit.class, ExtensionPoint.EXTENSION_POINT_PERMIT),
          Map.entry(Plugin.PreBind.class, ExtensionPoint.EXTENSION_POINT_PRE_BIND),
          Map.entry(Plugin.Bind.class, ExtensionPoint.EXTENSION_POINT_BIND),
          Map.entry(Plugin.PostBind.class, ExtensionPoint.EXTENSION_POINT_POST_BIND),
          Map.entry(Plugin.PlacementFeasible.class, ExtensionPoint.EXTENSION_POINT_PLACEMENT_FEASIBLE));

  /** Where a plugin may refuse a pod, which then waits for an event. */
  private static final Set<ExtensionPoint> REFUSING =
      EnumSet.of(
          ExtensionPoint.EXTENSION_POINT_PRE_ENQUEUE,
          ExtensionPoint.EXTENSION_POINT_PRE_FILTER,
          ExtensionPoint.EXTENSION_POINT_FILTER,
          ExtensionPoint.EXTENSION_POINT_RESERVE,
          ExtensionPoint.EXTENSION_POINT_PERMIT,
          ExtensionPoint.EXTENSION_POINT_PLACEMENT_FEASIBLE);

  private Description() {}

  /** The message of a plugin. Throws IllegalArgumentException naming what is wrong. */
  static PluginInfo of(Plugin plugin) {
    Info info = plugin.info();
    Set<ExtensionPoint> points = EnumSet.noneOf(ExtensionPoint.class);
    POINTS.stream().filter(each -> each.getKey().isInstance(plugin)).forEach(each -> points.add(each.getValue()));
    String problem = problem(plugin, info, points);
    if (problem != null) {
      throw new IllegalArgumentException("plugin " + info.name() + ": " + problem);
    }
    PluginInfo.Builder out = PluginInfo.newBuilder()
        .setName(info.name())
        .setVersion(info.version())
        .addAllExtensionPoints(points)
        .setMaxConcurrentCalls(info.maxConcurrentCalls())
        .setIdempotent(info.idempotent())
        .addAllRequiredFeatures(info.requiredFeatures())
        .addAllPodFields(info.podFields())
        .setNodeData(info.nodeData().message)
        .setDependsOn(info.dependsOn().message)
        .setNormalization(info.normalization().message);
    if (plugin instanceof Plugin.NormalizeScore) {
      out.setNormalization(dev.trireme.v1.Normalization.NORMALIZATION_CUSTOM);
    }
    out.setScoreCopies(scoresCopies(plugin, info));
    boolean hint = plugin instanceof Plugin.QueueingHint;
    for (Event event : info.events()) {
      out.addEventsToRegister(ClusterEvent.newBuilder()
          .setResource(event.resource()).addAllActions(event.actions()).setHint(hint));
    }
    return out.build();
  }

  /** Whether ScoreCopies is served, so far as it would be called at all. */
  private static boolean scoresCopies(Plugin plugin, Info info) {
    if (!(plugin instanceof Plugin.Score)) {
      return false;
    }
    if (info.scoreCopies() != null) {
      return info.scoreCopies();
    }
    return info.nodeData() == NodeData.SNAPSHOT && info.dependsOn() == Dependency.NODE_PODS
        && !(plugin instanceof Plugin.NormalizeScore);
  }

  private static String problem(Plugin plugin, Info info, Set<ExtensionPoint> points) {
    if (info.name().isEmpty()) {
      return "the name must not be empty";
    }
    if (points.isEmpty()) {
      return "implements no interface of an extension point, such as Plugin.Filter or Plugin.Score";
    }
    if (info.maxConcurrentCalls() < 0) {
      return "maxConcurrentCalls must be at least 0";
    }
    for (String field : info.podFields()) {
      if (field.equals("metadata.name") || field.equals("metadata.uid")) {
        return "podFields: " + field + " would make each pod a class of its own";
      }
    }
    return eventProblem(plugin, info, points);
  }

  private static String eventProblem(Plugin plugin, Info info, Set<ExtensionPoint> points) {
    if (info.normalization() != Normalization.NONE && !(plugin instanceof Plugin.Score)) {
      return "normalization is for plugins that implement Plugin.Score";
    }
    if (!info.events().isEmpty() && points.stream().noneMatch(REFUSING::contains)) {
      return "events: no event can help a pod of this plugin, because it cannot refuse one";
    }
    if (plugin instanceof Plugin.QueueingHint && info.events().isEmpty()) {
      return "implements Plugin.QueueingHint, but its info has no events";
    }
    return null;
  }
}
