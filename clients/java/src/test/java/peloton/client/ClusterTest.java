package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static peloton.client.TestCluster.PATIENCE;
import static peloton.client.TestCluster.POOL;
import static peloton.client.TestCluster.connect;
import static peloton.client.TestCluster.service;
import static peloton.client.TestCluster.spec;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.RuntimeInfo;
import peloton.api.v0.task.TaskInfo;

/** See {@link TestCluster}. */
@EnabledIfEnvironmentVariable(named = "PELOTON_TEST_POOL", matches = ".+")
@Timeout(400)
class ClusterTest {
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
    try (PelotonClient client = connect()) {
      String id = client.services().create(POOL, service("java-service"));
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

  @Test
  void aClusterIsFoundByItsName(@TempDir Path folder) throws IOException {
    String text = "{\"clusters\": [{\"clusterName\": \"here\", \"zkURL\": \"zk://%s\"}]}";
    Path file = folder.resolve("clusters.json");
    Files.writeString(file, text.formatted(System.getenv("ZK_SERVERS")));
    ClientBuilder config =
        PelotonClient.builder("java-tests").cluster("here").clusterFiles(List.of(file));
    try (PelotonClient client = config.build()) {
      assertFalse(client.jobs().poolId(POOL).isEmpty());
    }
  }
}
