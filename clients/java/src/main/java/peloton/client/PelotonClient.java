package peloton.client;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/**
 * A client of a cluster, for many threads. {@link #channel} is for the stubs of all public services, {@link #jobs} is
 * a small layer for people. Closing it ends its connections and threads.
 */
public final class PelotonClient implements AutoCloseable {
  /** Largest message either way, as the servers have it. */
  public static final int MAX_MESSAGE_BYTES = 256 << 20;

  private static final int THREADS = 4;
  private static final long CLOSE_SECONDS = 10;

  private final ScheduledExecutorService threads;
  private final Map<Role, LeaderChannel> channels = new EnumMap<>(Role.class);
  private final List<Resolver> resolvers = new ArrayList<>();
  private final Jobs jobs;

  private PelotonClient(Builder settings) {
    threads = Executors.newScheduledThreadPool(THREADS, task -> {
      Thread thread = new Thread(task, "peloton-client");
      thread.setDaemon(true);
      return thread;
    });
    Resolver elected = null;
    if (!settings.zooKeeper.isEmpty()) {
      elected = new ZooKeeperResolver(settings.zooKeeper, settings.zooKeeperRoot, settings.mesosCluster);
      resolvers.add(elected);
    }
    for (Role role : Role.values()) {
      String address = settings.addresses.getOrDefault(role, "");
      Resolver resolver = address.isEmpty() && elected != null
          ? elected : Resolver.of(role, address.isEmpty() ? role.defaultAddress : address);
      channels.put(role, new LeaderChannel(
          role, resolver, at -> open(at, settings.credentials), () -> settings.identity(role),
          settings.timeout.toMillis(), threads));
    }
    jobs = new Jobs(channel(Role.JOB_MANAGER), channel(Role.RESOURCE_MANAGER), threads);
  }

  private static ManagedChannel open(String address, ChannelCredentials credentials) {
    return Grpc.newChannelBuilder("dns:///" + address, credentials)
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .proxyDetector(target -> null) // daemons are not behind the web proxy that the environment may name
        .disableRetry()
        .disableServiceConfigLookUp()
        .build();
  }

  /** Returns the channel to the leader of a role, for stubs: {@code JobManagerGrpc.newBlockingStub(channel)}. */
  public io.grpc.Channel channel(Role role) {
    return channels.get(role);
  }

  /** Returns what people do with jobs. */
  public Jobs jobs() {
    return jobs;
  }

