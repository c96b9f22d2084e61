package peloton.spark;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The executors that Peloton has told to end, and when Spark is to decommission them. It decides only; times
 * are inputs, in milliseconds. For one thread.
 *
 * <p>Spark's block managers give up moving what was shuffled where nobody can take it at the moment when they
 * begin, and refuse what another one moves that leaves, too. So where all executors have to go at once, such
 * as those of a drained host, nobody begins before one is there that stays, or time runs out.
 */
final class Departures {
  private static final class Departure {
    final long latest;
    boolean begun;

    Departure(long latest) {
      this.latest = latest;
    }
  }

  private final long patienceMillis;
  private final Map<String, Departure> leaving = new LinkedHashMap<>();

  /** {@code patienceMillis}: the longest time for which an executor waits for another one to come. */
  Departures(long patienceMillis) {
    this.patienceMillis = patienceMillis;
  }

  /** Notes that Peloton has told an executor to end. */
  void leaves(String executor, long now) {
    leaving.putIfAbsent(executor, new Departure(now + patienceMillis));
  }

  /** Notes that an executor is gone. */
  void gone(String executor) {
    leaving.remove(executor);
  }

  /** Returns whether executors wait. */
  boolean isWaiting() {
    return leaving.values().stream().anyMatch(each -> !each.begun);
  }

  /**
   * Returns the executors that are to be decommissioned now, each once.
   *
   * @param registered those to which the driver gives tasks
   */
  List<String> due(Collection<String> registered, long now) {
    boolean someStay = registered.stream().anyMatch(each -> !leaving.containsKey(each));
    List<String> due =
        leaving.entrySet().stream()
            .filter(each -> !each.getValue().begun && registered.contains(each.getKey()))
            .filter(each -> someStay || now >= each.getValue().latest)
            .map(Map.Entry::getKey)
            .toList();
    due.forEach(each -> leaving.get(each).begun = true);
    return due;
  }
}
