package dev.trireme.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonParser;
import dev.trireme.sdk.Call;
import dev.trireme.sdk.Configuration;
import dev.trireme.sdk.InvalidArguments;
import dev.trireme.sdk.Node;
import dev.trireme.sdk.PlacedPod;
import dev.trireme.sdk.Status;
import dev.trireme.sdk.TestValues;
import dev.trireme.sdk.Verdict;
import dev.trireme.v1.Pod;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A plugin's own tests need no server: its methods are called with a call and nodes. */
class PluginsTest {
  private static final Pod POD = Pod.getDefaultInstance();
  private static final Call CALL = TestValues.call(POD, Maintenance.MAINTENANCE);

  private static Object configure(String args) {
    return new Maintenance().configure(
        new Configuration("default-scheduler", JsonParser.parseString(args), Map.of()));
  }

  @ParameterizedTest
  @CsvSource({"''", "disk"})
  void aNodeUnderMaintenanceIsRefusedWhateverTheValue(String value) {
    Verdict verdict =
        new Maintenance().filter(CALL, TestValues.node("node-1", Map.of(Maintenance.MAINTENANCE, value)));
    assertEquals("node(s) were under maintenance", assertInstanceOf(Status.class, verdict).message());
  }

  @Test
  void anyOtherNodePasses() {
    assertEquals(Verdict.PASS, new Maintenance().filter(CALL, TestValues.node("node-1", Map.of("x", "y"))));
  }

  @Test
  void theArgumentsNameTheLabel() {
    assertEquals("down", configure("{\"maintenanceLabel\": \"down\"}"));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "{\"maintenanceLabel\": \"no key\"} | args.maintenanceLabel: must be the key of a label",
    "{\"maintenanceLabel\": 7}          | args.maintenanceLabel: must be a text",
    "{\"label\": \"down\"}              | args.label: unknown field",
    "[]                                 | args: must be an object",
  })
  void wrongArgumentsAreRefusedWithTheirPath(String args, String problem) {
    assertEquals(problem, assertThrows(InvalidArguments.class, () -> configure(args)).getMessage());
  }

  @ParameterizedTest
  @CsvSource({"7, 7", "101, 100", "-5, 0", "many, 0", "'', 0"})
  void theScoreIsThePreference(String label, long score) {
    Node node = TestValues.node("node-1", Map.of(Maintenance.PREFERENCE, label));
    assertEquals(score, new Maintenance().score(CALL, node));
  }

  @Test
  void aNodeTakesAsManyPodsAsItsLimitLeavesRoomForDryRunsIncluded() {
    dev.trireme.v1.Node message = TestValues.node("node-1", Map.of(PodLimit.LIMIT, "2")).message();
    Node node = TestValues.node(message, List.of(new PlacedPod("u", "p", POD, 0, 0, false)));
    PodLimit plugin = new PodLimit();
    assertEquals(Verdict.capacity(1), plugin.filter(CALL, node));
    assertInstanceOf(Status.class, plugin.filter(TestValues.dryRun(CALL, List.of(), List.of(POD)), node));
    assertEquals(Verdict.capacity(2), plugin.filter(TestValues.dryRun(CALL, List.of(POD), List.of()), node));
    assertEquals(Verdict.PASS, plugin.filter(CALL, TestValues.node("other", Map.of())));
    assertEquals(50, plugin.score(CALL, node));
    assertEquals(100, plugin.score(CALL, TestValues.node("other", Map.of())));
  }
}