  @Override
  public void close() {
    resolvers.forEach(Resolver::close);
    channels.values().forEach(LeaderChannel::close);
    try {
      for (LeaderChannel channel : channels.values()) {
        channel.awaitClosed();
      }
      threads.shutdownNow();
      threads.awaitTermination(CLOSE_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      threads.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }

  /** Returns a builder; {@code caller} is the name that the daemons show in logs and metrics. */
  public static Builder builder(String caller) {
    return new Builder(caller);
  }

  /** Says where a cluster is and who calls it. */
  public static final class Builder {
    private static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(20);

    private final String caller;
    private final Map<Role, String> addresses = new EnumMap<>(Role.class);
    private final Map<String, String> basic = new java.util.LinkedHashMap<>();
    private String zooKeeper = "";
    private String zooKeeperRoot = "/peloton";
    private String mesosCluster = "";
    private ChannelCredentials credentials = InsecureChannelCredentials.create();
    private Supplier<String> token;
    private Duration timeout = DEFAULT_TIMEOUT;

    private Builder(String caller) {
      this.caller = caller;
    }

    /** Calls a role at host:port; several, separated by commas, are tried in turn until one leads. */
    public Builder address(Role role, String address) {
      addresses.put(role, address);
      return this;
    }

    /** Finds leaders by ZooKeeper: host:port,host:port…, followed by a path where everything is below it. */
    public Builder zooKeeper(String servers) {
      zooKeeper = servers;
      return this;
    }

    /** Sets the root of the elections; /peloton otherwise. */
    public Builder zooKeeperRoot(String root) {
      zooKeeperRoot = root;
      return this;
    }

    /** Sets the Mesos cluster whose host manager is called, where there are several. */
    public Builder mesosCluster(String name) {
      mesosCluster = name;
      return this;
    }

    /** Finds leaders by the ZooKeeper of a cluster in clusters.json. */
    public Builder cluster(String name) {
      return cluster(name, List.of(
          Path.of(System.getProperty("user.home"), ".peloton", "clusters.json"), Path.of("/etc/peloton/clusters.json")));
    }

    Builder cluster(String name, List<Path> files) {
      List<String> known = new ArrayList<>();
      for (Path file : files) {
        for (Map<?, ?> each : clusters(file)) {
          if (name.equals(each.get("clusterName"))) {
            return zooKeeper(String.valueOf(each.get("zkURL")));
          }
          known.add(String.valueOf(each.get("clusterName")));
        }
      }
      throw PelotonException.invalid("cluster", name, "in " + files + "; clusters known there: " + known);
    }

    /** Sends user and password with each call. */
    public Builder basic(String username, String password) {
      basic.put("username", username);
      basic.put("password", password);
      return this;
    }

    /** Sends a bearer token, asked for at each call. */
    public Builder token(Supplier<String> source) {
      token = source;
      return this;
    }

    /** Encrypts connections. */
    public Builder credentials(ChannelCredentials tls) {
      credentials = tls;
      return this;
    }

    /** Encrypts connections by PEM files; an empty name leaves a file out. */
    public Builder tls(String ca, String cert, String key) {
      TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
      try {
        if (!ca.isEmpty()) {
          tls.trustManager(new File(ca));
        }
        if (!cert.isEmpty() || !key.isEmpty()) {
          tls.keyManager(new File(cert), new File(key));
        }
      } catch (IOException error) {
        throw PelotonException.invalid("tls", ca + " " + cert + " " + key, "readable files: " + error);
      }
      return credentials(tls.build());
    }

    /** Bounds calls without a deadline of their own: 20 s otherwise, zero is without bound. */
    public Builder timeout(Duration bound) {
      timeout = bound;
      return this;
    }

    /** Reads the variables of the command line, and PELOTON_TOKEN and PELOTON_{CA,CERT,KEY}_FILE. */
    public Builder environment(Map<String, String> variables) {
      Map.of("JOBMGR_URL", Role.JOB_MANAGER, "RESMGR_URL", Role.RESOURCE_MANAGER, "HOSTMGR_URL", Role.HOST_MANAGER)
          .forEach((name, role) -> addresses.put(role, variables.getOrDefault(name, "")));
      zooKeeper = String.join(",", variables.getOrDefault("ZK_SERVERS", "").strip().split("\\s+"));
      zooKeeperRoot = variables.getOrDefault("ZK_ROOT", zooKeeperRoot);
      mesosCluster = variables.getOrDefault("MESOS_CLUSTER", "");
      if (zooKeeper.isEmpty() && !variables.getOrDefault("CLUSTER_NAME", "").isEmpty()) {
        cluster(variables.get("CLUSTER_NAME"));
      }
      if (variables.containsKey("BASIC_AUTH_CONFIG")) {
        readAuth(variables.get("BASIC_AUTH_CONFIG"));
      }
      if (variables.containsKey("PELOTON_TOKEN")) {
        token = () -> variables.get("PELOTON_TOKEN");
      }
      String ca = variables.getOrDefault("PELOTON_CA_FILE", "");
      String cert = variables.getOrDefault("PELOTON_CERT_FILE", "");
      return ca.isEmpty() && cert.isEmpty() ? this : tls(ca, cert, variables.getOrDefault("PELOTON_KEY_FILE", ""));
    }

    /** Returns the client. It connects when it is first used. */
    public PelotonClient build() {
      return new PelotonClient(this);
    }

    private void readAuth(String file) {
      Map<?, ?> content = yaml(Path.of(file)) instanceof Map<?, ?> found ? found : Map.of();
      if (content.get("token") instanceof String text) {
        token = () -> text;
      } else if (content.get("username") instanceof String user && content.get("password") instanceof String password) {
        basic(user, password);
      } else {
        throw PelotonException.invalid("basicAuthConfig", file, "a YAML mapping with username and password, or token");
      }
    }

    private static List<Map<?, ?>> clusters(Path file) {
      List<Map<?, ?>> found = new ArrayList<>();
      if (Files.exists(file) && yaml(file) instanceof Map<?, ?> content && content.get("clusters") instanceof List<?> list) {
        list.forEach(each -> found.add((Map<?, ?>) each));
      }
      return found;
    }

    private static Object yaml(Path file) {
      try (InputStream text = Files.newInputStream(file)) {
        return new Yaml(new SafeConstructor(new LoaderOptions())).load(text);
      } catch (IOException error) {
        throw PelotonException.invalid("file", file.toString(), "a readable file: " + error);
      }
    }

    private Metadata identity(Role role) {
      Metadata all = new Metadata();
      put(all, "rpc-caller", caller);
      put(all, "rpc-service", "peloton-" + role.id);
      put(all, "rpc-encoding", "proto");
      basic.forEach((key, value) -> put(all, key, value));
      if (token != null) {
        put(all, "authorization", "Bearer " + token.get());
      }
      return all;
    }

    private static void put(Metadata all, String key, String value) {
      all.put(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER), value);
    }
  }
}
