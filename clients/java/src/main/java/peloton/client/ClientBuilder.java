package peloton.client;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;
import org.yaml.snakeyaml.error.YAMLException;

/**
 * Says where a cluster is and who calls it. An address counts before a cluster's name and
 * ZooKeeper; a daemon for which nothing is given is called at its default port on localhost.
 */
public final class ClientBuilder {
  /** Bounds calls that have no deadline. */
  public static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(20);

  /** The largest message either way, as the servers have it. */
  public static final int MAX_MESSAGE_BYTES = 256 << 20;

  /** The version of this client, which its calls carry. */
  public static final String VERSION = "0.2.0";

  static final Metadata.Key<String> CALLER = key("rpc-caller");
  static final Metadata.Key<String> CLIENT_VERSION = key("peloton-version");
  static final Metadata.Key<String> SERVICE = key("rpc-service");
  static final Metadata.Key<String> ENCODING = key("rpc-encoding");
  static final Metadata.Key<String> ANSWER_BYTES = key("peloton-answer-bytes");
  static final Metadata.Key<String> USERNAME = key("username");
  static final Metadata.Key<String> PASSWORD = key("password");
  static final Metadata.Key<String> AUTHORIZATION = key("authorization");

  private static final Pattern DURATION = Pattern.compile("(\\d+(?:\\.\\d+)?)(ms|s|m|h)");
  private static final Map<String, Double> MILLIS =
      Map.of("ms", 1.0, "s", 1e3, "m", 60e3, "h", 3600e3);

  private final String caller;
  private final Map<Role, String> addresses = new EnumMap<>(Role.class);
  private String zooKeeper = "";
  private String zooKeeperRoot = "/peloton";
  private Supplier<ZooKeeperTls> zooKeeperTls = () -> null;
  private String cluster = "";
  private List<Path> clusterFiles =
      List.of(
          Path.of(System.getProperty("user.home"), ".peloton", "clusters.json"),
          Path.of("/etc/peloton/clusters.json"));
  private String mesosCluster = "";
  private ChannelCredentials credentials = InsecureChannelCredentials.create();
  private String username = "";
  private String password = "";
  private Supplier<String> token;
  private AgentAccess agents = AgentAccess.PLAIN;
  private Duration timeout = DEFAULT_TIMEOUT;
  private Function<Role, Leaders> found;
  private Function<String, ManagedChannelBuilder<?>> channels = this::nettyChannel;

