// The story that every client tells, with fabric8's kubernetes-client: see run_clients.py.
package dev.trireme;

import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinitionBuilder;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

public final class Client {
  private static final String NAMESPACE = "client-java";
  private static final String GROUP = "java.clients.example.com";

  public static void main(String[] arguments) throws Exception {
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      check("three nodes", client.nodes().list().getItems().size() == 3);
      client.resource(new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build()).create();
      pods(client);
      customResources(client);
    }
  }

  /** fabric8 asks for a WebSocket first, and took the answer 200 for granted: its informers then saw nothing. */
  private static void pods(KubernetesClient client) throws Exception {
    Set<String> running = ConcurrentHashMap.newKeySet();
    SharedIndexInformer<Pod> informer = client.pods().inNamespace(NAMESPACE).inform(new ResourceEventHandler<>() {
      @Override
      public void onAdd(Pod pod) {
        if ("Running".equals(pod.getStatus().getPhase())) {
          running.add(pod.getMetadata().getName());
        }
      }

      @Override
      public void onUpdate(Pod before, Pod pod) {
        onAdd(pod);
      }

      @Override
      public void onDelete(Pod pod, boolean unknown) {
        running.remove(pod.getMetadata().getName());
      }
    });
    Map<String, String> labels = Map.of("app", "web");
    client.resource(new DeploymentBuilder()
        .withNewMetadata().withName("web").withNamespace(NAMESPACE).endMetadata()
        .withNewSpec().withReplicas(2)
        .withNewSelector().withMatchLabels(labels).endSelector()
        .withNewTemplate()
        .withNewMetadata().withLabels(labels).endMetadata()
        .withNewSpec().addNewContainer().withName("c").withImage("example.com/web").endContainer().endSpec()
        .endTemplate().endSpec().build()).create();
    until("two pods run", () -> running.size() == 2);
    client.apps().deployments().inNamespace(NAMESPACE).withName("web").scale(3);
    until("three pods run", () -> running.size() == 3);
    client.apps().deployments().inNamespace(NAMESPACE).withName("web").waitUntilReady(1, TimeUnit.MINUTES);
    String name = running.iterator().next();
    check("a log is text", client.pods().inNamespace(NAMESPACE).withName(name).getLog().contains("is simulated"));
    client.namespaces().withName(NAMESPACE).delete();
    until("all pods are gone", running::isEmpty);
    informer.stop();
  }

  private static void customResources(KubernetesClient client) throws Exception {
    CustomResourceDefinition definition = new CustomResourceDefinitionBuilder()
        .withNewMetadata().withName("things." + GROUP).endMetadata()
        .withNewSpec().withGroup(GROUP).withScope("Cluster")
        .withNewNames().withPlural("things").withKind("Thing").endNames()
        .addNewVersion().withName("v1").withServed(true).withStorage(true)
        .withNewSchema().withNewOpenAPIV3Schema().withType("object").withXKubernetesPreserveUnknownFields(true)
        .endOpenAPIV3Schema().endSchema()
        .withNewSubresources().withNewStatus().endStatus().endSubresources()
        .endVersion().endSpec().build();
    client.resource(definition).create();
    client.apiextensions().v1().customResourceDefinitions().withName("things." + GROUP).waitUntilCondition(
        found -> found != null && found.getStatus() != null && found.getStatus().getConditions().stream()
            .anyMatch(one -> one.getType().equals("Established") && one.getStatus().equals("True")),
        1, TimeUnit.MINUTES);
    var things = client.genericKubernetesResources(new ResourceDefinitionContext.Builder()
        .withGroup(GROUP).withVersion("v1").withKind("Thing").withPlural("things").withNamespaced(false).build());
    GenericKubernetesResource thing = new GenericKubernetesResource();
    thing.setApiVersion(GROUP + "/v1");
    thing.setKind("Thing");
    thing.setMetadata(new ObjectMetaBuilder().withName("a").build());
    thing.setAdditionalProperty("spec", Map.of("size", 1));
    GenericKubernetesResource created = things.resource(thing).create();
    created.setAdditionalProperty("status", Map.of("ready", true));
    things.resource(created).updateStatus();
    GenericKubernetesResource stored = things.withName("a").get();
    check("spec and status", Map.of("size", 1).equals(stored.getAdditionalProperties().get("spec"))
        && Map.of("ready", true).equals(stored.getAdditionalProperties().get("status")));
    client.resource(definition).delete();
  }

  private static void check(String what, boolean holds) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static void until(String what, BooleanSupplier check) throws InterruptedException {
    for (long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1); System.nanoTime() < end; ) {
      if (check.getAsBoolean()) {
        return;
      }
      Thread.sleep(50);
    }
    throw new AssertionError("not within a minute: " + what);
  }
}
