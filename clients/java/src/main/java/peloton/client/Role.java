package peloton.client;

/** A kind of daemon that clients call. */
public enum Role {
  JOB_MANAGER("jobmgr", "localhost:5392", "jobmanager"),
  RESOURCE_MANAGER("resmgr", "localhost:5394", "resourcemanager"),
  HOST_MANAGER("hostmgr", "localhost:5391", "hostmanager");

  private final String daemon;
  private final String defaultAddress;
  private final String election;

  Role(String daemon, String defaultAddress, String election) {
    this.daemon = daemon;
    this.defaultAddress = defaultAddress;
    this.election = election;
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

  /** Returns the daemon that serves a service of the public interface. */
  static Role serving(String service) {
    if (service.contains(".respool.")) {
      return RESOURCE_MANAGER;
    }
    return service.contains(".host.") ? HOST_MANAGER : JOB_MANAGER;
  }
}
