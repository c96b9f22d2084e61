package peloton.client;

/** A kind of daemon that clients call. */
public enum Role {
  /** Serves jobs, tasks, services, pods, updates, volumes and watches. */
  JOB_MANAGER("jobmgr", "jobmanager", "localhost:5392"),
  /** Serves resource pools. */
  RESOURCE_MANAGER("resmgr", "resourcemanager", "localhost:5394"),
  /** Serves hosts and host pools. */
  HOST_MANAGER("hostmgr", "hostmanager", "localhost:5391");

  final String id;
  final String election;
  final String defaultAddress;

  Role(String id, String election, String defaultAddress) {
    this.id = id;
    this.election = election;
    this.defaultAddress = defaultAddress;
  }
}
