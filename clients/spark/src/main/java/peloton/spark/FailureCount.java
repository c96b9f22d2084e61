package peloton.spark;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Counts executors that have failed by themselves: with too many of them an application is given
 * up, and with several within a minute new ones wait. Times are in milliseconds. For one thread.
 */
final class FailureCount {
  private static final long MINUTE = 60_000;
  private static final int WITHOUT_PAUSE = 3;
  private static final long FIRST_PAUSE = 500;
  private static final long LONGEST_PAUSE = 30_000;
  private static final int MOST_DOUBLINGS = 6;

  private final int most;
  private final long validMillis;
  private final Deque<Long> times = new ArrayDeque<>();

  FailureCount(int most, long validMillis) {
    this.most = most;
    this.validMillis = validMillis;
  }

  void failed(long now) {
    times.addLast(now);
    while (times.getFirst() <= now - validMillis) {
      times.removeFirst();
    }
  }

  int count() {
    return times.size();
  }

  boolean areTooMany() {
    return times.size() > most;
  }

  /** Returns how long new executors wait. */
  long pauseMillis(long now) {
    int recent = (int) times.stream().filter(each -> each > now - MINUTE).count();
    if (recent < WITHOUT_PAUSE) {
      return 0;
    }
    return Math.min(LONGEST_PAUSE, FIRST_PAUSE << Math.min(MOST_DOUBLINGS, recent - WITHOUT_PAUSE));
  }
}
