package peloton.spark;

import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import peloton.api.v1alpha.pod.PodState;
import peloton.api.v1alpha.pod.PodStatus;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.client.PelotonException;
import peloton.client.Watch;

/**
 * Keeps the instances of an application's job as Spark wants its executors, and tells Spark which it
 * has lost. One thread decides and calls Peloton, another one watches the pods.
 */
final class Executors implements AutoCloseable {
  /** What Spark is told. */
  interface Listener {
    /** An executor is gone; it was told to end where that is expected. */
    void lost(String executor, Loss loss, boolean expected);

    /** Peloton has told an executor to end, which has its grace time to do so. */
    void leaves(String executor);

    /** The job cannot go on. */
    void failed(String reason);
  }

  private static final Logger LOG = LoggerFactory.getLogger(Executors.class);
  private static final long FIRST_PAUSE_MILLIS = 500;
  private static final long LONGEST_PAUSE_MILLIS = 30_000;
  private static final Set<PodState> PLACED =
      Set.of(
          PodState.POD_STATE_LAUNCHED,
          PodState.POD_STATE_STARTING,
          PodState.POD_STATE_RUNNING,
          PodState.POD_STATE_KILLING);

  private final ApplicationJob job;
  private final Fleet fleet;
  private final FailureCount failures;
  private final Listener listener;
  private final ScheduledThreadPoolExecutor thread;
  private final Thread watcher;
  private volatile boolean closed;
  private volatile Watch<PodSummary> watch;
  private final boolean inside;
  private boolean planned;
  private boolean begunAnew;
  private long pauseMillis;

  /**
   * {@code inside}: whether the driver is instance 0; other instances that there are already belong to
   * an earlier one.
   */
  Executors(
      ApplicationJob job, Fleet fleet, FailureCount failures, boolean inside, Listener listener) {
    this.job = job;
    this.fleet = fleet;
    this.failures = failures;
    this.listener = listener;
    this.inside = inside;
    begunAnew = !inside;
    thread =
        new ScheduledThreadPoolExecutor(
            1,
            body -> {
              Thread made = new Thread(body, "peloton-executors");
              made.setDaemon(true);
              return made;
            });
    thread.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    watcher = new Thread(this::watch, "peloton-watch");
    watcher.setDaemon(true);
  }

  void start(int executors) {
    run(() -> fleet.setTarget(executors));
    watcher.start();
  }

  void setTarget(int executors) {
    run(
        () -> {
          fleet.setTarget(executors);
          planSoon(0);
        });
  }

  /** Has executors end that Spark has told to. */
  void end(Collection<String> executors) {
    List<String> ended = List.copyOf(executors);
    run(
        () -> {
          fleet.end(ended, millis());
          planSoon(0);
        });
  }

  private void run(Runnable body) {
    try {
      thread.execute(guarded(body));
    } catch (RejectedExecutionException e) {
      LOG.debug("not done after the end", e);
    }
  }

  /** A failure in the thread would else be seen by nobody. */
  private Runnable guarded(Runnable body) {
    return () -> {
      try {
        body.run();
      } catch (RuntimeException e) {
        if (!closed) {
          LOG.error("executors are not looked after any more", e);
          listener.failed("internal error: " + e);
        }
      }
    };
  }

  private static long millis() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  private void planSoon(long delay) {
    if (!planned && begunAnew) {
      planned = true;
      try {
        long pause = Math.max(pauseMillis, failures.pauseMillis(millis()));
        thread.schedule(guarded(this::plan), Math.max(delay, pause), TimeUnit.MILLISECONDS);
      } catch (RejectedExecutionException e) {
        LOG.debug("no plan after the end", e);
      }
    }
  }

  private void plan() {
    planned = false;
    long now = millis();
    Fleet.Plan plan = fleet.plan(now);
    if (!plan.isEmpty()) {
      carryOut(plan);
    }
    long next = fleet.nextMillis();
    if (next != Long.MAX_VALUE) {
      planSoon(Math.max(1, next - now));
    }
  }

  private void carryOut(Fleet.Plan plan) {
    try {
      if (!plan.release().isEmpty()) {
        job.release(plan.release());
        fleet.released(plan.release());
      }
      if (plan.instanceCount() > 0) {
        List<Integer> added = job.grow(plan.instanceCount());
        fleet.added(added);
        LOG.debug("added instances {}", added);
      }
      pauseMillis = 0;
    } catch (PelotonException e) {
      if (closed) {
        return;
      }
      pauseMillis = Math.min(LONGEST_PAUSE_MILLIS, Math.max(FIRST_PAUSE_MILLIS, pauseMillis * 2));
      LOG.warn("Peloton: {}; tried again in {} ms", e.getMessage(), pauseMillis);
      planSoon(pauseMillis);
    }
  }

  private void watch() {
    try (Watch<PodSummary> pods = job.watch()) {
      watch = pods;
      while (!closed && pods.hasNext()) {
        Watch.Event<PodSummary> event = pods.next();
        run(() -> noted(event));
      }
    } catch (RuntimeException e) {
      if (!closed) {
        LOG.error("the watch of job {} has ended", job.id(), e);
        listener.failed("the watch of job " + job.id() + " has ended: " + e.getMessage());
      }
    }
  }

  private void noted(Watch.Event<PodSummary> event) {
    switch (event.kind()) {
      case SYNCED -> {
        if (!begunAnew) {
          begunAnew = true;
          fleet.endAll();
        }
      }
      case GONE -> fleet.gone(lastNumber(event.name())).ifPresent(this::tell);
      case CHANGED -> changed(lastNumber(event.name()), event.subject().getStatus());
    }
    planSoon(0);
  }

  private static int lastNumber(String name) {
    return Integer.parseInt(name.substring(name.lastIndexOf('-') + 1));
  }

  private void changed(int number, PodStatus status) {
    if (number == 0) {
      // A driver outside goes on where the task that follows it is run again; one inside has ended with it.
      if (Loss.isEnded(status) && !closed && (inside || !Loss.runsAgain(status))) {
        listener.failed("its job was ended: instance 0, " + Loss.of(status).reason());
      }
      return;
    }
    Loss end = Loss.isEnded(status) ? Loss.of(status) : null;
    long run = status.getPodId().getValue().isEmpty() ? 1 : lastNumber(status.getPodId().getValue());
    boolean started = PLACED.contains(status.getState());
    fleet.changed(number, run, started, status.getHost(), end).ifPresent(this::tell);
    if (status.getState() == PodState.POD_STATE_KILLING) {
      fleet.leaves(number, run).ifPresent(listener::leaves);
    }
  }

  private void tell(Fleet.Lost lost) {
    if (lost.loss().byApplication() && !lost.expected()) {
      failures.failed(millis());
      if (failures.areTooMany()) {
        listener.failed(failures.count() + " executors have failed: " + lost.loss().reason());
      }
    }
    listener.lost(lost.executor(), lost.loss(), lost.expected());
  }

  @Override
  public void close() {
    closed = true;
    thread.shutdownNow();
    Watch<PodSummary> open = watch;
    if (open != null) {
      open.close();
    }
  }
}
