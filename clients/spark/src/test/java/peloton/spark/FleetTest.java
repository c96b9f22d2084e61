package peloton.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

final class FleetTest {
  private static final Loss PREEMPTED = new Loss(-1, false, "preempted");

  private final Fleet fleet = new Fleet(ExecutorIds.forMost(10));

  private void running(int... numbers) {
    for (int number : numbers) {
      fleet.changed(number, 1, true, "h1", null);
    }
  }

  @Test
  void addsWhatIsMissing() {
    fleet.setTarget(3);
    assertEquals(new Fleet.Plan(List.of(), 4), fleet.plan(0));
    fleet.added(List.of(1, 2, 3));
    assertTrue(fleet.plan(0).isEmpty());
  }

  @Test
  void replacesAnExecutorThatEnded() {
    fleet.setTarget(2);
    running(1, 2);
    Fleet.Lost lost = fleet.changed(2, 1, false, "", PREEMPTED).orElseThrow();
    assertEquals(new Fleet.Lost("10002", PREEMPTED, false), lost);
    assertEquals(new Fleet.Plan(List.of(2), 3), fleet.plan(0));
    fleet.released(List.of(2));
    fleet.added(List.of(2));
    assertTrue(fleet.gone(2).isEmpty(), "of the instance before");
    assertTrue(fleet.plan(0).isEmpty());
    assertTrue(fleet.changed(2, 1, false, "", PREEMPTED).isEmpty(), "an old run");
    fleet.changed(2, 2, true, "h1", null);
    assertEquals("20002", fleet.gone(2).orElseThrow().executor());
  }

  @Test
  void anExecutorThatPelotonEndsIsReplacedBeforeItHasEnded() {
    fleet.setTarget(2);
    running(1, 2);
    assertEquals("10002", fleet.leaves(2, 1).orElseThrow());
    assertTrue(fleet.leaves(2, 1).isEmpty(), "once");
    assertEquals(new Fleet.Plan(List.of(), 4), fleet.plan(0));
    fleet.added(List.of(3));
    assertTrue(fleet.plan(0).isEmpty());
    fleet.end(List.of("10002"), 0);
    assertFalse(fleet.changed(2, 1, false, "", PREEMPTED).orElseThrow().expected());
    assertEquals(new Fleet.Plan(List.of(2), 0), fleet.plan(0));
  }

  @Test
  void anExecutorThatIsReplacedIsNotRunAgain() {
    fleet.setTarget(1);
    running(1);
    fleet.leaves(1, 1);
    fleet.added(List.of(2));
    fleet.changed(2, 1, true, "h2", null);
    assertEquals("10001", fleet.changed(1, 2, true, "h3", null).orElseThrow().executor());
    assertTrue(fleet.leaves(1, 1).isEmpty(), "an old run");
    assertEquals(new Fleet.Plan(List.of(1), 0), fleet.plan(0));
    fleet.released(List.of(1));
    assertEquals("20001", fleet.leaves(1, 2).orElseThrow(), "it may have registered meanwhile");
    assertTrue(fleet.changed(1, 2, false, "", PREEMPTED).orElseThrow().expected());
  }

  @Test
  void aRunThatFollowsAnotherIsAnotherExecutor() {
    fleet.setTarget(1);
    running(1);
    Fleet.Lost lost = fleet.changed(1, 2, false, "", null).orElseThrow();
    assertEquals("10001", lost.executor());
    assertFalse(lost.loss().byApplication());
    assertTrue(fleet.plan(0).isEmpty(), "Peloton runs it again by itself");
  }

  @Test
  void executorsThatSparkEndsHaveTimeToDoSo() {
    fleet.setTarget(2);
    running(1, 2);
    fleet.setTarget(1);
    assertTrue(fleet.plan(0).isEmpty(), "Spark says which");
    fleet.end(List.of("10002", "99999", "20001"), 100);
    assertTrue(fleet.plan(100).isEmpty());
    assertEquals(100 + Fleet.LEAVING_MILLIS, fleet.nextMillis());
    assertEquals(List.of(2), fleet.plan(fleet.nextMillis()).release());
    assertTrue(fleet.changed(2, 1, false, "", new Loss(0, false, "")).orElseThrow().expected());
  }

