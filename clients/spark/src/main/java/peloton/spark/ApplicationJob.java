package peloton.spark;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.UpdateRequest;
import peloton.api.v0.peloton.JobID;
import peloton.api.v0.task.StopRequest;
import peloton.api.v0.task.TaskManagerGrpc;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.client.PelotonClient;
import peloton.client.PelotonException;
import peloton.client.Watch;

/** The job of an application, and the calls that its driver makes. */
final class ApplicationJob implements AutoCloseable {
  private final PelotonClient client;
  private final String id;
  private JobConfig config;

  ApplicationJob(PelotonClient client, String id) {
    this.client = client;
    this.id = id;
  }

  String id() {
    return id;
  }

  /** Makes the job, in the pool at a path. The call may be repeated. */
  void create(String pool, JobConfig spec) {
    client.jobs().createWithId(id, pool, spec);
    config = spec;
  }

  /** Adds instances until there are as many; returns the numbers of those that are new. */
  List<Integer> grow(int instances) {
    if (config == null) {
      config = client.jobs().get(id).getConfig();
    }
    UpdateRequest request =
        UpdateRequest.newBuilder()
            .setId(JobID.newBuilder().setValue(id))
            .setConfig(config.toBuilder().setInstanceCount(instances))
            .build();
    return client.call(JobManagerGrpc.getUpdateMethod(), request).getAddedInstancesList();
  }

  void release(Collection<Integer> instances) {
    client.jobs().release(id, instances);
  }

  Watch<PodSummary> watch() {
    return client.jobs().watchPods(id);
  }

  /** Stops all instances. */
  void stop() {
    StopRequest all =
        StopRequest.newBuilder().setJobId(JobID.newBuilder().setValue(id)).build();
    client.call(TaskManagerGrpc.getStopMethod(), all);
  }

  /** Returns whether the job has ended within a time. */
  boolean hasEnded(Duration within) {
    try {
      client.jobs().await(id, within, now -> {});
      return true;
    } catch (PelotonException.DeadlineExceeded e) {
      return false;
    }
  }

  @Override
  public void close() {
    client.close();
  }
}
