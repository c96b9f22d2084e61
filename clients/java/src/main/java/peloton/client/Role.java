package peloton.client;

/** A kind of daemon that clients call. */
public enum Role {
  JOB_MANAGER("jobmgr", "localhost:5392", "jobmanager", "peloton.api.v0.job.JobManager"),
  RESOURCE_MANAGER(
      "resmgr", "localhost:5394", "resourcemanager", "peloton.api.v0.respool.ResourceManager"),
  HOST_MANAGER("hostmgr", "localhost:5391", "hostmanager", "peloton.api.v0.host.svc.HostService");

  private final String daemon;
  private final String defaultAddress;
  private final String election;
  private final String service;

  Role(String daemon, String defaultAddress, String election, String service) {
    this.daemon = daemon;
    this.defaultAddress = defaultAddress;
    this.election = election;
    this.service = service;
  }

  /** Returns the daemon's name, such as jobmgr. */
  public String daemon() {
    return daemon;
  }

  String defaultAddress() {
    return defaultAddress;
  }

  String election() {
    return election;
  }

  /** Returns a service that the leader alone serves. */
  String service() {
    return service;
  }

  /** Returns the daemon that serves a service of the public interface. */
  static Role serving(String service) {
    if (service.contains(".respool.")) {
      return RESOURCE_MANAGER;
    }
    return service.contains(".host.") ? HOST_MANAGER : JOB_MANAGER;
  }
}
