package peloton.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import peloton.client.ClientBuilder;
import peloton.client.PelotonClient;

/**
 * Where the cluster is, as the master of an application says it: {@code
 * local://peloton://HOST:PORT[,HOST:PORT…]} names the job managers, {@code
 * local://peloton://zk://HOST:PORT[,HOST:PORT…]} the servers of ZooKeeper. What it does not say
 * comes from the variables of the command line.
 *
 * @param jobManagers addresses with commas, empty where the environment tells
 * @param zooKeeper servers with commas, empty where the environment tells
 */
record Master(String jobManagers, String zooKeeper) {
  private static final String LOCAL = "local://";
  private static final String SCHEME = "peloton://";
  private static final String ZOOKEEPER = "zk://";
  private static final String ADDRESS = "[^,:/\\s]+:\\d{1,5}";
  private static final Pattern ADDRESSES = Pattern.compile(ADDRESS + "(," + ADDRESS + ")*");

  static boolean matches(String master) {
    return withoutLocal(master).startsWith(SCHEME);
  }

  private static String withoutLocal(String master) {
    return master.startsWith(LOCAL) ? master.substring(LOCAL.length()) : master;
  }

  /** Throws IllegalArgumentException for a master that is none of Peloton. */
  static Master parse(String master) {
    String place = withoutLocal(master).substring(SCHEME.length());
    boolean zooKeeper = place.startsWith(ZOOKEEPER);
    String addresses = zooKeeper ? place.substring(ZOOKEEPER.length()) : place;
    boolean empty = addresses.isEmpty() && !zooKeeper;
    if (!empty && !ADDRESSES.matcher(addresses).matches()) {
      throw new IllegalArgumentException(
          "master: "
              + master
              + " is not local://peloton://HOST:PORT, local://peloton://zk://HOST:PORT, or"
              + " local://peloton:// where the environment says where the cluster is");
    }
    return zooKeeper ? new Master("", addresses) : new Master(addresses, "");
  }

  /** Returns a client of the cluster, which the caller closes. */
  PelotonClient connect(Map<String, String> environment) {
    Map<String, String> variables = new HashMap<>(environment);
    if (!jobManagers.isEmpty()) {
      variables.put("JOBMGR_URL", jobManagers);
    }
    if (!zooKeeper.isEmpty()) {
      variables.put("ZK_SERVERS", zooKeeper);
    }
    ClientBuilder builder = PelotonClient.builder("spark");
    return builder.environment(variables).build();
  }
}
