package peloton.client;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** The threads of a client. */
final class Engine implements AutoCloseable {
  static final String THREADS = "peloton-client-";
  private static final AtomicInteger COUNT = new AtomicInteger();

  private final ExecutorService workers =
      new ThreadPoolExecutor(
          0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), daemons());
  private final ScheduledThreadPoolExecutor clock = new ScheduledThreadPoolExecutor(1, daemons());
  private final Set<Alarm> waiting = ConcurrentHashMap.newKeySet();

  Engine() {
    clock.setRemoveOnCancelPolicy(true);
  }

  private static ThreadFactory daemons() {
    return body -> {
      Thread thread = new Thread(body, THREADS + COUNT.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Runs a task on a worker, or here where the client is closed: nobody shall wait for nothing. */
  void run(Runnable task) {
    try {
      workers.execute(task);
    } catch (RejectedExecutionException e) {
      task.run();
    }
  }

  /** Runs a task on a worker after a pause, at once where the client is closed meanwhile. */
  Alarm after(long nanos, Runnable task) {
    Alarm alarm = new Alarm(task);
    waiting.add(alarm);
    try {
      alarm.future = clock.schedule(alarm::ring, nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      alarm.ring();
    }
    return alarm;
  }

  /** Ends the pauses. The connections are closed by now, so that what comes after them fails. */
  @Override
  public void close() {
    clock.shutdownNow();
    waiting.forEach(Alarm::ring);
    workers.shutdown();
  }

  /** A task that waits for its time. */
  final class Alarm {
    private final Runnable task;
    private volatile ScheduledFuture<?> future;

    private Alarm(Runnable task) {
      this.task = task;
    }

    /** Runs the task now, unless it has run or was cancelled. */
    void ring() {
      if (waiting.remove(this)) {
        run(task);
      }
    }

    boolean isWaiting() {
      return waiting.contains(this);
    }

    void cancel() {
      waiting.remove(this);
      ScheduledFuture<?> scheduled = future;
      if (scheduled != null) {
        scheduled.cancel(false);
      }
    }
  }
}
