package dev.trireme.examples.licences;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.trireme.sdk.Arguments;
import dev.trireme.sdk.Call;
import dev.trireme.sdk.Configuration;
import dev.trireme.sdk.Dependency;
import dev.trireme.sdk.Event;
import dev.trireme.sdk.Info;
import dev.trireme.sdk.NodeData;
import dev.trireme.sdk.Plugin;
import dev.trireme.sdk.PluginMain;
import dev.trireme.sdk.Status;
import dev.trireme.v1.Pod;
import java.util.Map;
import java.util.TreeMap;

/**
 * The scheduler plugin FloatingLicences: pods with the label {@code example.com/licence} need a licence of the product
 * that it names, with so many for the whole cluster. Others wait until one is free.
 */
public final class FloatingLicences
    implements Plugin.Configurable, Plugin.PreFilter, Plugin.Reserve, Plugin.QueueingHint {
  /** More licences of one product than anyone has. */
  private static final long MAX_LICENCES = 1_000_000;

  private static final Info INFO = Info.of("FloatingLicences")
      .withVersion("1.0.0")
      // What is free changes with every pod that is placed or gone, wherever.
      .dependingOn(Dependency.CLUSTER)
      .withNodeData(NodeData.SNAPSHOT) // which pods there are, and their labels
      .withPodFields("metadata.labels['" + LicencesInUse.LABEL + "']")
      .withEvents(
          Event.of("AssignedPod", "Delete", "UpdatePodLabel"), Event.of("TargetPod", "UpdatePodLabel"));

  private final LicencesInUse inUse = new LicencesInUse(System::nanoTime);

  /**
   * The arguments.
   *
   * @param products how many licences there are of each product
   */
  record Settings(Map<String, Long> products) {}

  @Override
  public Info info() {
    return INFO;
  }

  /** {@code products}: the number of licences by product. */
  @Override
  public Settings configure(Configuration configuration) {
    Arguments args = new Arguments(configuration.args());
    Arguments products = args.section("products");
    Map<String, Long> licences = new TreeMap<>();
    for (String product : products.names()) {
      licences.put(product, products.integer(product, 0, 0, MAX_LICENCES));
    }
    args.finish();
    return new Settings(licences);
  }

  /** Refuses a pod while no licence is free, so that it does not go through a whole cycle in vain. */
  @Override
  public PreFilterResult preFilter(Call call) {
    String product = LicencesInUse.product(call.pod());
    if (product.isEmpty()) {
      return PreFilterResult.of(Status.SKIP);
    }
    Long total = call.config(Settings.class).products().get(product);
    if (total == null) {
      return PreFilterResult.of(Status.unresolvable("there are no licences of " + product)
          .because("unknownProduct", "product", product));
    }
    int used = inUse.count(product, call.cluster().pods());
    return used < total ? PreFilterResult.pass() : PreFilterResult.of(noneFree(product, total));
  }

  /** Takes a licence. Called again for the same pod it takes no second one. */
  @Override
  public Reservation reserve(Call call, Placement placement) {
    String product = LicencesInUse.product(call.pod());
    if (product.isEmpty()) {
      return Reservation.of(Status.SUCCESS);
    }
    long total = call.config(Settings.class).products().getOrDefault(product, 0L);
    boolean reserved = inUse.reserve(placement.pod().getUid(), product, total, call.cluster().pods());
    return Reservation.of(reserved ? Status.SUCCESS : noneFree(product, total));
  }

  /** Returns the licence of a pod that is not bound after all. */
  @Override
  public void unreserve(Call call, Placement placement) {
    inUse.unreserve(placement.pod().getUid());
  }

  /** A pod that had a licence of the product, and is gone or needs it no more, helps; so does a new label of the pod. */
  @Override
  public boolean queueingHint(Pod pod, Change change, Context context) {
    if (change.resource().equals("TargetPod")) {
      return true;
    }
    String product = LicencesInUse.product(pod);
    return product.equals(product(change.oldObject())) && !product.equals(product(change.newObject()));
  }

  private static String product(JsonElement pod) {
    if (pod == null) {
      return "";
    }
    JsonObject labels = pod.getAsJsonObject().getAsJsonObject("metadata").getAsJsonObject("labels");
    JsonElement product = labels == null ? null : labels.get(LicencesInUse.LABEL);
    return product == null ? "" : product.getAsString();
  }

  /** Evicting pods of lower priority from one node is no way to a licence, so preemption is not to try. */
  private static Status noneFree(String product, long total) {
    return Status.unresolvable("all licences of " + product + " were in use")
        .because("licencesInUse", "product", product, "total", total);
  }

  /** Serves the plugin. */
  public static void main(String[] args) {
    PluginMain.run(new FloatingLicences(), args);
  }
}
