// Also change: sdk/typescript/src/testing.ts (values for plugins' tests).
package dev.trireme.sdk;

import com.google.gson.Gson;
import com.google.protobuf.ByteString;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodIdentity;
import io.grpc.Context;
import java.util.List;
import java.util.Map;

/** Makes the arguments of a plugin's methods, so that its tests need no server. */
public final class TestValues {
  private TestValues() {}

  /** A call about a pod, with the result of configure, or null. */
  public static Call call(Pod pod, Object config) {
    return call(pod, config, null);
  }

  /** The same with the state that preFilter or preScore returned. */
  public static Call call(Pod pod, Object config, Object state) {
    Call.StateReader reader = new Call.StateReader() {
      @Override
      public <T> T read(Class<T> type) {
        return type.cast(state);
      }
    };
    return new Call(
        pod, "default-scheduler", 1, config, reader, List.of(), List.of(), null, Context.ROOT);
  }

  /** The same call as a dry run of preemption. */
  public static Call dryRun(Call call, List<Pod> removed, List<Pod> added) {
    return call.asDryRun(removed, added);
  }

  /** A node with these labels. */
  public static Node node(String name, Map<String, String> labels) {
    return node(dev.trireme.v1.Node.newBuilder()
        .setMetadata(ObjectMeta.newBuilder().setName(name).putAllLabels(labels)).build(), List.of());
  }

  /** A node with these pods. */
  public static Node node(dev.trireme.v1.Node message, List<PlacedPod> pods) {
    ObjectMeta metadata = message.getMetadata();
    String json = new Gson().toJson(Map.of("metadata", Map.of(
        "name", metadata.getName(),
        "labels", metadata.getLabelsMap(),
        "annotations", metadata.getAnnotationsMap())));
    return new Node(metadata.getName(), message, ByteString.copyFromUtf8(json), pods);
  }

  /** A pod of this namespace with these annotations. */
  public static Pod pod(String namespace, Map<String, String> annotations) {
    return Pod.newBuilder()
        .setMetadata(ObjectMeta.newBuilder().setNamespace(namespace).putAllAnnotations(annotations)).build();
  }

  /** The placement of a pod on a node. */
  public static Plugin.Placement placement(String podName, String nodeName) {
    return new Plugin.Placement(identity(podName), nodeName, 0);
  }

  /** A pod that is about to be bound to a node. */
  public static BindItem item(String podName, String nodeName, boolean outcomeUnknown) {
    return new BindItem(
        dev.trireme.v1.BindItem.newBuilder()
            .setPod(identity(podName)).setNodeName(nodeName).setOutcomeUnknown(outcomeUnknown).build(),
        StateCodec.JSON);
  }

  private static PodIdentity identity(String name) {
    return PodIdentity.newBuilder().setNamespace("default").setName(name).setUid("uid-" + name).build();
  }
}
