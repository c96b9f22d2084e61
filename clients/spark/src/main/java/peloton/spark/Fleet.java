package peloton.spark;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The executors of an application as instances of its job: which there are, how many there shall
 * be, and what follows. It decides only; times are inputs, in milliseconds. For one thread.
 *
 * <p>An instance leaves the job when its run has ended: executors are not run again under the same
 * id, and the numbers of instances do not grow with time.
 */
final class Fleet {
  /** Time for an executor that Spark has told to end, before its instance is stopped. */
  static final long LEAVING_MILLIS = 5_000;

  private enum State {
    /** Asked for; its run is not known yet. */
    REQUESTED,
    /** Waits for a host. */
    WAITING,
    /** On a host. */
    STARTED,
    /** Has ended, and is not released yet. */
    ENDED,
    /** Released. */
    RELEASED
  }

  private static final class Instance {
    State state = State.REQUESTED;
    long run;
    long firstRun = 1;
    String host = "";
    long toEndAt = Long.MAX_VALUE;
    boolean told;
    boolean leaving;

    boolean isLive() {
      return state == State.REQUESTED || state == State.WAITING || state == State.STARTED;
    }

    boolean isStaying() {
      return isLive() && !leaving && toEndAt == Long.MAX_VALUE;
    }
  }

  /**
   * An executor that is gone.
   *
   * @param executor its id
   * @param loss why
   * @param expected whether Spark wanted it to end
   */
  record Lost(String executor, Loss loss, boolean expected) {}

  /**
   * What to do, in this order.
   *
   * @param release instances to be taken out of the job
   * @param instanceCount how many instances the job shall have then, 0 where none are to be added
   */
  record Plan(List<Integer> release, int instanceCount) {
    boolean isEmpty() {
      return release.isEmpty() && instanceCount == 0;
    }
  }

  private final ExecutorIds ids;
  private final Map<Integer, Instance> instances = new TreeMap<>();
  private int target;

  Fleet(ExecutorIds ids) {
    this.ids = ids;
  }

  void setTarget(int executors) {
    target = executors;
  }

  int target() {
    return target;
  }

  /** Returns the instances whose executors run or will run. */
  int live() {
    return (int) instances.values().stream().filter(Instance::isLive).count();
  }

  private int staying() {
    return (int) instances.values().stream().filter(Instance::isStaying).count();
  }

  /** Notes instances that an update has added. */
  void added(Collection<Integer> numbers) {
    for (int number : numbers) {
      Instance before = instances.get(number);
      if (before == null || before.state == State.RELEASED) {
        Instance instance = new Instance();
        instance.firstRun = before == null ? 1 : before.run + 1;
        instances.put(number, instance);
      }
    }
  }

  /** Notes instances that are taken out of the job. */
  void released(Collection<Integer> numbers) {
    for (int number : numbers) {
      Instance instance = instances.get(number);
      if (instance != null) {
        instance.state = State.RELEASED;
      }
    }
  }

  /**
   * Notes that Peloton has told a run to end, such as for a preemption or a drain: another executor is
   * asked for at once, to which it can move its blocks. Returns the executor, once.
   */
  Optional<String> leaves(int number, long run) {
    Instance instance = instances.get(number);
    if (instance == null || instance.run != run || instance.leaving) {
      return Optional.empty();
    }
    instance.leaving = true;
    return Optional.of(ids.of(number, run));
  }

  /**
   * Notes the run of an instance as it is now; returns the executor that is lost by it, if any.
   *
   * @param end why it has ended, null where it has not
   */
  Optional<Lost> changed(int number, long run, boolean started, String host, Loss end) {
    Instance instance = instances.computeIfAbsent(number, unknown -> new Instance());
    if (run < instance.firstRun || run < instance.run) {
      return Optional.empty();
    }
    Optional<Lost> lost = Optional.empty();
    if (run > instance.run) {
      if (instance.state == State.STARTED) {
        lost = lost(number, instance, Loss.replaced(instance.host));
      }
      if (instance.leaving) {
        instance.toEndAt = 0; // another instance was asked for in its place
      }
      instance.run = run;
      instance.told = false;
      instance.leaving = false;
    }
    if (end != null) {
      lost = lost(number, instance, end);
      instance.state = instance.isLive() ? State.ENDED : instance.state;
    } else if (instance.isLive()) {
      instance.state = started ? State.STARTED : State.WAITING;
      instance.host = host;
    }
    return lost;
  }

  private Optional<Lost> lost(int number, Instance instance, Loss loss) {
    if (instance.told) {
      return Optional.empty();
    }
    instance.told = true;
    boolean expected = instance.toEndAt != Long.MAX_VALUE || instance.state == State.RELEASED;
    return Optional.of(new Lost(ids.of(number, instance.run), loss, expected));
  }

  /** Notes that an instance does not exist; returns the executor that is lost by it, if any. */
  Optional<Lost> gone(int number) {
    Instance instance = instances.get(number);
    if (instance == null || instance.run < instance.firstRun) {
      return Optional.empty(); // the end of an earlier use of its number
    }
    instances.remove(number);
    return lost(number, instance, Loss.gone());
  }

  /** Has executors end that Spark does not want any more, and has told so. */
  void end(Collection<String> executors, long now) {
    for (String executor : executors) {
      Instance instance = instances.get(ids.instance(executor));
      if (instance != null && instance.run == ids.run(executor) && instance.isStaying()) {
        instance.toEndAt = now + LEAVING_MILLIS;
      }
    }
  }

  /** Has all executors end at once: those of an earlier driver. */
  void endAll() {
    instances.values().stream().filter(Instance::isLive).forEach(each -> each.toEndAt = 0);
  }

  /** Returns when a plan has something to do that has not to be done now; Long.MAX_VALUE: never. */
  long nextMillis() {
    return instances.values().stream()
        .filter(Instance::isLive)
        .mapToLong(each -> each.toEndAt)
        .min()
        .orElse(Long.MAX_VALUE);
  }

  /** Returns what brings the job to where it shall be. */
  Plan plan(long now) {
    TreeSet<Integer> release = new TreeSet<>();
    instances.forEach(
        (number, each) -> {
          if (each.state == State.ENDED || (each.isLive() && each.toEndAt <= now)) {
            release.add(number);
          }
        });
    int staying = staying();
    release.addAll(surplus(staying - target));
    int kept = live() - (int) release.stream().filter(n -> instances.get(n).isLive()).count();
    int missing = Math.max(0, target - staying);
    return new Plan(List.copyOf(release), missing == 0 ? 0 : 1 + kept + missing);
  }

  /** Returns instances that are not needed any more and have not started: the newest first. */
  private List<Integer> surplus(int most) {
    List<Integer> waiting = new ArrayList<>();
    instances.forEach(
        (number, each) -> {
          if (each.isStaying() && each.state != State.STARTED) {
            waiting.add(number);
          }
        });
    waiting.sort(Comparator.reverseOrder());
    return waiting.subList(0, Math.max(0, Math.min(most, waiting.size())));
  }
}
