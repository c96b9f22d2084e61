package peloton.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

final class DeparturesTest {
  private static final long PATIENCE = 1000;

  private final Departures departures = new Departures(PATIENCE);

  @Test
  void beginsAtOnceWhereAnotherExecutorStays() {
    departures.leaves("10001", 0);
    assertEquals(List.of("10001"), departures.due(Set.of("10001", "10002"), 0));
    assertEquals(List.of(), departures.due(Set.of("10001", "10002"), 1), "once");
    assertFalse(departures.isWaiting());
  }

  @Test
  void waitsForOneThatStaysWhereAllLeave() {
    departures.leaves("10001", 0);
    departures.leaves("10002", 5);
    assertEquals(List.of(), departures.due(Set.of("10001", "10002"), 10));
    assertTrue(departures.isWaiting());
    assertEquals(List.of("10001", "10002"), departures.due(Set.of("10001", "10002", "10003"), 20));
  }

  @Test
  void beginsAloneWhenTimeRunsOut() {
    departures.leaves("10001", 0);
    departures.leaves("10001", 900);
    assertEquals(List.of(), departures.due(Set.of("10001"), PATIENCE - 1));
    assertEquals(List.of("10001"), departures.due(Set.of("10001"), PATIENCE));
  }

  @Test
  void waitsForAnExecutorThatHasNotRegistered() {
    departures.leaves("10001", 0);
    assertEquals(List.of(), departures.due(Set.of("10002"), PATIENCE));
    assertTrue(departures.isWaiting());
    assertEquals(List.of("10001"), departures.due(Set.of("10001", "10002"), PATIENCE + 1));
  }

  @Test
  void forgetsExecutorsThatAreGone() {
    departures.leaves("10001", 0);
    departures.gone("10001");
    departures.gone("10009");
    assertFalse(departures.isWaiting());
    assertEquals(List.of(), departures.due(Set.of("10001", "10002"), 0));
  }
}
