package peloton.spark;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkContext;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.ExecutorKilled$;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import peloton.client.PelotonException;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.concurrent.Future;
import scala.concurrent.Future$;

/** Runs an application's executors as instances of its job. */
public final class PelotonBackend extends CoarseGrainedSchedulerBackend {
  private static final Logger LOG = LoggerFactory.getLogger(PelotonBackend.class);
  private static final double DEFAULT_REGISTERED = 0.8;
  private static final String REGISTERED_RATIO = "spark.scheduler.minRegisteredResourcesRatio";
  private static final Duration END_OF_JOB = Duration.ofSeconds(10);

  /** Time after an executor's last word for Peloton to tell why it is gone. */
  private static final long REASON_SECONDS = 60;

  /** How often it is looked whether executors that leave may begin. */
  private static final long LOOK_MILLIS = 500;

  private static final AtomicInteger CONTEXTS = new AtomicInteger();

  private final TaskSchedulerImpl tasks;
  private final SparkContext context;
  private final Master master;
  private final ExecutorSettings settings;
  private final ExecutorIds ids;
  private final int initial;
  private final String ownJob;
  private final String application;
  private final AtomicBoolean stopped = new AtomicBoolean();
  private final AtomicBoolean failed = new AtomicBoolean();
  private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1);
  private final Departures departures;
  private boolean looked;
  private ApplicationJob job;
  private FollowedDriver followed;
  private Executors executors;

  PelotonBackend(TaskSchedulerImpl tasks, SparkContext context, Master master) {
    super(tasks, context.env().rpcEnv());
    this.tasks = tasks;
    this.context = context;
    this.master = master;
    settings = new ExecutorSettings(context.conf());
    ids = ExecutorIds.forMost(settings.most());
    initial = settings.initial();
    ownJob = settings.conf().get(ClusterSubmit.JOB, "");
    application = ownJob.isEmpty() ? UUID.randomUUID().toString() : applicationIn(ownJob);
    timer.setRemoveOnCancelPolicy(true);
    departures = new Departures(TimeUnit.SECONDS.toMillis(settings.graceSeconds()) * 3 / 4);
  }

  /** A driver in a job may make several contexts, one after the other. */
  private static String applicationIn(String job) {
    int before = CONTEXTS.getAndIncrement();
    return before == 0 ? job : job + "-" + before;
  }

  private boolean isInside() {
    return !ownJob.isEmpty();
  }

  @Override
  public String applicationId() {
    return application;
  }

  @Override
  public double minRegisteredRatio() {
    return conf().getDouble(REGISTERED_RATIO, DEFAULT_REGISTERED);
  }

  @Override
  public boolean sufficientResourcesRegistered() {
    return totalRegisteredExecutors().get() >= initial * minRegisteredRatio();
  }

  @Override
  public void start() {
    super.start();
    job = new ApplicationJob(master.connect(System.getenv()), isInside() ? ownJob : application);
    FailureCount failures =
        new FailureCount(settings.mostFailures(), settings.failuresValidMillis());
    if (!isInside()) {
      createJob();
    }
    executors = new Executors(job, new Fleet(ids), failures, isInside(), new Told());
    executors.start(initial);
    LOG.info(
        "Peloton: executors of {} are instances of job {}; UI: {}", application, job.id(), ui("none"));
  }

  private String ui(String otherwise) {
    return context.uiWebUrl().getOrElse(() -> otherwise);
  }

  private void createJob() {
    String host = conf().get("spark.driver.host");
    String bind = conf().get("spark.driver.bindAddress", host);
    followed = new FollowedDriver(bind, conf().getInt("spark.peloton.driver.followedPort", 0));
    JobSpecs specs = new JobSpecs(settings, ids);
    int port = conf().getInt("spark.driver.port", 0);
    job.create(
        settings.pool(),
        specs.outside(host, port, followed.port(), application, initial, ui("")));
  }

  @Override
  public Future<Object> doRequestTotalExecutors(
      scala.collection.immutable.Map<ResourceProfile, Object> wanted) {
    int total = 0;
    Iterator<Tuple2<ResourceProfile, Object>> each = wanted.iterator();
    while (each.hasNext()) {
      // Spark itself refuses other profiles than the default one with masters that it does not know.
      total += (Integer) each.next()._2();
    }
    executors.setTarget(total);
    return Future$.MODULE$.successful(true);
  }

  // Spark for Scala 2.12 calls this one, with a Seq of any kind ...
  public Future<Object> doKillExecutors(scala.collection.Seq<String> executorIds) {
    List<String> killed = new ArrayList<>();
    executorIds.iterator().foreach(killed::add);
    killed.forEach(each -> removeExecutor(each, ExecutorKilled$.MODULE$));
    executors.end(killed);
    return Future$.MODULE$.successful(true);
  }

  // ... and Spark for Scala 2.13 this one: only one of the two overrides.
  public Future<Object> doKillExecutors(scala.collection.immutable.Seq<String> executorIds) {
    return doKillExecutors((scala.collection.Seq<String>) executorIds);
  }

  @Override
  public CoarseGrainedSchedulerBackend.DriverEndpoint createDriverEndpoint() {
    return new Endpoint();
  }

  /** Waits for Peloton's reason where a connection ends: it decides whether tasks have failed. */
  private final class Endpoint extends CoarseGrainedSchedulerBackend.DriverEndpoint {
    @Override
    public void onDisconnected(RpcAddress address) {
      Option<String> found = addressToExecutorId().get(address);
      if (found.isDefined() && !stopped.get()) {
        String executor = found.get();
        disableExecutor(executor);
        ExecutorLossReason unknown =
            new ExecutorExited(-1, true, "its connection ended, and Peloton has told no reason");
        timer.schedule(
            () -> removeExecutor(executor, unknown), REASON_SECONDS, TimeUnit.SECONDS);
      }
    }
  }

  /** Does something in the thread of the timer, unless the backend has stopped. */
  private void inTimer(Runnable body, long delayMillis) {
    try {
      timer.schedule(body, delayMillis, TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException e) {
      LOG.debug("not done after the end", e);
    }
  }

  private void noteLeaving(String executor) {
    departures.leaves(executor, millis());
    lookAtDepartures();
  }

  /** Looks again after a while, as long as executors wait for others. */
  private void lookAtDepartures() {
    decommission(departures.due(registered(), millis()));
    if (!looked && departures.isWaiting()) {
      looked = true;
      inTimer(
          () -> {
            looked = false;
            lookAtDepartures();
          },
          LOOK_MILLIS);
    }
  }

  private Set<String> registered() {
    Set<String> found = new HashSet<>();
    getExecutorIds().foreach(found::add);
    found.removeIf(each -> !isExecutorActive(each));
    return found;
  }

  @SuppressWarnings("unchecked") // Scala's arrays of pairs have no type of their own in Java
  private void decommission(List<String> leaving) {
    if (leaving.isEmpty()) {
      return;
    }
    ExecutorDecommissionInfo why =
        new ExecutorDecommissionInfo("Peloton ends its run", Option.empty());
    Tuple2<String, ExecutorDecommissionInfo>[] each =
        leaving.stream().map(id -> new Tuple2<>(id, why)).toArray(Tuple2[]::new);
    decommissionExecutors(each, false, false);
  }

  private static long millis() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  private final class Told implements Executors.Listener {
    @Override
    public void lost(String executor, Loss loss, boolean expected) {
      ExecutorLossReason reason =
          expected
              ? ExecutorKilled$.MODULE$
              : new ExecutorExited(loss.exitCode(), loss.byApplication(), loss.reason());
      if (!stopped.get()) {
        removeExecutor(executor, reason);
        inTimer(() -> departures.gone(executor), 0);
      }
    }

    @Override
    public void leaves(String executor) {
      if (settings.isDecommissionedByDriver()) {
        inTimer(() -> noteLeaving(executor), 0);
      }
    }

    @Override
    public void failed(String reason) {
      if (!stopped.get() && failed.compareAndSet(false, true)) {
        LOG.error("Peloton: the application is given up: {}", reason);
        Thread end = new Thread(() -> giveUp(reason), "peloton-end");
        end.setDaemon(true);
        end.start();
      }
    }
  }

  private void giveUp(String reason) {
    try {
      tasks.error("Peloton: " + reason);
    } finally {
      context.stop();
    }
  }

  @Override
  public void stop() {
    if (!stopped.compareAndSet(false, true)) {
      return;
    }
    timer.shutdownNow();
    super.stop();
    if (job == null) {
      return;
    }
    try {
      endJob();
    } catch (PelotonException e) {
      LOG.warn("Peloton: job {} may go on for a moment: {}", job.id(), e.getMessage());
    } finally {
      job.close();
    }
  }

  private void endJob() {
    if (executors != null) {
      executors.close();
    }
    if (isInside()) {
      return;
    }
    boolean heard = !failed.get() && followed.end(0);
    if (!heard || !job.hasEnded(END_OF_JOB)) {
      job.stop();
    }
    try {
      followed.close();
    } catch (IOException e) {
      LOG.debug("the followers' port was not closed", e);
    }
  }
}
