package peloton.client;

import io.grpc.Status;
import java.io.InputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobSummary;
import peloton.api.v0.job.QueryRequest;
import peloton.api.v0.job.QuerySpec;
import peloton.api.v0.job.RuntimeInfo;
import peloton.api.v0.job.instances.InstanceServiceGrpc;
import peloton.api.v0.job.instances.ReleaseInstancesRequest;
import peloton.api.v0.peloton.JobID;
import peloton.api.v0.peloton.ResourcePoolID;
import peloton.api.v0.query.PaginationSpec;
import peloton.api.v0.respool.LookupRequest;
import peloton.api.v0.respool.ResourceManagerGrpc;
import peloton.api.v0.respool.ResourcePoolPath;
import peloton.api.v0.task.InstanceRange;
import peloton.api.v0.task.ListRequest;
import peloton.api.v0.task.TaskInfo;
import peloton.api.v0.task.TaskManagerGrpc;
import peloton.api.v1alpha.pod.PodSummary;

/** Batch jobs, for people. */
public final class Jobs {
  private static final int INSTANCES_PER_CALL = 1000;
  private static final int MOST_FOUND = 20;
  private static final int SHORTEST_ID_START = 4;
  private static final int TRIES_PER_PAGE = 5;

  private final PelotonClient client;

  Jobs(PelotonClient client) {
    this.client = client;
  }

  /** Returns the id of the resource pool at a path such as /team/batch. */
  public String poolId(String path) {
    return client
        .call(ResourceManagerGrpc.getLookupResourcePoolIDMethod(), lookup(path))
        .getId()
        .getValue();
  }

  private static LookupRequest lookup(String path) {
    return LookupRequest.newBuilder().setPath(ResourcePoolPath.newBuilder().setValue(path)).build();
  }

  /**
   * Creates a batch job in the pool at a path, and returns its id. Where the path is empty the
   * config names the pool. The call may be repeated: the client chooses the id.
   */
  public String create(String poolPath, JobConfig config) {
    String id = UUID.randomUUID().toString();
    try {
      client.call(JobManagerGrpc.getCreateMethod(), creation(id, poolOf(poolPath), config));
    } catch (PelotonException.AlreadyExists e) {
      return id; // an earlier try has made it
    }
    return id;
  }

  /**
   * Creates a batch job as {@link #create(String, JobConfig)} does, with an id of the caller, a
   * UUID: a program that ended before it had the answer may call it again. Throws {@link
   * PelotonException.AlreadyExists} where the id is that of another job, one with another name.
   */
  public void createWithId(String id, String poolPath, JobConfig config) {
    try {
      client.call(JobManagerGrpc.getCreateMethod(), creation(id, poolOf(poolPath), config));
    } catch (PelotonException.AlreadyExists e) {
      if (!get(id).getConfig().getName().equals(config.getName())) {
        throw e;
      }
    }
  }

  private String poolOf(String path) {
    return path.isEmpty() ? "" : poolId(path);
  }

  /** Creates a batch job from a YAML file as {@code peloton job create} takes it. */
  public String create(String poolPath, Path file) {
    return create(poolPath, Specs.read(file, JobConfig.newBuilder()).build());
  }

  /** Creates a batch job as {@link #create(String, JobConfig)} does. */
  public CompletableFuture<String> createAsync(String poolPath, JobConfig config) {
    CompletableFuture<String> pool =
        poolPath.isEmpty()
            ? CompletableFuture.completedFuture("")
            : client
                .callAsync(ResourceManagerGrpc.getLookupResourcePoolIDMethod(), lookup(poolPath))
                .thenApply(found -> found.getId().getValue());
    return pool.thenCompose(
        found -> {
          CreateRequest request = creation(UUID.randomUUID().toString(), found, config);
          return client
              .callAsync(JobManagerGrpc.getCreateMethod(), request)
              .handle((answer, thrown) -> created(request, thrown));
        });
  }

  private static String created(CreateRequest request, Throwable thrown) {
    if (thrown == null || PelotonException.of(thrown) instanceof PelotonException.AlreadyExists) {
      return request.getId().getValue();
    }
    throw PelotonException.of(thrown);
  }

  private static CreateRequest creation(String id, String pool, JobConfig config) {
    JobConfig.Builder made = config.toBuilder();
    if (!pool.isEmpty()) {
      made.setRespoolID(ResourcePoolID.newBuilder().setValue(pool));
    }
    return CreateRequest.newBuilder().setId(id(id)).setConfig(made).build();
  }

