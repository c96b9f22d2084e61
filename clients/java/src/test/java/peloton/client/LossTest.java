package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peloton.client.TestCluster.PATIENCE;
import static peloton.client.TestCluster.POOL;
import static peloton.client.TestCluster.control;
import static peloton.client.TestCluster.service;
import static peloton.client.TestCluster.spec;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.JobSummary;
import peloton.api.v0.job.QueryRequest;
import peloton.api.v0.job.QuerySpec;
import peloton.api.v0.peloton.ResourcePoolID;
import peloton.api.v0.query.PaginationSpec;
import peloton.api.v1alpha.job.stateless.JobSpec;
import peloton.api.v1alpha.pod.PodState;

/**
 * The leaders of two daemons are lost under 200 calls of four kinds and three open watches: some
 * calls are answered before that, some are under way, some are made when nobody leads.
 * PELOTON_TEST_LOSS says what happens to the leaders: kill or freeze. See {@link TestCluster}.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_TEST_LOSS", matches = ".+")
@Timeout(600)
class LossTest {
  private static final int CALLERS = 10;
  private static final int CALLS_PER_CALLER = 20;

  private final JobSpec service = service("java-" + UUID.randomUUID());
  private final String prefix = "once-" + UUID.randomUUID() + "-";
  private final CountDownLatch begun = new CountDownLatch(CALLERS); // some calls are answered
  private final CountDownLatch lost = new CountDownLatch(1);
  private final Queue<String> created = new ConcurrentLinkedQueue<>();

  /** By the name of a job that was created without an id, whether the call was answered. */
  private final Map<String, Boolean> once = new ConcurrentHashMap<>();

  private PelotonClient client;
  private String watched;

  @Test
  void callsAndWatchesOutliveTheLeaders() throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    try (PelotonClient opened = TestCluster.connect()) {
      client = opened;
      watched = client.jobs().create(POOL, spec("sleep 20", 4));
      List<Callable<Void>> parts =
          new ArrayList<>(
              List.of(this::watchPods, this::watchPods, this::watchServices, this::createService));
      for (int caller = 0; caller < CALLERS; caller++) {
        int number = caller;
        parts.add(() -> call(number));
      }
      List<Future<Void>> running = parts.stream().map(threads::submit).toList();
      begun.await();
      control(System.getenv("PELOTON_TEST_LOSS"), "jobmgr", "resmgr");
      lost.countDown();
      for (Future<Void> each : running) {
        each.get();
      }
      control("restore", "jobmgr", "resmgr");
      assertEquals(CALLERS / 2 * CALLS_PER_CALLER / 2, new HashSet<>(created).size());
      for (String id : created) {
        assertEquals(JobState.SUCCEEDED, client.jobs().await(id, PATIENCE, now -> {}).getState());
      }
      checkOnce();
    } finally {
      threads.shutdownNow();
    }
  }

  private Void call(int caller) throws InterruptedException {
    for (int call = 0; call < CALLS_PER_CALLER; call++) {
      if (call == CALLS_PER_CALLER / 4) {
        begun.countDown();
      } else if (call == CALLS_PER_CALLER * 3 / 4) {
        lost.await();
      }
      if (caller % 2 == 0) {
        client.jobs().get(watched);
      } else if (call % 2 == 0) {
        created.add(client.jobs().createAsync(POOL, spec("true", 1)).join());
      } else {
        createOnce(prefix + caller + "-" + call);
      }
    }
    return null;
  }

  /** Makes a call that may not be repeated: it has no id. */
  private void createOnce(String name) {
    ResourcePoolID pool = ResourcePoolID.newBuilder().setValue(client.jobs().poolId(POOL)).build();
    JobConfig config = spec("true", 1).toBuilder().setName(name).setRespoolID(pool).build();
    boolean answered = true;
    try {
      client.call(
          JobManagerGrpc.getCreateMethod(), CreateRequest.newBuilder().setConfig(config).build());
    } catch (PelotonException.Unavailable | PelotonException.DeadlineExceeded e) {
      answered = false;
    }
    once.put(name, answered);
  }

  /** Looks whether what was answered is there once, and nothing twice. */
  private void checkOnce() {
    QuerySpec named =
        QuerySpec.newBuilder()
            .setName(prefix + "*")
            .setPagination(PaginationSpec.newBuilder().setLimit(100))
            .build();
    QueryRequest request = QueryRequest.newBuilder().setSpec(named).setSummaryOnly(true).build();
    Map<String, Long> there =
        client.call(JobManagerGrpc.getQueryMethod(), request).getResultsList().stream()
            .map(JobSummary::getName)
            .collect(Collectors.groupingBy(Function.identity(), Collectors.counting()));
    assertEquals(CALLERS / 2 * CALLS_PER_CALLER / 2, once.size());
    assertFalse(there.isEmpty());
    once.forEach(
        (name, answered) -> {
          long count = there.getOrDefault(name, 0L);
          assertTrue(
              count == 1 || (count == 0 && !answered),
              name + ", answered: " + answered + ", is there " + count + " times");
        });
  }

  private Void watchPods() {
    Set<String> succeeded = new HashSet<>();
    try (var watch = client.jobs().watchPods(watched)) {
      while (succeeded.size() < 4) {
        var event = watch.next();
        if (event.kind() == Watch.Kind.CHANGED
            && event.subject().getStatus().getState() == PodState.POD_STATE_SUCCEEDED) {
          succeeded.add(event.name());
        }
      }
    }
    return null;
  }

  /** Waits for a service that is made when the leaders are lost. */
  private Void watchServices() {
    try (var watch = client.services().watch()) {
      boolean seen = false;
      while (!seen) {
        var event = watch.next();
        seen =
            event.kind() == Watch.Kind.CHANGED
                && event.subject().getName().equals(service.getName());
      }
    }
    return null;
  }

  private Void createService() throws InterruptedException {
    lost.await();
    var unused = client.services().create(POOL, service);
    return null;
  }
}