  @Test
  void anExecutorThatLeavesIsReplacedWhenMoreAreWanted() {
    fleet.setTarget(2);
    running(1, 2);
    fleet.end(List.of("10002"), 0);
    assertEquals(new Fleet.Plan(List.of(), 4), fleet.plan(0), "the driver, both, and a new one");
  }

  @Test
  void whatWaitsIsReleasedWhenLessIsWanted() {
    fleet.setTarget(4);
    fleet.added(List.of(1, 2, 3, 4));
    running(1, 4);
    fleet.setTarget(1);
    assertEquals(new Fleet.Plan(List.of(2, 3), 0), fleet.plan(0));
  }

  @Test
  void executorsOfAnEarlierDriverEnd() {
    fleet.setTarget(1);
    running(1, 2);
    fleet.endAll();
    assertEquals(new Fleet.Plan(List.of(1, 2), 2), fleet.plan(0));
  }

  /** Draws what may happen, and looks whether the job has what Spark wants when all is quiet. */
  @Test
  void comesToWhatIsWanted() {
    for (int seed = 0; seed < 300; seed++) {
      new Drawn(seed).play();
    }
  }

  /** A job that does what a plan says, and loses instances by chance. */
  private static final class Drawn {
    final Random chance;
    final Fleet fleet = new Fleet(ExecutorIds.forMost(20));
    final Map<Integer, Long> runs = new TreeMap<>();
    final Map<Integer, Long> last = new HashMap<>();
    final TreeSet<Integer> free = new TreeSet<>();
    final Set<String> lost = new HashSet<>();
    final Set<String> begun = new HashSet<>();
    final int seed;
    int size = 1;
    long now;

    Drawn(int seed) {
      this.seed = seed;
      chance = new Random(seed);
    }

    void play() {
      for (int step = 0; step < 60; step++) {
        now += chance.nextInt(3000);
        switch (chance.nextInt(4)) {
          case 0 -> fleet.setTarget(chance.nextInt(8));
          case 1 -> loseOne();
          case 2 -> endOne();
          default -> {}
        }
        carryOut(fleet.plan(now));
      }
      int target = fleet.target();
      now += 2 * Fleet.LEAVING_MILLIS;
      for (int more = 0; more < 5; more++) {
        carryOut(fleet.plan(now));
      }
      assertTrue(runs.size() >= target, () -> "seed " + seed + ": " + runs + " for " + target);
      assertEquals(runs.size(), fleet.live(), () -> "seed " + seed);
      Set<String> running = new HashSet<>(begun);
      running.removeAll(lost);
      assertEquals(runs.size(), running.size(), () -> "seed " + seed + ": each end is told once");
    }

    private void loseOne() {
      if (!runs.isEmpty()) {
        int number = any();
        ended(number, PREEMPTED);
      }
    }

    private int any() {
      return new ArrayList<>(runs.keySet()).get(chance.nextInt(runs.size()));
    }

    private void endOne() {
      if (!runs.isEmpty() && fleet.target() > 0) {
        int number = any();
        fleet.setTarget(fleet.target() - 1);
        fleet.end(List.of(Long.toString(runs.get(number) * 10_000 + number)), now);
      }
    }

    private void ended(int number, Loss why) {
      long run = runs.remove(number);
      fleet.changed(number, run, false, "", why).ifPresent(each -> assertTrue(lost.add(each.executor())));
    }

    private void carryOut(Fleet.Plan plan) {
      fleet.released(plan.release());
      for (int number : plan.release()) {
        if (runs.containsKey(number)) {
          ended(number, new Loss(0, false, ""));
        }
        free.add(number);
        if (chance.nextBoolean()) {
          fleet.gone(number);
        }
      }
      if (plan.instanceCount() > 0) {
        add(plan.instanceCount() - 1);
      }
    }

    private void add(int count) {
      List<Integer> added = new ArrayList<>();
      while (runs.size() < count) {
        int number = free.isEmpty() ? size++ : free.pollFirst();
        long run = last.merge(number, 1L, Long::sum);
        runs.put(number, run);
        begun.add(Long.toString(run * 10_000 + number));
        added.add(number);
      }
      fleet.added(added);
      added.forEach(each -> fleet.changed(each, runs.get(each), true, "h1", null));
    }
  }
}