  static JobID id(String id) {
    return JobID.newBuilder().setValue(id).build();
  }

  /**
   * Returns the id of the job of a name, or whose id begins so (four characters or more), in the
   * pool at a path; in all pools where that is empty. Throws {@link PelotonException.NotFound}
   * where there is none, and {@link PelotonException.FailedPrecondition}, with their ids, where
   * there are several.
   */
  public String find(String reference, String poolPath) {
    QuerySpec spec =
        QuerySpec.newBuilder()
            .setReference(reference)
            .setRespool(ResourcePoolPath.newBuilder().setValue(poolPath))
            .setPagination(PaginationSpec.newBuilder().setLimit(MOST_FOUND + 1))
            .build();
    QueryRequest request = QueryRequest.newBuilder().setSpec(spec).setSummaryOnly(true).build();
    List<String> found =
        client.call(JobManagerGrpc.getQueryMethod(), request).getResultsList().stream()
            .filter(job -> isMeant(job, reference))
            .map(job -> job.getId().getValue())
            .toList();
    if (found.size() == 1) {
      return found.get(0);
    }
    String where = poolPath.isEmpty() ? "" : " in the pool " + poolPath;
    if (found.isEmpty()) {
      String none = "no job" + where + " has the name '" + reference + "', or an id that begins so";
      throw PelotonException.failure(Status.Code.NOT_FOUND, none, null);
    }
    String ids = String.join(", ", found.subList(0, Math.min(found.size(), MOST_FOUND)));
    String more = found.size() > MOST_FOUND ? ", …" : "";
    String several = "'" + reference + "' may be several jobs" + where + ": " + ids + more;
    throw PelotonException.failure(Status.Code.FAILED_PRECONDITION, several, null);
  }

  /** A server that does not know the field of the reference answers with other jobs, too. */
  private static boolean isMeant(JobSummary job, String reference) {
    boolean begins =
        reference.length() >= SHORTEST_ID_START
            && job.getId().getValue().startsWith(reference.toLowerCase(Locale.ROOT));
    return begins || job.getName().equals(reference);
  }

  /** Returns config and runtime of a batch job. */
  public JobInfo get(String id) {
    return client
        .call(JobManagerGrpc.getGetMethod(), GetRequest.newBuilder().setId(id(id)).build())
        .getJobInfo();
  }

  /** Returns config and runtime of a batch job. */
  public CompletableFuture<JobInfo> getAsync(String id) {
    return client
        .callAsync(JobManagerGrpc.getGetMethod(), GetRequest.newBuilder().setId(id(id)).build())
        .thenApply(GetResponse::getJobInfo);
  }

  /** Waits for a batch job as {@link #awaitAsync} does. An interrupt ends it. */
  public RuntimeInfo await(String id, Duration timeout, Consumer<RuntimeInfo> progress) {
    CompletableFuture<RuntimeInfo> future = awaitAsync(id, timeout, progress);
    try {
      return future.get();
    } catch (InterruptedException e) {
      future.cancel(true);
      Thread.currentThread().interrupt();
      throw PelotonException.failure(Status.Code.CANCELLED, "interrupted", e);
    } catch (ExecutionException e) {
      throw PelotonException.of(e);
    }
  }

  /**
   * Waits until a batch job has ended, also while no leader answers; gives its last state:
   * SUCCEEDED, FAILED or KILLED. Calls progress with each new state and count of instances.
   * Cancelling the future ends it.
   */
  public CompletableFuture<RuntimeInfo> awaitAsync(
      String id, Duration timeout, Consumer<RuntimeInfo> progress) {
    Waiting waiting = new Waiting(id, System.nanoTime() + timeout.toNanos(), progress);
    waiting.poll();
    return waiting.end;
  }

  private final class Waiting {
    private static final long FIRST_NANOS = 100_000_000;
    private static final long LONGEST_NANOS = 2_000_000_000;

    final CompletableFuture<RuntimeInfo> end = new CompletableFuture<>();
    private final String id;
    private final long deadline;
    private final Consumer<RuntimeInfo> progress;
    private RuntimeInfo before;
    private long interval = FIRST_NANOS;

    Waiting(String id, long deadline, Consumer<RuntimeInfo> progress) {
      this.id = id;
      this.deadline = deadline;
      this.progress = progress;
    }

    void poll() {
      var unused = getAsync(id).whenComplete(this::polled);
    }

