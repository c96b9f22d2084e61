package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobType;
import peloton.api.v0.task.TaskConfig;

class SpecsTest {
  private static JobConfig parse(String text) {
    return Specs.parse(text, "job.yaml", JobConfig.newBuilder()).build();
  }

  @Test
  void keysAndEnumsAreMatchedLoosely() {
    JobConfig config =
        parse(
            """
            name: "7"
            INSTANCE_COUNT: 0x10
            type: batch
            sla: {preemptible: yes, maximum_running_instances: 1e3}
            defaultConfig:
              resource: &small {cpuLimit: 0.5, memLimitMb: 4.0}
              labels: [{key: a, value: b}, {key: c, value: d}]
              command: {shell: true, value: 'echo'}
            instanceConfig:
              3: {resource: *small}
            owner: null
            """);
    assertEquals("7", config.getName());
    assertEquals(16, config.getInstanceCount());
    assertEquals(JobType.BATCH, config.getType());
    assertTrue(config.getSla().getPreemptible());
    assertEquals(1000, config.getSla().getMaximumRunningInstances());
    TaskConfig task = config.getDefaultConfig();
    assertEquals(4.0, task.getResource().getMemLimitMb());
    assertEquals("d", task.getLabels(1).getValue());
    assertTrue(task.getCommand().getShell());
    assertEquals(task.getResource(), config.getInstanceConfigMap().get(3).getResource());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "instanceCount: -1 | instanceCount | -1 | a whole number from 0 to 4294967295",
        "instanceCount: 1.5 | instanceCount | 1.5 | a whole number from 0 to 4294967295",
        "instanceCount: 4294967296 | instanceCount | 4294967296 | a whole number from 0 to 4294967295",
        "nme: x | nme | nme | a field of JobConfig",
        "name: [x] | name | a list | a single value",
        "type: lorry | type | lorry | one of BATCH, SERVICE, DAEMON",
        "sla: {preemptible: 1} | sla.preemptible | 1 | true or false",
        "sla: 1 | sla | 1 | a mapping: `key: value` lines",
        "defaultConfig: {labels: {}} | defaultConfig.labels | a mapping |"
            + " a list: each entry on a line of its own, with `- ` before it",
        "defaultConfig: {labels: [{key: []}]} | defaultConfig.labels[0].key | a list | a single value",
        "defaultConfig: {resource: {cpuLimit: -1}} | defaultConfig.resource.cpuLimit | -1 |"
            + " a number of 0 or more",
      })
  void whatIsWrongIsNamed(String text, String field, String value, String expected) {
    var failure =
        assertThrows(PelotonException.InvalidArgument.class, () -> parse("# a job\n" + text));
    assertEquals(field, failure.field());
    assertEquals(value, failure.value());
    assertEquals(expected, failure.expected());
    assertTrue(failure.getMessage().startsWith("job.yaml:2: "), failure.getMessage());
  }

  @Test
  void aFieldIsGivenOnce() {
    var failure =
        assertThrows(
            PelotonException.InvalidArgument.class,
            () -> parse("instanceCount: 1\ninstance_count: 2"));
    assertEquals("given once, without another choice beside it", failure.expected());
  }

  @Test
  void textThatIsNotYamlIsRefused() {
    assertThrows(PelotonException.InvalidArgument.class, () -> parse("a: ["));
    assertThrows(PelotonException.InvalidArgument.class, () -> parse(""));
    assertThrows(
        PelotonException.InvalidArgument.class,
        () -> Specs.read(Path.of("/nowhere/job.yaml"), JobConfig.newBuilder()));
  }
}
