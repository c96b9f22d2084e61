package peloton.client;

import java.util.function.Consumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher;

/** Reads a node of ZooKeeper whenever it changes, until its client is closed. */
final class Follower {
  private static final byte[] NOTHING = {};

  private final CuratorFramework zooKeeper;
  private final String node;
  private final Consumer<byte[]> tell;
  private final CuratorWatcher watcher =
      event -> {
        if (event.getType() != Watcher.Event.EventType.None) { // else one of the connection
          ask();
        }
      };

  /** Tells the content of the node, empty while there is none. */
  Follower(CuratorFramework zooKeeper, String node, Consumer<byte[]> tell) {
    this.zooKeeper = zooKeeper;
    this.node = node;
    this.tell = tell;
  }

  /**
   * Reads now, and whenever a connection is back: a session that has ended takes its watches along.
   */
  void begin() {
    zooKeeper
        .getConnectionStateListenable()
        .addListener(
            (client, state) -> {
              if (state.isConnected()) {
                ask();
              }
            });
    ask();
  }

  private void ask() {
    try {
      zooKeeper
          .getData()
          .usingWatcher(watcher)
          .inBackground((client, event) -> answered(event))
          .forPath(node);
    } catch (Exception e) { // Curator's methods throw no narrower one
      throw new IllegalStateException("a request in the background failed at once", e);
    }
  }

  private void answered(CuratorEvent event) throws Exception {
    if (event.getResultCode() == Code.OK.intValue()) {
      tell.accept(event.getData());
    } else if (event.getResultCode() == Code.NONODE.intValue()) {
      tell.accept(NOTHING);
      zooKeeper
          .checkExists()
          .usingWatcher(watcher)
          .inBackground((client, found) -> looked(found))
          .forPath(node);
    } // Any other failure is one of the connection.
  }

  private void looked(CuratorEvent event) {
    if (event.getResultCode() == Code.OK.intValue()) {
      ask(); // made between the two
    }
  }
}
