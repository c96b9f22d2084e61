package peloton.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells the controller of an application's job, from a driver outside of the cluster, that the
 * driver lives, and at the end how it has ended. Who connects learns nothing else.
 */
final class FollowedDriver implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(FollowedDriver.class);
  private static final int MOST_FOLLOWERS = 16;
  private static final long BEAT_SECONDS = 10;

  private final ServerSocket server;
  private final Set<Socket> followers = ConcurrentHashMap.newKeySet();

  /** Listens at a port, or at any where it is 0. */
  FollowedDriver(String bindAddress, int port) {
    try {
      server = new ServerSocket(port, MOST_FOLLOWERS, InetAddress.getByName(bindAddress));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot listen at " + bindAddress + ":" + port, e);
    }
    start("peloton-followers", this::accept);
    start("peloton-beats", this::beat);
  }

  private static void start(String name, Runnable body) {
    Thread thread = new Thread(body, name);
    thread.setDaemon(true);
    thread.start();
  }

  int port() {
    return server.getLocalPort();
  }

  private void accept() {
    while (!server.isClosed()) {
      try {
        Socket follower = server.accept();
        if (followers.size() < MOST_FOLLOWERS) {
          followers.add(follower);
        } else {
          follower.close();
        }
      } catch (IOException e) {
        if (!server.isClosed()) {
          LOG.warn("a connection of the job's controller failed", e);
        }
      }
    }
  }

  private void beat() {
    try {
      while (!server.isClosed()) {
        say("alive");
        TimeUnit.SECONDS.sleep(BEAT_SECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Says a word to all followers; returns how many have it. */
  private synchronized int say(String word) {
    int told = 0;
    for (Iterator<Socket> each = followers.iterator(); each.hasNext(); ) {
      Socket follower = each.next();
      try {
        follower.getOutputStream().write((word + "\n").getBytes(StandardCharsets.US_ASCII));
        told++;
      } catch (IOException e) {
        LOG.debug("a follower has gone", e);
        each.remove();
      }
    }
    return told;
  }

  /** Says that the driver ends; returns whether somebody has heard it. */
  boolean end(int code) {
    return say("exit" + code) > 0;
  }

  @Override
  public void close() throws IOException {
    server.close();
    for (Socket each : followers) {
      each.close();
    }
  }
}
