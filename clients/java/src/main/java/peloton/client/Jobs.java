package peloton.client;

import com.google.protobuf.Message;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.RuntimeInfo;
import peloton.api.v0.peloton.JobID;
import peloton.api.v0.respool.LookupRequest;
import peloton.api.v0.respool.ResourceManagerGrpc;
import peloton.api.v0.respool.ResourcePoolPath;
import peloton.api.v0.task.BrowseSandboxRequest;
import peloton.api.v0.task.InstanceRange;
import peloton.api.v0.task.ListRequest;
import peloton.api.v0.task.TaskInfo;
import peloton.api.v0.task.TaskManagerGrpc;
import peloton.api.v0.task.TaskState;
import peloton.api.v1alpha.job.stateless.JobSpec;
import peloton.api.v1alpha.job.stateless.svc.CreateJobRequest;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;

/** What people do with jobs. Failures are of type {@link PelotonException}. */
public final class Jobs {
  private static final long FIRST_POLL_MILLIS = 100;
  private static final long LONGEST_POLL_MILLIS = 2000;
  private static final long FOLLOW_MILLIS = 500;
  private static final int INSTANCES_PER_CALL = 1000;
  private static final int LAST_BYTE = 255;
  private static final int AGENT_MILLIS = 20_000;
  private static final List<JobState> TERMINAL = List.of(JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED);
  private static final List<TaskState> ENDED =
      List.of(TaskState.SUCCEEDED, TaskState.FAILED, TaskState.LOST, TaskState.KILLED, TaskState.DELETED);

  private final Channel jobmgr;
  private final JobManagerGrpc.JobManagerBlockingStub jobs;
  private final TaskManagerGrpc.TaskManagerBlockingStub tasks;
  private final JobServiceGrpc.JobServiceBlockingStub services;
  private final ResourceManagerGrpc.ResourceManagerBlockingStub pools;
  private final ScheduledExecutorService threads;

  Jobs(Channel jobmgr, Channel resmgr, ScheduledExecutorService threads) {
    this.jobmgr = jobmgr;
    this.jobs = JobManagerGrpc.newBlockingStub(jobmgr);
    this.tasks = TaskManagerGrpc.newBlockingStub(jobmgr);
    this.services = JobServiceGrpc.newBlockingStub(jobmgr);
    this.pools = ResourceManagerGrpc.newBlockingStub(resmgr);
    this.threads = threads;
  }

  /** Returns the id of the resource pool at a path such as /team/batch. */
  public String poolId(String path) {
    LookupRequest request = LookupRequest.newBuilder().setPath(ResourcePoolPath.newBuilder().setValue(path)).build();
    return call(() -> pools.lookupResourcePoolID(request)).getId().getValue();
  }

  /** Creates a batch job in the pool at a path, and returns its id. An empty path leaves the pool to the config. */
  public String create(String pool, JobConfig config) {
    JobConfig.Builder all = config.toBuilder();
    if (!pool.isEmpty()) {
      all.getRespoolIDBuilder().setValue(poolId(pool));
    }
    String id = UUID.randomUUID().toString();
    CreateRequest request = CreateRequest.newBuilder().setId(job(id)).setConfig(all).build();
    unlessMade(() -> call(() -> jobs.create(request)));
    return id;
  }

  /** Creates a batch job from a YAML file. */
  public String create(String pool, Path file) {
    return create(pool, Specs.read(file, JobConfig.newBuilder()).build());
  }

  /** Creates a batch job without waiting for the answer. */
  public CompletableFuture<String> createAsync(String pool, JobConfig config) {
    return async(() -> create(pool, config));
  }

  /** Creates a service in the pool at a path, and returns its id. */
  public String createService(String pool, JobSpec spec) {
    JobSpec.Builder all = spec.toBuilder();
    if (!pool.isEmpty()) {
      all.getRespoolIdBuilder().setValue(poolId(pool));
    }
    String id = UUID.randomUUID().toString();
    CreateJobRequest request = CreateJobRequest.newBuilder()
        .setJobId(peloton.api.v1alpha.peloton.JobID.newBuilder().setValue(id)).setSpec(all).build();
    unlessMade(() -> call(() -> services.createJob(request)));
    return id;
  }

  /** Returns config and runtime of a batch job. */
  public JobInfo get(String id) {
    return call(() -> jobs.get(GetRequest.newBuilder().setId(job(id)).build())).getJobInfo();
  }

