package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.RuntimeInfo;
import peloton.api.v0.task.TaskInfo;
import peloton.api.v1alpha.job.stateless.JobSpec;
import peloton.api.v1alpha.pod.PodState;

/**
 * Needs a minicluster, found by the environment as the command line finds it. PELOTON_TEST_POOL is
 * the path of a pool, PELOTON_TEST_CONTROL a program that ends daemons and starts them again,
 * PELOTON_TEST_LOSS what it does: kill or freeze.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_TEST_POOL", matches = ".+")
@Timeout(400)
class ClusterTest {
  private static final Duration PATIENCE = Duration.ofMinutes(3);
  private static final String POOL = System.getenv("PELOTON_TEST_POOL");

  private static PelotonClient connect() {
    return PelotonClient.builder("java-tests")
        .environment(System.getenv())
        .timeout(Duration.ofMinutes(1))
        .build();
  }

  private static JobConfig spec(String command, int instances) {
    String text =
        """
        name: java
        instanceCount: %d
        sla: {preemptible: true}
        defaultConfig:
          resource: {cpuLimit: 0.1, memLimitMb: 16, diskLimitMb: 8}
          command: {shell: true, value: "%s"}
        """;
    return Specs.parse(text.formatted(instances, command), "spec", JobConfig.newBuilder()).build();
  }

  @Test
  void aJobFromItsSpecToItsEnd() throws IOException {
    try (PelotonClient client = connect()) {
      String id = client.jobs().create(POOL, spec("echo one; sleep 1; echo two", 3));
      try (InputStream log = client.jobs().follow(id, 1)) {
        assertEquals("one\ntwo\n", new String(log.readAllBytes(), StandardCharsets.UTF_8));
      }
      List<RuntimeInfo> steps = new ArrayList<>();
      RuntimeInfo end = client.jobs().await(id, PATIENCE, steps::add);
      assertEquals(JobState.SUCCEEDED, end.getState());
      assertFalse(steps.isEmpty());
      assertEquals(
          List.of(0, 1, 2), client.jobs().instances(id).map(TaskInfo::getInstanceId).toList());
      try (InputStream log = client.jobs().logs(id, 2)) {
        assertEquals("one\ntwo\n", new String(log.readAllBytes(), StandardCharsets.UTF_8));
      }
    }
  }

  @Test
  void errorsAreTyped() {
    try (PelotonClient client = connect()) {
      assertThrows(
          PelotonException.NotFound.class,
          () -> client.jobs().get("00000000-0000-4000-8000-000000000000"));
      assertThrows(PelotonException.NotFound.class, () -> client.jobs().poolId("/nowhere"));
      var refused =
          assertThrows(
              PelotonException.InvalidArgument.class,
              () -> client.jobs().create(POOL, spec("true", 0)));
      assertTrue(refused.field().contains("instanceCount"), refused.field());
      assertEquals("0", refused.value());
    }
  }

  @Test
  void aServiceIsWatched() {
    String text =
        """
        name: java-service
        instance_count: 1
        default_spec:
          containers:
          - resource: {cpu_limit: 0.1, mem_limit_mb: 16, disk_limit_mb: 8}
            entrypoint: {value: sleep 1000}
          mesos_spec: {shell: true}
        """;
    JobSpec spec = Specs.parse(text, "spec", JobSpec.newBuilder()).build();
    try (PelotonClient client = connect()) {
      String id = client.services().create(POOL, spec);
      try (var watch = client.services().watch()) {
        boolean running = false;
        while (!running) {
          var event = watch.next();
          running =
              event.name().equals(id)
                  && event.kind() == Watch.Kind.CHANGED
                  && event.subject().getStatus().getState()
                      == peloton.api.v1alpha.job.stateless.JobState.JOB_STATE_RUNNING;
        }
      }
    }
  }

  /** The leader is lost under 200 calls of four kinds and three open watches. */
  @Test
  @EnabledIfEnvironmentVariable(named = "PELOTON_TEST_LOSS", matches = ".+")
  void callsAndWatchesOutliveTheLeader() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(13);
    try (PelotonClient client = connect()) {
      String watched = client.jobs().create(POOL, spec("sleep 20", 4));
      List<String> created = Collections.synchronizedList(new ArrayList<>());
      List<Future<?>> running = new ArrayList<>();
      for (int watch = 0; watch < 3; watch++) {
        running.add(threads.submit(() -> watchToTheEnd(client, watched)));
      }
      for (int worker = 0; worker < 10; worker++) {
        boolean creates = worker % 2 == 0;
        running.add(threads.submit(() -> callTwentyTimes(client, watched, creates, created)));
      }
      control(System.getenv("PELOTON_TEST_LOSS"));
      for (Future<?> each : running) {
        each.get();
      }
      control("restore");
      assertEquals(100, new HashSet<>(created).size());
      for (String id : created) {
        assertEquals(JobState.SUCCEEDED, client.jobs().await(id, PATIENCE, now -> {}).getState());
      }
    } finally {
      threads.shutdownNow();
    }
  }

  private static void watchToTheEnd(PelotonClient client, String id) {
    Set<String> succeeded = new HashSet<>();
    try (var watch = client.jobs().watchPods(id)) {
      while (succeeded.size() < 4) {
        var event = watch.next();
        if (event.kind() == Watch.Kind.CHANGED
            && event.subject().getStatus().getState() == PodState.POD_STATE_SUCCEEDED) {
          succeeded.add(event.name());
        }
      }
    }
  }

  private static void callTwentyTimes(
      PelotonClient client, String watched, boolean creates, List<String> created) {
    for (int call = 0; call < 20; call++) {
      if (creates) {
        created.add(client.jobs().createAsync(POOL, spec("true", 1)).join());
      } else {
        client.jobs().get(watched);
      }
    }
  }

  private static void control(String action) throws Exception {
    Process process =
        new ProcessBuilder(System.getenv("PELOTON_TEST_CONTROL"), action, "jobmgr")
            .inheritIO()
            .start();
    assertEquals(0, process.waitFor());
  }
}
