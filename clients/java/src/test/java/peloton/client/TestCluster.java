package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import peloton.api.v0.job.JobConfig;
import peloton.api.v1alpha.job.stateless.JobSpec;

/**
 * A minicluster, found by the environment as the command line finds it. PELOTON_TEST_POOL is the
 * path of a pool, PELOTON_TEST_CONTROL a program that ends daemons and starts them again.
 */
final class TestCluster {
  static final Duration PATIENCE = Duration.ofMinutes(3);
  static final String POOL = System.getenv("PELOTON_TEST_POOL");

  private TestCluster() {}

  static PelotonClient connect() {
    return PelotonClient.builder("java-tests")
        .environment(System.getenv())
        .timeout(Duration.ofMinutes(1))
        .build();
  }

  static JobConfig spec(String command, int instances) {
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

  static JobSpec service(String name) {
    String text =
        """
        name: %s
        instance_count: 1
        default_spec:
          containers:
          - resource: {cpu_limit: 0.1, mem_limit_mb: 16, disk_limit_mb: 8}
            entrypoint: {value: sleep 1000}
          mesos_spec: {shell: true}
        """;
    return Specs.parse(text.formatted(name), "spec", JobSpec.newBuilder()).build();
  }

  /** Loses the leaders of roles (kill, freeze), or restores them. */
  static void control(String action, String... roles) throws Exception {
    List<String> command =
        Stream.concat(Stream.of(System.getenv("PELOTON_TEST_CONTROL"), action), Stream.of(roles))
            .toList();
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor(), output);
  }
}