  ClientBuilder(String caller) {
    this.caller = caller;
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  /** Sets host:port of a daemon. Several, separated by commas, are tried until one leads. */
  public ClientBuilder address(Role role, String address) {
    addresses.put(role, address);
    return this;
  }

  /** Finds leaders by ZooKeeper: host:port,host:port…, with a path where all is below one. */
  public ClientBuilder zooKeeper(String servers) {
    zooKeeper = servers;
    return this;
  }

  /** Sets the root of the elections, /peloton where it is not set. */
  public ClientBuilder zooKeeperRoot(String root) {
    zooKeeperRoot = root;
    return this;
  }

  /** Encrypts connections to ZooKeeper; the files are those of {@link #tls}. */
  public ClientBuilder zooKeeperTls(File authorities, File certificate, File key) {
    zooKeeperTls = () -> new ZooKeeperTls(authorities, certificate, key);
    return this;
  }

  /** Sets the name of a cluster in clusters.json. */
  public ClientBuilder cluster(String name) {
    cluster = name;
    return this;
  }

  /** Sets what is read in place of ~/.peloton/clusters.json and /etc/peloton/clusters.json. */
  public ClientBuilder clusterFiles(List<Path> files) {
    clusterFiles = List.copyOf(files);
    return this;
  }

  /** Names the Mesos cluster whose host manager is called, where there are several. */
  public ClientBuilder mesosCluster(String name) {
    mesosCluster = name;
    return this;
  }

  /** Encrypts connections, such as with {@link TlsChannelCredentials}. */
  public ClientBuilder credentials(ChannelCredentials with) {
    credentials = with;
    return this;
  }

  /**
   * Encrypts connections. Trusts the authorities in a PEM file, or the system's where it is null,
   * and shows a certificate with its key, unless they are null.
   */
  public ClientBuilder tls(File authorities, File certificate, File key) {
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
    if ((certificate == null) != (key == null)) {
      throw PelotonException.invalid(
          "certFile", certificate, "given together with keyFile, which is " + key);
    }
    try {
      if (authorities != null) {
        tls.trustManager(authorities);
      }
      if (certificate != null) {
        tls.keyManager(certificate, key);
      }
      ChannelCredentials made = tls.build();
      var unused = NettyChannelBuilder.forTarget("localhost:1", made); // reads the content
      return credentials(made);
    } catch (IOException | IllegalArgumentException e) {
      throw PelotonException.invalid(
          "certificates",
          Arrays.asList(authorities, certificate, key),
          "PEM files of authorities, a certificate and its key: " + reason(e));
    }
  }

  private static String reason(Throwable thrown) {
    Throwable cause = thrown;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause.toString();
  }

  /** Sets a user of BASIC auth. */
  public ClientBuilder basic(String user, String word) {
    username = user;
    password = word;
    return this;
  }

  /** Sets a source of bearer tokens, asked for each try of a call. It should not block for long. */
  public ClientBuilder token(Supplier<String> source) {
    token = source;
    return this;
  }

  /**
   * Reads the output of tasks from Mesos agents by HTTPS. Trusts the authorities in a PEM file, or
   * the system's where it is null.
   */
  public ClientBuilder agentTls(File authorities) {
    agents = agents.trusting(authorities);
    return this;
  }

  /** Sets a principal that Mesos agents let in, and its secret. */
  public ClientBuilder agentBasic(String principal, String secret) {
    agents = agents.basic(principal, secret);
    return this;
  }

  /** Bounds calls that have no deadline; zero is no bound. */
  public ClientBuilder timeout(Duration bound) {
    timeout = bound;
    return this;
  }

  /** Makes connections to host:port otherwise; the credentials are not used then. */
  public ClientBuilder channels(Function<String, ManagedChannelBuilder<?>> builder) {
    channels = builder;
    return this;
  }

  /**
   * Reads the variables of the command line, such as {@link System#getenv()} has: JOBMGR_URL,
   * RESMGR_URL, HOSTMGR_URL, CLUSTER_NAME, ZK_SERVERS, ZK_ROOT, MESOS_CLUSTER, BASIC_AUTH_CONFIG
   * and TIMEOUT; and PELOTON_TOKEN, PELOTON_CA_FILE, PELOTON_CERT_FILE and PELOTON_KEY_FILE, which
   * with ZK_TLS=1 are for ZooKeeper, too; PELOTON_AGENT_CA_FILE and PELOTON_AGENT_AUTH. Inside of a
   * task that has a token (PELOTON_TOKEN_FILE), calls are the task's unless another identity is
   * given; files may then be named by their paths below MESOS_SANDBOX. That token is renewed when
   * half of its time is over.
   */
  public ClientBuilder environment(Map<String, String> variables) {
    Function<String, String> get = name -> variables.getOrDefault(name, "").strip();
    Function<String, String> own = name -> inSandbox(get.apply("MESOS_SANDBOX"), get.apply(name));
    address(Role.JOB_MANAGER, get.apply("JOBMGR_URL"))
        .address(Role.RESOURCE_MANAGER, get.apply("RESMGR_URL"))
        .address(Role.HOST_MANAGER, get.apply("HOSTMGR_URL"))
        .cluster(get.apply("CLUSTER_NAME"))
        .zooKeeper(get.apply("ZK_SERVERS").replaceAll("\\s+", ","))
        .mesosCluster(get.apply("MESOS_CLUSTER"));
    if (!get.apply("ZK_ROOT").isEmpty()) {
      zooKeeperRoot(get.apply("ZK_ROOT"));
    }
    if (!get.apply("TIMEOUT").isEmpty()) {
      timeout(duration("TIMEOUT", get.apply("TIMEOUT")));
    }
    Path auth = Path.of(get.apply("BASIC_AUTH_CONFIG"));
    if (!auth.toString().isEmpty()) {
      Auth read = Auth.read("basicAuthConfig", auth);
      if (read.token.isEmpty()) {
        basic(read.username, read.password);
      } else {
        token(read::token);
      }
    }
    String token = get.apply("PELOTON_TOKEN");
    if (!token.isEmpty()) {
      token(() -> token);
    } else if (auth.toString().isEmpty() && !get.apply("JOBMGR_URL").isEmpty()) {
      taskToken(own.apply("PELOTON_TOKEN_FILE"));
    }
    File authorities = file(own.apply("PELOTON_CA_FILE"));
    File certificate = file(own.apply("PELOTON_CERT_FILE"));
    File key = file(own.apply("PELOTON_KEY_FILE"));
    if (authorities != null || certificate != null || key != null) {
      tls(authorities, certificate, key);
    }
    if (List.of("1", "true").contains(get.apply("ZK_TLS").toLowerCase(Locale.ROOT))) {
      zooKeeperTls(authorities, certificate, key);
    }
    agentEnvironment(file(get.apply("PELOTON_AGENT_CA_FILE")), get.apply("PELOTON_AGENT_AUTH"));
    return this;
  }

  /** Returns a path; a relative one is below the sandbox of a task. */
  private static String inSandbox(String sandbox, String path) {
    return sandbox.isEmpty() || path.isEmpty() ? path : Path.of(sandbox).resolve(path).toString();
  }

  private void taskToken(String file) {
    if (file.isEmpty()) {
      return;
    }
    try {
      String read = Files.readString(Path.of(file)).strip();
      token(new TaskToken(read, this::renewed, InstantSource.system()));
    } catch (IOException e) {
      throw PelotonException.invalid("PELOTON_TOKEN_FILE", file, "a readable file");
    }
  }

  /** Returns a new token for the one of a task, by the job manager. */
  String renewed(String old) {
    ClientBuilder own =
        new ClientBuilder(caller)
            .address(Role.JOB_MANAGER, addresses.get(Role.JOB_MANAGER))
            .credentials(credentials)
            .channels(channels)
            .timeout(TaskToken.RENEWAL_TIMEOUT)
            .token(() -> old);
    try (PelotonClient client = own.build()) {
      return TaskToken.renew(client.channel(Role.JOB_MANAGER));
    }
  }

  private void agentEnvironment(File authorities, String auth) {
    if (authorities != null) {
      agentTls(authorities);
    }
    if (!auth.isEmpty()) {
      Auth read = Auth.read("agentAuth", Path.of(auth));
      if (!read.token.isEmpty()) {
        throw PelotonException.invalid("agentAuth", auth, "one with username and password");
      }
      agentBasic(read.username, read.password);
    }
  }

  /** Returns a client. It connects when it is first used. */
  public PelotonClient build() {
    return new PelotonClient(this);
  }

  AgentAccess agents() {
    return agents;
  }

  Duration timeout() {
    return timeout;
  }

  ManagedChannelBuilder<?> channel(String address) {
    return channels.apply(address);
  }

  private ManagedChannelBuilder<?> nettyChannel(String address) {
    return NettyChannelBuilder.forTarget("dns:///" + address, credentials)
        // A connection without answers, such as one to a frozen daemon, is given up after 15 s.
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .disableServiceConfigLookUp()
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        // Daemons are not behind the web proxy that the environment may name.
        .proxyDetector(to -> null);
  }

  /** Adds who calls. */
  void identify(Metadata headers) {
    headers.put(CALLER, caller);
    headers.put(ENCODING, "proto");
    headers.put(CLIENT_VERSION, VERSION);
    headers.put(ANSWER_BYTES, Integer.toString(MAX_MESSAGE_BYTES));
    if (!username.isEmpty()) {
      headers.put(USERNAME, username);
      headers.put(PASSWORD, password);
    }
    if (token != null) {
      headers.put(AUTHORIZATION, "Bearer " + token.get());
    }
  }

  /** Finds leaders otherwise, for tests. */
  ClientBuilder leaders(Function<Role, Leaders> other) {
    found = other;
    return this;
  }

  /** Returns what finds the leader of each role. */
  Map<Role, Leaders> leaders() {
    if (found != null) {
      Map<Role, Leaders> given = new EnumMap<>(Role.class);
      for (Role role : Role.values()) {
        given.put(role, found.apply(role));
      }
      return given;
    }
    String servers = servers();
    Leaders elected =
        servers.isEmpty()
            ? null
            : new Leaders.Elected(servers, zooKeeperRoot, mesosCluster, zooKeeperTls.get());
    Map<Role, Leaders> found = new EnumMap<>(Role.class);
    for (Role role : Role.values()) {
      String address = addresses.getOrDefault(role, "");
      if (address.isEmpty() && elected != null) {
        found.put(role, elected);
      } else {
        found.put(
            role, Leaders.Given.parse(role, address.isEmpty() ? role.defaultAddress() : address));
      }
    }
    return found;
  }

  private String servers() {
    if (!zooKeeper.isEmpty() || cluster.isEmpty()) {
      return zooKeeper;
    }
    List<String> known = new ArrayList<>();
    for (Path file : clusterFiles) {
      for (Cluster each : clusters(file)) {
        if (each.clusterName.equals(cluster)) {
          return each.zkURL;
        }
        known.add(each.clusterName);
      }
    }
    throw PelotonException.invalid(
        "cluster", cluster, "in " + clusterFiles + "; clusters known there: " + known);
  }

  private record Cluster(String clusterName, String zkURL) {}

  private record Clusters(List<Cluster> clusters) {}

  private static List<Cluster> clusters(Path file) {
    String expected = "{\"clusters\": [{\"clusterName\": …, \"zkURL\": …}]}";
    Clusters content;
    try {
      content = new Gson().fromJson(Files.readString(file), Clusters.class);
    } catch (NoSuchFileException e) {
      return List.of();
    } catch (IOException | JsonParseException e) {
      throw PelotonException.invalid("clusters.json", file, expected + ": " + e);
    }
    if (content == null || content.clusters == null) {
      throw PelotonException.invalid("clusters.json", file, expected);
    }
    for (Cluster each : content.clusters) {
      if (each.clusterName == null || each.zkURL == null) {
        throw PelotonException.invalid("clusters.json", file, expected + ": " + each);
      }
    }
    return content.clusters;
  }

  private static File file(String name) {
    return name.isEmpty() ? null : new File(name);
  }

  private static Duration duration(String name, String text) {
    Matcher match = DURATION.matcher(text);
    long millis =
        match.matches()
            ? Math.round(Double.parseDouble(match.group(1)) * MILLIS.get(match.group(2)))
            : 0;
    if (millis == 0) {
      throw PelotonException.invalid(name, text, "a duration such as 20s");
    }
    return Duration.ofMillis(millis);
  }

  /** Username and password, or a token, of a YAML file. */
  private record Auth(String username, String password, String token) {
    static Auth read(String setting, Path file) {
      String expected = "a YAML mapping with username and password, or token";
      Object content;
      try {
        content = new Yaml(new SafeConstructor(new LoaderOptions())).load(Files.readString(file));
      } catch (IOException | YAMLException e) {
        throw PelotonException.invalid(setting, file, expected + ": " + e);
      }
      Map<?, ?> given = content instanceof Map<?, ?> map ? map : Map.of();
      Function<String, String> get = key -> Objects.toString(given.get(key), "");
      Auth found = new Auth(get.apply("username"), get.apply("password"), get.apply("token"));
      if (found.token.isEmpty() && (found.username.isEmpty() || found.password.isEmpty())) {
        throw PelotonException.invalid(setting, file, expected);
      }
      return found;
    }
  }
}
