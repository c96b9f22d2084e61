package peloton.client;

import java.nio.file.Path;
import java.util.UUID;
import peloton.api.v1alpha.job.stateless.JobSpec;
import peloton.api.v1alpha.job.stateless.JobSummary;
import peloton.api.v1alpha.job.stateless.svc.CreateJobRequest;
import peloton.api.v1alpha.job.stateless.svc.GetJobRequest;
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
    String id = UUID.randomUUID().toString();
    try {
      client.call(JobServiceGrpc.getCreateJobMethod(), creation(id, poolPath, spec));
    } catch (PelotonException.AlreadyExists e) {
      return id; // an earlier try has made it
    }
    return id;
  }

  /** Creates a service with an id of the caller, as {@link Jobs#createWithId} does a batch job. */
  public void createWithId(String id, String poolPath, JobSpec spec) {
    try {
      client.call(JobServiceGrpc.getCreateJobMethod(), creation(id, poolPath, spec));
    } catch (PelotonException.AlreadyExists e) {
      GetJobRequest request =
          GetJobRequest.newBuilder().setJobId(JobID.newBuilder().setValue(id)).build();
      JobSpec found = client.call(JobServiceGrpc.getGetJobMethod(), request).getJobInfo().getSpec();
      if (!found.getName().equals(spec.getName())) {
        throw e;
      }
    }
  }

  /** Creates a service from a YAML file as {@code peloton job stateless create} takes it. */
  public String create(String poolPath, Path file) {
    return create(poolPath, Specs.read(file, JobSpec.newBuilder()).build());
  }

  private CreateJobRequest creation(String id, String poolPath, JobSpec spec) {
    JobSpec.Builder made = spec.toBuilder();
    if (!poolPath.isEmpty()) {
      String pool = client.jobs().poolId(poolPath);
      made.setRespoolId(ResourcePoolID.newBuilder().setValue(pool));
    }
    return CreateJobRequest.newBuilder()
        .setJobId(JobID.newBuilder().setValue(id))
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