  /** Returns config and runtime of a batch job, later. */
  public CompletableFuture<JobInfo> getAsync(String id) {
    CompletableFuture<JobInfo> result = new CompletableFuture<>();
    JobManagerGrpc.newStub(jobmgr).get(GetRequest.newBuilder().setId(job(id)).build(), new StreamObserver<GetResponse>() {
      @Override
      public void onNext(GetResponse answer) {
        try {
          result.complete(Answers.check(answer).getJobInfo());
        } catch (PelotonException error) {
          result.completeExceptionally(error);
        }
      }

      @Override
      public void onError(Throwable error) {
        result.completeExceptionally(PelotonException.of((StatusRuntimeException) error));
      }

      @Override
      public void onCompleted() {}
    });
    return result;
  }

  /** Waits until a batch job has ended, also while no leader answers; tells each new state and count of instances. */
  public RuntimeInfo await(String id, Duration timeout, Consumer<RuntimeInfo> progress) throws InterruptedException {
    Instant end = Instant.now().plus(timeout);
    RuntimeInfo before = RuntimeInfo.getDefaultInstance();
    long pause = FIRST_POLL_MILLIS;
    while (true) {
      RuntimeInfo now = runtime(id, before);
      if (now.getState() != before.getState() || !now.getTaskStatsMap().equals(before.getTaskStatsMap())) {
        progress.accept(now);
        pause = FIRST_POLL_MILLIS;
      }
      before = now;
      if (TERMINAL.contains(now.getState())) {
        return now;
      }
      if (Instant.now().plusMillis(pause).isAfter(end)) {
        String text = "the job " + id + " is still " + now.getState();
        throw new PelotonException(Status.Code.DEADLINE_EXCEEDED, text, id, null);
      }
      Thread.sleep(pause);
      pause = Math.min(pause * 3 / 2, LONGEST_POLL_MILLIS);
    }
  }

  /** Waits until a batch job has ended without holding a thread. */
  public CompletableFuture<RuntimeInfo> awaitAsync(String id, Duration timeout) {
    CompletableFuture<RuntimeInfo> result = new CompletableFuture<>();
    poll(id, Instant.now().plus(timeout), result);
    return result;
  }

  private void poll(String id, Instant end, CompletableFuture<RuntimeInfo> result) {
    getAsync(id).whenComplete((info, failure) -> {
      boolean passes = failure instanceof PelotonException error && error.passing();
      if (failure != null && (!passes || Instant.now().isAfter(end))) {
        result.completeExceptionally(failure);
      } else if (info != null && TERMINAL.contains(info.getRuntime().getState())) {
        result.complete(info.getRuntime());
      } else if (Instant.now().isAfter(end)) {
        String text = "the job " + id + " is still " + info.getRuntime().getState();
        result.completeExceptionally(new PelotonException(Status.Code.DEADLINE_EXCEEDED, text, id, null));
      } else if (!result.isDone()) {
        threads.schedule(() -> poll(id, end, result), LONGEST_POLL_MILLIS / 4, TimeUnit.MILLISECONDS);
      }
    });
  }

  private RuntimeInfo runtime(String id, RuntimeInfo before) {
    try {
      return get(id).getRuntime();
    } catch (PelotonException error) {
      if (error.passing()) {
        return before;
      }
      throw error;
    }
  }

  /** Returns the instances of a job in order, read some at a time. */
  public Stream<TaskInfo> instances(String id) {
    int count = get(id).getConfig().getInstanceCount();
    int calls = (count + INSTANCES_PER_CALL - 1) / INSTANCES_PER_CALL;
    return IntStream.range(0, calls).boxed().flatMap(number -> {
      int from = number * INSTANCES_PER_CALL;
      InstanceRange range = InstanceRange.newBuilder().setFrom(from).setTo(from + INSTANCES_PER_CALL).build();
      ListRequest request = ListRequest.newBuilder().setJobId(job(id)).setRange(range).build();
      return call(() -> tasks.list(request)).getResult().getValueMap().entrySet().stream()
          .sorted(Map.Entry.comparingByKey()).map(Map.Entry::getValue);
    });
  }

  /** Returns the pods of a job, then each change, until it is closed. */
  public PodWatch watchPods(String id) {
    return new PodWatch(jobmgr, id);
  }

  /** Returns a file of an instance's sandbox as it is now, from its Mesos agent. */
  public InputStream logs(String id, int instance, String file) {
    return open(sandbox(id, instance, file), "/files/download", "");
  }

  /** Passes on a file of an instance's sandbox until its run has ended; waits for a run that has not begun. */
  public void follow(String id, int instance, String file, Consumer<byte[]> pieces) throws InterruptedException {
    String[] at = null;
    String run = "";
    long offset = 0;
    while (true) {
      // Asked before the read: a run that has ended has written all of its output.
      peloton.api.v0.task.RuntimeInfo now = task(id, instance);
      String current = now.getMesosTaskId().getValue();
      run = run.isEmpty() ? current : run;
      boolean ended = ENDED.contains(now.getState()) || !current.equals(run);
      try {
        at = at == null ? sandbox(id, instance, file) : at;
        byte[] piece = piece(at, offset);
        while (piece.length > 0) {
          pieces.accept(piece);
          offset += piece.length;
          piece = piece(at, offset);
        }
      } catch (PelotonException error) {
        if (ended || at != null && !error.passing()) {
          throw error;
        }
      }
      if (ended) {
        return;
      }
      Thread.sleep(FOLLOW_MILLIS);
    }
  }