    private void polled(JobInfo info, Throwable thrown) {
      if (end.isDone()) {
        return;
      }
      if (thrown != null && !isPassing(PelotonException.of(thrown))) {
        end.completeExceptionally(PelotonException.of(thrown));
        return;
      }
      try {
        if (thrown == null && tell(info.getRuntime())) {
          end.complete(info.getRuntime());
          return;
        }
      } catch (RuntimeException e) { // of progress, which is the caller's
        end.completeExceptionally(e);
        return;
      }
      if (System.nanoTime() + interval >= deadline) {
        String state = before == null ? "without an answer" : before.getState().name();
        String reason = "the job " + id + " is still " + state;
        end.completeExceptionally(PelotonException.expired("", reason, thrown));
        return;
      }
      client.engine().after(interval, this::poll);
      interval = Math.min(interval * 3 / 2, LONGEST_NANOS);
    }

    /** Tells of a new runtime; returns whether the job has ended. */
    private boolean tell(RuntimeInfo now) {
      if (before == null
          || before.getState() != now.getState()
          || !Objects.equals(before.getTaskStatsMap(), now.getTaskStatsMap())) {
        before = now;
        interval = FIRST_NANOS;
        progress.accept(now);
      }
      return switch (now.getState()) {
        case SUCCEEDED, FAILED, KILLED -> true;
        default -> false;
      };
    }
  }

  /** Returns whether a failure is of the moment: no leader, or none that answers. */
  static boolean isPassing(PelotonException failure) {
    return failure instanceof PelotonException.Unavailable
        || failure instanceof PelotonException.DeadlineExceeded;
  }

  /**
   * Returns the instances of a job in order. They are read some at a time, as they are used. A page
   * that no leader answers is read again, a few times.
   */
  public Stream<TaskInfo> instances(String id) {
    JobInfo info = get(id);
    int count = info.getConfig().getInstanceCount() + info.getRuntime().getReleasedInstances();
    return IntStream.iterate(0, from -> from < count, from -> from + INSTANCES_PER_CALL)
        .boxed()
        .flatMap(from -> page(id, from).values().stream());
  }

  /**
   * Takes instances out of a batch job, live ones after their end; returns those that were not
   * released before. Their numbers are free when they have ended, and updates that add instances
   * use them again.
   */
  public List<Integer> release(String id, Collection<Integer> instances) {
    if (instances.isEmpty()) {
      return List.of();
    }
    ReleaseInstancesRequest.Builder request =
        ReleaseInstancesRequest.newBuilder().setJobId(id(id));
    for (int instance : instances) {
      request.addRanges(InstanceRange.newBuilder().setFrom(instance).setTo(instance + 1));
    }
    return client
        .call(InstanceServiceGrpc.getReleaseInstancesMethod(), request.build())
        .getReleasedInstancesList();
  }

  private Map<Integer, TaskInfo> page(String id, int from) {
    InstanceRange range =
        InstanceRange.newBuilder().setFrom(from).setTo(from + INSTANCES_PER_CALL).build();
    ListRequest request = ListRequest.newBuilder().setJobId(id(id)).setRange(range).build();
    Calls.Pauses pauses = new Calls.Pauses();
    for (int tries = 1; ; tries++) {
      try {
        return new TreeMap<>(
            client.call(TaskManagerGrpc.getListMethod(), request).getResult().getValueMap());
      } catch (PelotonException e) {
        if (tries == TRIES_PER_PAGE || !isPassing(e) || client.isClosed()) {
          throw e;
        }
      }
      pauses.pause();
    }
  }

  /** Returns the output of an instance's current run so far. Close it. */
  public InputStream logs(String id, int instance) {
    return logs(id, instance, "stdout", "", false);
  }

  /** Returns the output of an instance until its run has ended, also of one to come. Close it. */
  public InputStream follow(String id, int instance) {
    return logs(id, instance, "stdout", "", true);
  }

  /**
   * Returns a file of an instance's sandbox, read from its Mesos agent. Close it.
   *
   * @param file a path in the sandbox
   * @param run a Mesos task id, empty for the current run
   * @param follow whether to wait for a run that has not begun, and read on until it has ended
   */
  public InputStream logs(String id, int instance, String file, String run, boolean follow) {
    SandboxLog log = new SandboxLog(client, id, instance, file, run);
    return follow ? log : log.download();
  }

  /**
   * Watches the pods of a job: those that are there, then each change. After a cut it goes on with
   * what has changed meanwhile: the last state of each pod is never missed, states in between may
   * be. It ends with an exception where the job does not exist. Close it.
   */
  public Watch<PodSummary> watchPods(String id) {
    return Watch.ofPods(client, id);
  }
}
