package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobState;
import peloton.api.v0.task.TaskInfo;
import peloton.api.v1alpha.pod.PodState;

/** Needs a minicluster, found by the environment; see tests/clients. */
@Tag("cluster")
@Timeout(600)
class ClusterTest {
  private static final String POOL = System.getenv().getOrDefault("PELOTON_TEST_POOL", "/test");
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  private static PelotonClient client() {
    return PelotonClient.builder("java-tests").environment(System.getenv()).timeout(Duration.ofMinutes(1)).build();
  }

  private static JobConfig spec(String command, int instances) {
    return Specs.parse("""
        name: java
        instanceCount: %d
        sla: {preemptible: true}
        defaultConfig:
          resource: {cpuLimit: 0.1, memLimitMb: 16, diskLimitMb: 8}
          command: {shell: true, value: "%s"}
        """.formatted(instances, command), "spec", JobConfig.newBuilder()).build();
  }

  private static void control(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of(System.getenv("PELOTON_TEST_CONTROL")));
    command.addAll(List.of(arguments));
    assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
  }

  @Test
  void job() throws Exception {
    try (PelotonClient client = client()) {
      String id = client.jobs().create(POOL, spec("echo one; sleep 1; echo two", 3));
      ByteArrayOutputStream output = new ByteArrayOutputStream();
      client.jobs().follow(id, 1, "stdout", output::writeBytes);
      assertEquals("one\ntwo\n", output.toString(StandardCharsets.UTF_8));
      assertEquals(JobState.SUCCEEDED, client.jobs().await(id, PATIENCE, now -> {}).getState());
      assertEquals(JobState.SUCCEEDED, client.jobs().awaitAsync(id, PATIENCE).get().getState());
      assertEquals(List.of(0, 1, 2), client.jobs().instances(id).map(TaskInfo::getInstanceId).toList());
      var error = assertThrows(PelotonException.class, () -> client.jobs().create(POOL, spec("true", 0)));
      assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
      assertEquals("0", error.value());
    }
  }

  @Test
  void losesItsLeader() throws Exception {
    var threads = Executors.newFixedThreadPool(8);
    try (PelotonClient client = client()) {
      String watched = client.jobs().create(POOL, spec("sleep 20", 4));
      List<Future<List<String>>> running = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        Callable<List<String>> body = i < 3 ? () -> watch(client, watched) : () -> calls(client, watched);
        running.add(threads.submit(body));
      }
      control(System.getenv("PELOTON_TEST_LOSS"), "jobmgr");
      Set<String> created = new HashSet<>();
      for (Future<List<String>> each : running) {
        created.addAll(each.get());
      }
      control("restore", "jobmgr");
      assertEquals(100, created.size());
      for (String id : created) {
        assertEquals(JobState.SUCCEEDED, client.jobs().await(id, PATIENCE, now -> {}).getState());
      }
    } finally {
      threads.shutdownNow();
    }
  }

  private static List<String> watch(PelotonClient client, String job) {
    Set<String> ended = new HashSet<>();
    try (PodWatch watch = client.jobs().watchPods(job)) {
      while (ended.size() < 4) {
        PodEvent event = watch.next();
        if (event.pod() != null && event.pod().getStatus().getState() == PodState.POD_STATE_SUCCEEDED) {
          ended.add(event.name());
        }
      }
    }
    return List.of();
  }

  private static List<String> calls(PelotonClient client, String job) {
    List<String> created = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      client.jobs().get(job);
      created.add(client.jobs().create(POOL, spec("true", 1)));
    }
    return created;
  }
}