  private peloton.api.v0.task.RuntimeInfo task(String id, int instance) {
    var request = peloton.api.v0.task.GetRequest.newBuilder().setJobId(job(id)).setInstanceId(instance).build();
    return call(() -> tasks.get(request)).getResult().getRuntime();
  }

  /** Returns the agent and the path of a file there. */
  private String[] sandbox(String id, int instance, String file) {
    var request = BrowseSandboxRequest.newBuilder().setJobId(job(id)).setInstanceId(instance).build();
    var answer = call(() -> tasks.browseSandbox(request));
    String path = answer.getPathsList().stream().filter(each -> each.endsWith("/" + file))
        .min(Comparator.comparingInt(String::length))
        .orElseThrow(() -> new PelotonException(
            Status.Code.NOT_FOUND, "no file " + file + " in the sandbox; there: " + answer.getPathsList(), file, null));
    String port = answer.getPort().isEmpty() ? "5051" : answer.getPort();
    return new String[] {answer.getHostname() + ":" + port, path};
  }

  /** Returns bytes from an offset on: agents put what is not UTF-8 raw into their JSON, so each byte is a character. */
  private static byte[] piece(String[] at, long offset) {
    try (InputStream body = open(at, "/files/read", "&length=65536&offset=" + offset)) {
      String text = new String(body.readAllBytes(), StandardCharsets.ISO_8859_1);
      return data(text);
    } catch (IOException error) {
      throw new PelotonException(Status.Code.UNAVAILABLE, "agent " + at[0] + ": " + error, "", error);
    }
  }

  private static byte[] data(String text) {
    Object answer = new Yaml(new SafeConstructor(new LoaderOptions())).load(text);
    String found = answer instanceof Map<?, ?> map && map.get("data") instanceof String held ? held : "";
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    found.codePoints().forEach(point -> {
      if (point <= LAST_BYTE) {
        bytes.write(point);
      } else {
        bytes.writeBytes(Character.toString(point).getBytes(StandardCharsets.UTF_8)); // from an escape
      }
    });
    return bytes.toByteArray();
  }

  private static InputStream open(String[] at, String endpoint, String query) {
    String path = URLEncoder.encode(at[1], StandardCharsets.UTF_8);
    try {
      URI address = URI.create("http://" + at[0] + endpoint + "?path=" + path + query);
      // Agents are not behind the user's proxy.
      HttpURLConnection connection = (HttpURLConnection) address.toURL().openConnection(Proxy.NO_PROXY);
      connection.setConnectTimeout(AGENT_MILLIS);
      connection.setReadTimeout(AGENT_MILLIS);
      if (connection.getResponseCode() != HttpURLConnection.HTTP_OK) {
        boolean missing = connection.getResponseCode() == HttpURLConnection.HTTP_NOT_FOUND;
        String text = "agent " + at[0] + " answered " + connection.getResponseCode() + " to " + endpoint;
        throw new PelotonException(missing ? Status.Code.NOT_FOUND : Status.Code.UNKNOWN, text, at[1], null);
      }
      return connection.getInputStream();
    } catch (IOException error) {
      throw new PelotonException(Status.Code.UNAVAILABLE, "agent " + at[0] + " cannot be reached: " + error, "", error);
    }
  }

  private static JobID job(String id) {
    return JobID.newBuilder().setValue(id).build();
  }

  private static <M extends Message> M call(Supplier<M> made) {
    try {
      return Answers.check(made.get());
    } catch (StatusRuntimeException error) {
      throw PelotonException.of(error);
    }
  }

  /** Creates what has an id of our own: what exists was made by a try whose answer was lost. */
  private static void unlessMade(Runnable create) {
    try {
      create.run();
    } catch (PelotonException error) {
      if (error.code() != Status.Code.ALREADY_EXISTS) {
        throw error;
      }
    }
  }

  /** Runs on a thread of its own: the client's threads deliver the answers that it waits for. */
  private static <T> CompletableFuture<T> async(Supplier<T> body) {
    CompletableFuture<T> result = new CompletableFuture<>();
    Thread thread = new Thread(() -> {
      try {
        result.complete(body.get());
      } catch (RuntimeException error) {
        result.completeExceptionally(error);
      }
    }, "peloton-async");
    thread.setDaemon(true);
    thread.start();
    return result;
  }
}
