package dev.trireme.examples.licences;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import dev.trireme.sdk.Configuration;
import dev.trireme.sdk.InvalidArguments;
import dev.trireme.sdk.PlacedPod;
import dev.trireme.sdk.Plugin.Change;
import dev.trireme.sdk.Plugin.Context;
import dev.trireme.v1.ObjectMeta;
import dev.trireme.v1.Pod;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FloatingLicencesTest {
  private static final List<PlacedPod> NONE = List.of();
  private static final long SECOND = 1_000_000_000L;

  private long now;
  private final LicencesInUse inUse = new LicencesInUse(() -> now);

  private static Pod pod(String product) {
    return Pod.newBuilder()
        .setMetadata(ObjectMeta.newBuilder().putLabels(LicencesInUse.LABEL, product)).build();
  }

  private static PlacedPod placed(String uid, String product) {
    return new PlacedPod(uid, uid, pod(product), 0, 0, false);
  }

  private static FloatingLicences.Settings configure(String args) {
    return new FloatingLicences().configure(
        new Configuration("default-scheduler", JsonParser.parseString(args), Map.of()));
  }

  @Test
  void asManyPodsGetALicenceAsThereAre() {
    assertTrue(inUse.reserve("a", "cad", 2, NONE));
    assertTrue(inUse.reserve("b", "cad", 2, NONE));
    assertFalse(inUse.reserve("c", "cad", 2, NONE));
    assertTrue(inUse.reserve("c", "other", 1, NONE));
  }

  @Test
  void aPodThatIsAskedForAgainTakesOneLicence() {
    assertTrue(inUse.reserve("a", "cad", 1, NONE));
    assertTrue(inUse.reserve("a", "cad", 1, NONE));
    assertEquals(1, inUse.count("cad", NONE));
  }

  @Test
  void aLicenceThatIsReturnedIsFree() {
    inUse.reserve("a", "cad", 1, NONE);
    inUse.unreserve("a");
    inUse.unreserve("never reserved");
    assertTrue(inUse.reserve("b", "cad", 1, NONE));
  }

  @Test
  void aFreshProcessCountsThePodsOnNodes() {
    List<PlacedPod> bound = List.of(placed("a", "cad"), placed("b", "other"));
    assertFalse(inUse.reserve("c", "cad", 1, bound));
    assertTrue(inUse.reserve("a", "cad", 1, bound));
  }

  @Test
  void aPodThatHasReachedItsNodeCountsOnceAndUntilItIsGone() {
    inUse.reserve("a", "cad", 2, NONE);
    assertEquals(1, inUse.count("cad", List.of(placed("a", "cad"))));
    assertEquals(0, inUse.count("cad", NONE));
  }

  @Test
  void aReservationThatNothingFollowsEnds() {
    inUse.reserve("a", "cad", 1, NONE);
    now = 60 * SECOND;
    assertEquals(1, inUse.count("cad", NONE));
    now = 61 * SECOND;
    assertEquals(0, inUse.count("cad", NONE));
  }

  @ParameterizedTest
  @CsvSource({"cad, , true", "cad, cad, false", "cad, other, true", "other, , false", ", cad, false"})
  void aPodWakesWhenALicenceOfItsProductBecomesFree(String before, String after, boolean helps) {
    Change change = new Change("AssignedPod", List.of("Delete"), json(before), json(after));
    assertEquals(helps, new FloatingLicences().queueingHint(pod("cad"), change, CONTEXT));
  }

  private static final Context CONTEXT = new Context("default-scheduler", null);

  private static JsonElement json(String product) {
    return product == null ? null
        : JsonParser.parseString("{\"metadata\": {\"labels\": {\"example.com/licence\": \"" + product + "\"}}}");
  }

  @Test
  void aDeletedPodWithoutLabelsWakesNobody() {
    Change change = new Change("AssignedPod", List.of("Delete"), JsonParser.parseString("{\"metadata\": {}}"), null);
    assertFalse(new FloatingLicences().queueingHint(pod("cad"), change, CONTEXT));
  }

  @Test
  void theArgumentsAreLicencesByProduct() {
    assertEquals(Map.of("cad", 2L, "sim", 0L), configure("{\"products\": {\"cad\": 2, \"sim\": 0}}").products());
    assertEquals(Map.of(), configure("{}").products());
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "{\"products\": {\"cad\": -1}}   | args.products.cad: must be a whole number from 0 to 1000000",
    "{\"products\": {\"cad\": \"2\"}} | args.products.cad: must be a whole number from 0 to 1000000",
    "{\"products\": 3}               | args.products: must be an object",
    "{\"licences\": {}}              | args.licences: unknown field",
  })
  void wrongArgumentsAreRefusedWithTheirPath(String args, String problem) {
    assertEquals(problem, assertThrows(InvalidArguments.class, () -> configure(args)).getMessage());
  }
}
