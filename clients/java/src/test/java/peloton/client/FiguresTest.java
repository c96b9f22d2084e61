package peloton.client;

import static peloton.client.TestCluster.POOL;
import static peloton.client.TestCluster.connect;
import static peloton.client.TestCluster.spec;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import peloton.api.v0.job.GetActiveJobsRequest;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v1alpha.pod.PodState;

/**
 * Called by {@code python -m benchmarks.clients}: calls per second beside plain stubs, in short
 * rounds that take turns; a large job, watched to its end.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_FIGURES_IDLE", matches = ".+")
@Timeout(1200)
class FiguresTest {
  private static final GetActiveJobsRequest REQUEST = GetActiveJobsRequest.getDefaultInstance();
  private static final int AT_ONCE = 32;
  private static final int ROUNDS = number("ROUNDS");
  private static final int CALLS = number("CALLS");
  private static final int WARMING = 20_000;

  private static int number(String name) {
    return Integer.parseInt(System.getenv().getOrDefault("PELOTON_FIGURES_" + name, "0"));
  }

  /** Makes some calls. */
  private interface Work {
    void make(int calls) throws Exception;
  }

  /** Begins a call, and tells its end to a listener. */
  private interface Begin {
    void call(Runnable end) throws Exception;
  }

  @Test
  void figures() throws Exception {
    compare("a server that does nothing", System.getenv("PELOTON_FIGURES_IDLE"));
    compare("the job manager", System.getenv("JOBMGR_URL"));
    int tasks = number("TASKS");
    if (tasks > 0) {
      watch(tasks);
    }
  }

  private static void compare(String what, String target) throws Exception {
    Metadata headers = new Metadata();
    headers.put(ClientBuilder.CALLER, "bench");
    headers.put(ClientBuilder.SERVICE, "peloton-jobmgr");
    headers.put(ClientBuilder.ENCODING, "proto");
    headers.put(ClientBuilder.ANSWER_BYTES, Integer.toString(ClientBuilder.MAX_MESSAGE_BYTES));
    ManagedChannel channel =
        NettyChannelBuilder.forTarget("dns:///" + target)
            .usePlaintext()
            .maxInboundMessageSize(ClientBuilder.MAX_MESSAGE_BYTES)
            .intercept(MetadataUtils.newAttachHeadersInterceptor(headers))
            .build();
    try (PelotonClient client =
        PelotonClient.builder("bench").address(Role.JOB_MANAGER, target).build()) {
      var blocking = JobManagerGrpc.newBlockingStub(channel);
      var futures = JobManagerGrpc.newFutureStub(channel);
      var method = JobManagerGrpc.getGetActiveJobsMethod();
      Executor here = Runnable::run;
      tell(
          "blocking, " + what,
          calls -> {
            for (int call = 0; call < calls; call++) {
              var unused = client.call(method, REQUEST);
            }
          },
          calls -> {
            for (int call = 0; call < calls; call++) {
              var unused = blocking.withDeadlineAfter(20, TimeUnit.SECONDS).getActiveJobs(REQUEST);
            }
          });
      tell(
          "futures, " + what,
          calls ->
              atOnce(
                  calls,
                  end -> {
                    var unused = client.callAsync(method, REQUEST).thenRun(end);
                  }),
          calls ->
              atOnce(
                  calls,
                  end ->
                      futures
                          .withDeadlineAfter(20, TimeUnit.SECONDS)
                          .getActiveJobs(REQUEST)
                          .addListener(end, here)));
    } finally {
      channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }
  }

  private static void atOnce(int calls, Begin begin) throws Exception {
    Semaphore places = new Semaphore(AT_ONCE);
    CountDownLatch left = new CountDownLatch(calls);
    for (int call = 0; call < calls; call++) {
      places.acquire();
      begin.call(
          () -> {
            places.release();
            left.countDown();
          });
    }
    left.await();
  }

  private static void tell(String what, Work byClient, Work byStub) throws Exception {
    for (int made = 0; made < WARMING / 2; made += CALLS) {
      byClient.make(CALLS);
      byStub.make(CALLS);
    }
    List<Double> ours = new ArrayList<>();
    List<Double> plain = new ArrayList<>();
    List<Double> pairs = new ArrayList<>();
    for (int round = 0; round < ROUNDS; round++) {
      boolean first = round % 2 == 0; // what one leaves to the next counts for both
      double before = first ? rate(byClient) : rate(byStub);
      double after = first ? rate(byStub) : rate(byClient);
      ours.add(first ? before : after);
      plain.add(first ? after : before);
      pairs.add(ours.get(round) / plain.get(round));
    }
    System.out.printf(
        "java: %s: %.0f calls/s, plain stubs %.0f; pairs: %.1f%%%n",
        what, median(ours), median(plain), 100 * median(pairs));
  }

  private static double rate(Work work) throws Exception {
    long began = System.nanoTime();
    work.make(CALLS);
    return CALLS * 1e9 / (System.nanoTime() - began);
  }

  private static double median(List<Double> values) {
    return values.stream().sorted().skip(values.size() / 2).findFirst().orElseThrow();
  }

  private static void watch(int tasks) {
    try (PelotonClient client = connect()) {
      long began = System.nanoTime();
      String id = client.jobs().create(POOL, spec("true", tasks));
      Set<String> succeeded = new HashSet<>();
      try (var watch = client.jobs().watchPods(id)) {
        while (succeeded.size() < tasks) {
          var event = watch.next();
          if (event.kind() == Watch.Kind.CHANGED
              && event.subject().getStatus().getState() == PodState.POD_STATE_SUCCEEDED) {
            succeeded.add(event.name());
          }
        }
      }
      var end = client.jobs().await(id, Duration.ofMinutes(10), now -> {});
      System.out.printf(
          "java: a job of %d watched to its end, %s, %d pods succeeded, in %.1f s%n",
          tasks, end.getState(), succeeded.size(), (System.nanoTime() - began) / 1e9);
    }
  }
}
