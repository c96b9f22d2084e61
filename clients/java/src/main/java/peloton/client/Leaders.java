package peloton.client;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;

/** Finds the address of a role's leader. */
interface Leaders extends AutoCloseable {
  /**
   * Returns host:port, after one that has failed, which is empty at first. An {@link
   * PelotonException.Unavailable} may pass.
   */
  String address(Role role, String failed);

  /** Tells the address of each new leader from now on, empty while nobody leads. */
  default void watch(Role role, Consumer<String> tell) {}

  /** Returns the other addresses at which the leader may be, where nobody tells it. */
  default List<String> others(String address) {
    return List.of();
  }

  @Override
  default void close() {}

  /** The addresses that the caller gave, one after the other as they fail. */
  record Given(List<String> addresses) implements Leaders {
    private static final Pattern SCHEME =
        Pattern.compile("^(grpc|http|https|dns):/+", Pattern.CASE_INSENSITIVE);
    private static final Pattern ADDRESS = Pattern.compile("(\\[[^\\]]+\\]|[^:/]+):(\\d{1,5})");

    static Given parse(Role role, String text) {
      List<String> found = new ArrayList<>();
      for (String part : text.split(",", -1)) {
        String address = SCHEME.matcher(part.strip()).replaceFirst("").replaceFirst("/+$", "");
        if (!isAddress(address)) {
          throw PelotonException.invalid(
              "address of " + role.daemon(), part, "host:port, such as " + role.defaultAddress());
        }
        found.add(address);
      }
      return new Given(List.copyOf(found));
    }

    static boolean isAddress(String text) {
      var match = ADDRESS.matcher(text);
      if (!match.matches()) {
        return false;
      }
      int port = Integer.parseInt(match.group(2));
      return port > 0 && port < 65536;
    }

    @Override
    public String address(Role role, String failed) {
      return addresses.get((addresses.indexOf(failed) + 1) % addresses.size());
    }

    @Override
    public List<String> others(String address) {
      return addresses.stream().filter(each -> !each.equals(address)).toList();
    }
  }

  /** Leaders as their elections announce them. It connects when it is first asked. */
  final class Elected implements Leaders {
    private static final int MILLIS = 5000;

    private final String text;
    private final String servers;
    private final String below;
    private final String mesosCluster;
    private final ZooKeeperTls tls;
    private CuratorFramework zooKeeper;
    private boolean closed;

    /** Where tls is null, connections are not encrypted. */
    Elected(String text, String root, String mesosCluster, ZooKeeperTls tls) {
      this.text = text;
      this.mesosCluster = mesosCluster;
      this.tls = tls;
      String[] parts = text.replaceFirst("^zk://", "").split("/", 2);
      servers = parts[0];
      for (String server : servers.split(",", -1)) {
        if (!Given.isAddress(server.strip())) {
          throw PelotonException.invalid("zooKeeper", text, "host:port,host:port…");
        }
      }
      String path = (parts.length > 1 ? parts[1] : "") + "/" + root;
      below = ("/" + path).replaceAll("/+", "/").replaceFirst("/$", "");
    }

    String node(Role role) {
      String part =
          role == Role.HOST_MANAGER && !mesosCluster.isEmpty() ? "/clusters/" + mesosCluster : "";
      return below + "/" + role.election() + part + "/leader";
    }

    @Override
    public String address(Role role, String failed) {
      String node = node(role);
      String asked = "ZooKeeper (" + text + ")";
      try {
        return parse(node, connected().getData().forPath(node));
      } catch (PelotonException e) {
        throw e;
      } catch (KeeperException.NoNodeException e) {
        throw PelotonException.unavailable(
            asked + " shows no leader of " + role.daemon() + " at " + node, e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw PelotonException.unavailable(asked + ": interrupted", e);
      } catch (Exception e) { // Curator's methods throw no narrower one
        throw PelotonException.unavailable(asked + " cannot be asked: " + e, e);
      }
    }

    @Override
    public void watch(Role role, Consumer<String> tell) {
      String node = node(role);
      new Follower(
              connected(),
              node,
              value -> {
                try {
                  tell.accept(value.length == 0 ? "" : parse(node, value));
                } catch (PelotonException e) {
                  // The next look-up throws it.
                }
              })
          .begin();
    }

    private record Leader(String ip, int grpc) {}

    static String parse(String node, byte[] value) {
      String text = new String(value, StandardCharsets.UTF_8);
      try {
        Leader leader = new Gson().fromJson(text, Leader.class);
        if (leader != null && leader.ip != null && leader.grpc > 0) {
          return leader.ip.contains(":")
              ? "[" + leader.ip + "]:" + leader.grpc
              : leader.ip + ":" + leader.grpc;
        }
      } catch (JsonParseException e) {
        // told below, with the value
      }
      throw PelotonException.invalid(
          node, text, "the address of a leader: a JSON object with ip and grpc");
    }

    private synchronized CuratorFramework connected() {
      if (closed) {
        throw PelotonException.closed();
      }
      if (zooKeeper == null) {
        var builder =
            CuratorFrameworkFactory.builder()
                .connectString(servers)
                .sessionTimeoutMs(MILLIS)
                .connectionTimeoutMs(MILLIS)
                .retryPolicy(new RetryOneTime(100))
                .ensembleTracker(false);
        if (tls != null) {
          builder.zkClientConfig(tls.config());
        }
        zooKeeper = builder.build();
        zooKeeper.start();
      }
      return zooKeeper;
    }

    @Override
    public void close() {
      CuratorFramework open;
      synchronized (this) {
        closed = true;
        open = zooKeeper;
      }
      if (open != null) {
        open.close();
      }
      if (tls != null) {
        tls.close();
      }
    }
  }
}
