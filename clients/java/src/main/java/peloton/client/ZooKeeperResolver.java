package peloton.client;

import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException.NoNodeException;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** Leaders as their elections announce them in ZooKeeper. It connects when it is first asked. */
final class ZooKeeperResolver implements Resolver {
  private static final int TIMEOUT_MILLIS = 5000;
  private static final int RETRY_MILLIS = 200;

  private final String servers;
  private final String root;
  private final String mesosCluster;
  private CuratorFramework curator;
  private boolean closed;

  ZooKeeperResolver(String servers, String root, String mesosCluster) {
    String text = servers.replaceFirst("^zk://", "");
    int slash = text.indexOf('/');
    this.servers = slash < 0 ? text : text.substring(0, slash);
    String below = slash < 0 ? "" : text.substring(slash).replaceFirst("/+$", "");
    this.root = below + root.replaceFirst("/+$", "");
    this.mesosCluster = mesosCluster;
    if (!this.servers.matches("[^:,\\s]+:\\d+(,[^:,\\s]+:\\d+)*")) {
      throw PelotonException.invalid("zooKeeper", servers, "host:port,host:port…");
    }
  }

  @Override
  public String address(Role role, String failed) {
    String cluster = role == Role.HOST_MANAGER && !mesosCluster.isEmpty() ? "/clusters/" + mesosCluster : "";
    String node = root + "/" + role.election + cluster + "/leader";
    try {
      return leader(node, new String(connected().getData().forPath(node), StandardCharsets.UTF_8));
    } catch (PelotonException error) {
      throw error;
    } catch (NoNodeException error) {
      throw unavailable("shows no leader of " + role.id + " at " + node, error);
    } catch (Exception error) { // what Curator declares
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      throw unavailable("cannot be asked: " + error, error);
    }
  }

  private PelotonException unavailable(String what, Exception cause) {
    return new PelotonException(Status.Code.UNAVAILABLE, "ZooKeeper (" + servers + ") " + what, "", cause);
  }

  private static String leader(String node, String text) {
    Object content = new Yaml(new SafeConstructor(new LoaderOptions())).load(text);
    if (content instanceof Map<?, ?> found && found.get("ip") instanceof String ip && found.get("grpc") instanceof Integer port) {
      return (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + port;
    }
    throw PelotonException.invalid(node, text, "the address of a leader: a JSON object with ip and grpc");
  }

  private synchronized CuratorFramework connected() {
    if (closed) {
      throw new PelotonException(Status.Code.CANCELLED, "the client is closed", "", null);
    }
    if (curator == null) {
      curator = CuratorFrameworkFactory.newClient(servers, TIMEOUT_MILLIS, TIMEOUT_MILLIS, new RetryOneTime(RETRY_MILLIS));
      curator.start();
    }
    return curator;
  }

  @Override
  public synchronized void close() {
    closed = true;
    if (curator != null) {
      curator.close();
      curator = null;
    }
  }
}
