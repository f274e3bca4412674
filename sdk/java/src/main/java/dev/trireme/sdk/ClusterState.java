// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.protobuf.Descriptors.FieldDescriptor;
import dev.trireme.v1.ClusterObject;
import dev.trireme.v1.Delta;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.Pod;
import dev.trireme.v1.PodColumns;
import com.google.protobuf.Message;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/** The cluster as a plugin with NodeData.SNAPSHOT follows it: nodes, the pods on them, and all other objects. */
public final class ClusterState {
  /** Bits of a pod's flags: 1 terminating, 2 terminating because the scheduler preempted it. */
  private static final int TERMINATING = 3;

  private final Map<Integer, dev.trireme.v1.Node> nodes = new HashMap<>();
  private final Map<Integer, Pod> classes = new HashMap<>();
  private final Map<Integer, PlacedPod> byRow = new HashMap<>();
  private final Map<Integer, Map<Integer, PlacedPod>> bySlot = new HashMap<>();
  private final Map<String, Map<String, ClusterObject>> objects = new HashMap<>();
  private long generation;
  private boolean synced;

  /** A delta does not follow the state: a full sync is needed. */
  static final class OutOfStep extends Exception {
    private static final long serialVersionUID = 1L;

    OutOfStep(String message) {
      super(message);
    }
  }

  ClusterState() {}

  /** The generation of the last delta. */
  public long generation() {
    return generation;
  }

  boolean synced() {
    return synced;
  }

  /** The nodes by slot. */
  public Map<Integer, dev.trireme.v1.Node> nodes() {
    return Collections.unmodifiableMap(nodes);
  }

  /** The classes of pods by number. */
  public Map<Integer, Pod> classes() {
    return Collections.unmodifiableMap(classes);
  }

  /** All pods on nodes. */
  public Collection<PlacedPod> pods() {
    return Collections.unmodifiableCollection(byRow.values());
  }

  /** The pods on the node at the slot. */
  public Collection<PlacedPod> podsOn(int slot) {
    return Collections.unmodifiableCollection(bySlot.getOrDefault(slot, Map.of()).values());
  }

  /** The pod of a row of the pod table; null if there is none. */
  public PlacedPod pod(int row) {
    return byRow.get(row);
  }

  /** The other objects of a kind, such as {@code persistent_volume_claim}. */
  public Collection<ClusterObject> objects(String kind) {
    return Collections.unmodifiableCollection(objects.getOrDefault(kind, Map.of()).values());
  }

  void apply(Delta delta) throws OutOfStep {
    if (delta.getReset()) {
      clear();
    } else if (delta.getFromGeneration() != generation) {
      throw new OutOfStep("at generation " + generation + ", not " + delta.getFromGeneration());
    }
    try {
      applyChanges(delta);
    } catch (OutOfStep error) {
      clear();
      throw error;
    }
    generation = delta.getToGeneration();
    synced = !delta.getPartial();
  }

  private void clear() {
    generation = 0;
    synced = false;
    for (Map<?, ?> each : new Map<?, ?>[] {nodes, classes, byRow, bySlot, objects}) {
      each.clear();
    }
  }

  /** In the order of the contract: what is gone goes first, so that its slot or row can be given to another. */
  private void applyChanges(Delta delta) throws OutOfStep {
    for (int row : delta.getRemovedPodsList()) {
      removePod(row);
    }
    delta.getRemovedSlotsList().forEach(nodes::remove);
    delta.getClassesList().forEach(entry -> classes.put(entry.getId(), entry.getPod()));
    delta.getNodesList().forEach(entry -> nodes.put(entry.getSlot(), entry.getNode()));
    setPods(delta.getPods());
    delta.getRemovedClassesList().forEach(classes::remove);
    delta.getObjectsList().forEach(this::setObject);
    delta.getRemovedObjectsList().forEach(key ->
        objects.getOrDefault(key.getKind(), new HashMap<>()).remove(key.getNamespace() + "/" + key.getName()));
  }

  private void setPods(PodColumns columns) throws OutOfStep {
    int count = columns.getRowCount();
    int[] lengths = {columns.getPodClassCount(), columns.getSlotCount(), columns.getUidCount(),
        columns.getNameCount(), columns.getStartTimeSCount(), columns.getFlagsCount()};
    for (int length : lengths) {
      if (length != count) {
        throw new OutOfStep("the columns of pods differ in length");
      }
    }
    for (int at = 0; at < count; at++) {
      setPod(columns, at);
    }
  }

  private void setPod(PodColumns columns, int at) throws OutOfStep {
    int row = columns.getRow(at);
    Pod pod = classes.get(columns.getPodClass(at));
    if (pod == null) {
      throw new OutOfStep("pods: there is no class " + columns.getPodClass(at));
    }
    PlacedPod old = byRow.get(row);
    String uid = columns.getUid(at);
    String name = columns.getName(at);
    if (old != null) {
      uid = uid.isEmpty() ? old.uid() : uid;
      name = name.isEmpty() ? old.name() : name;
      removePod(row);
    }
    boolean terminating = (columns.getFlags(at) & TERMINATING) != 0;
    PlacedPod placed =
        new PlacedPod(uid, name, pod, columns.getSlot(at), columns.getStartTimeS(at), terminating);
    byRow.put(row, placed);
    bySlot.computeIfAbsent(placed.slot(), slot -> new HashMap<>()).put(row, placed);
  }

  private void removePod(int row) throws OutOfStep {
    PlacedPod placed = byRow.remove(row);
    if (placed == null) {
      throw new OutOfStep("removed_pods: there is no row " + row);
    }
    bySlot.get(placed.slot()).remove(row);
  }

  private void setObject(ClusterObject changed) {
    FieldDescriptor kind =
        changed.getOneofFieldDescriptor(ClusterObject.getDescriptor().getOneofs().get(0));
    if (kind == null) {
      return;
    }
    Message object = (Message) changed.getField(kind);
    ObjectMeta metadata =
        (ObjectMeta) object.getField(object.getDescriptorForType().findFieldByName("metadata"));
    objects
        .computeIfAbsent(kind.getName(), name -> new HashMap<>())
        .put(metadata.getNamespace() + "/" + metadata.getName(), changed);
  }
}
