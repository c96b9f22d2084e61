package peloton.client;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.zookeeper.client.ZKClientConfig;

/** Encrypted connections to ZooKeeper, whose library wants certificate and key in one file. */
final class ZooKeeperTls implements AutoCloseable {
  private static final String PEM = "PEM";

  private final File authorities; // null: the system's
  private final File certificate; // null: none
  private final File key;
  private Path both;

  ZooKeeperTls(File authorities, File certificate, File key) {
    if ((certificate == null) != (key == null)) {
      throw PelotonException.invalid(
          "certFile", certificate, "given together with keyFile, which is " + key);
    }
    this.authorities = authorities;
    this.certificate = certificate;
    this.key = key;
  }

  /** Returns what the library needs, for as long as this is not closed. */
  synchronized ZKClientConfig config() {
    ZKClientConfig config = new ZKClientConfig();
    config.setProperty(ZKClientConfig.SECURE_CLIENT, "true");
    config.setProperty(
        ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper.ClientCnxnSocketNetty");
    if (authorities != null) {
      config.setProperty("zookeeper.ssl.trustStore.location", authorities.getPath());
      config.setProperty("zookeeper.ssl.trustStore.type", PEM);
    }
    if (certificate != null) {
      config.setProperty("zookeeper.ssl.keyStore.location", joined().toString());
      config.setProperty("zookeeper.ssl.keyStore.type", PEM);
    }
    return config;
  }

  private Path joined() {
    try {
      if (both == null) {
        both = Files.createTempFile("peloton-client-", ".pem"); // for this user alone to read
      }
      String text = Files.readString(key.toPath()) + "\n" + Files.readString(certificate.toPath());
      return Files.writeString(both, text);
    } catch (IOException e) {
      throw PelotonException.invalid("certFile", certificate, "a readable PEM file: " + e);
    }
  }

  @Override
  public synchronized void close() {
    try {
      if (both != null) {
        Files.deleteIfExists(both);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
