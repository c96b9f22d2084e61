package peloton.client;

import java.nio.file.Path;
import java.util.UUID;
import peloton.api.v1alpha.job.stateless.JobSpec;
import peloton.api.v1alpha.job.stateless.JobSummary;
import peloton.api.v1alpha.job.stateless.svc.CreateJobRequest;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;
import peloton.api.v1alpha.peloton.JobID;
import peloton.api.v1alpha.peloton.ResourcePoolID;
import peloton.api.v1alpha.watch.StatelessJobFilter;

/** Services, for people. */
public final class Services {
  private final PelotonClient client;

  Services(PelotonClient client) {
    this.client = client;
  }

  /**
   * Creates a service in the pool at a path, and returns its id. Where the path is empty the spec
   * names the pool. The call may be repeated: the client chooses the id.
   */
  public String create(String poolPath, JobSpec spec) {
    CreateJobRequest request = creation(poolPath, spec);
    try {
      client.call(JobServiceGrpc.getCreateJobMethod(), request);
    } catch (PelotonException.AlreadyExists e) {
      return request.getJobId().getValue(); // an earlier try has made it
    }
    return request.getJobId().getValue();
  }

  /** Creates a service from a YAML file as {@code peloton job stateless create} takes it. */
  public String create(String poolPath, Path file) {
    return create(poolPath, Specs.read(file, JobSpec.newBuilder()).build());
  }

  private CreateJobRequest creation(String poolPath, JobSpec spec) {
    JobSpec.Builder made = spec.toBuilder();
    if (!poolPath.isEmpty()) {
      String pool = client.jobs().poolId(poolPath);
      made.setRespoolId(ResourcePoolID.newBuilder().setValue(pool));
    }
    return CreateJobRequest.newBuilder()
        .setJobId(JobID.newBuilder().setValue(UUID.randomUUID().toString()))
        .setSpec(made)
        .build();
  }

  /** Watches the services that match a filter, as {@link Jobs#watchPods} does pods. Close it. */
  public Watch<JobSummary> watch(StatelessJobFilter filter) {
    return Watch.ofServices(client, filter);
  }

  /** Watches all services, as {@link Jobs#watchPods} does pods. Close it. */
  public Watch<JobSummary> watch() {
    return watch(StatelessJobFilter.getDefaultInstance());
  }
}
