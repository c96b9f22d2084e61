package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobManagerGrpc;

/** How daemons are found, and connections over TCP and TLS. */
@Timeout(60)
class ConnectTest {
  private static final String WORD = "changeit";

  @TempDir Path folder;

  private static final class Jobs extends JobManagerGrpc.JobManagerImplBase {
    @Override
    public void get(GetRequest request, StreamObserver<GetResponse> to) {
      JobConfig config = JobConfig.newBuilder().setName(request.getId().getValue()).build();
      to.onNext(
          GetResponse.newBuilder().setJobInfo(JobInfo.newBuilder().setConfig(config)).build());
      to.onCompleted();
    }
  }

  private static Server serve(ServerCredentials credentials) throws IOException {
    return Grpc.newServerBuilderForPort(0, credentials)
        .addService(new Jobs())
        .maxInboundMessageSize(ClientBuilder.MAX_MESSAGE_BYTES)
        .build()
        .start();
  }

  /** Makes a certificate for localhost, signed by itself, with its key. */
  private KeyStore keys(String name) throws Exception {
    Path file = folder.resolve(name + ".p12");
    String text =
        "-genkeypair -alias own -keyalg RSA -keysize 2048 -validity 2 -dname CN=%s"
            + " -ext san=dns:localhost -storetype PKCS12 -storepass %s -keystore %s";
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
    command.addAll(List.of(text.formatted(name, WORD, file).split(" ", -1)));
    Process made = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(made.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, made.waitFor(), output);
    return KeyStore.getInstance(file.toFile(), WORD.toCharArray());
  }

  /** Makes PEM files of a certificate for localhost, signed by itself, and of its key. */
  private File[] certificate(String name) throws Exception {
    KeyStore made = keys(name);
    byte[] certificate = made.getCertificate("own").getEncoded();
    byte[] key = made.getKey("own", WORD.toCharArray()).getEncoded();
    return new File[] {
      pem(name + ".pem", "CERTIFICATE", certificate), pem(name + ".key", "PRIVATE KEY", key)
    };
  }

  private File pem(String name, String kind, byte[] content) throws IOException {
    String text = Base64.getMimeEncoder().encodeToString(content);
    String marked = "-----BEGIN %s-----\n%s\n-----END %s-----\n".formatted(kind, text, kind);
    return Files.writeString(folder.resolve(name), marked).toFile();
  }

  /** Accepts TLS connections, and ends each after the handshake, without a word. */
  private static final class Ending implements AutoCloseable {
    private final SSLServerSocket socket;
    private final Thread thread = new Thread(this::serve);

    Ending(KeyStore keys) throws Exception {
      KeyManagerFactory managers =
          KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
      managers.init(keys, WORD.toCharArray());
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(managers.getKeyManagers(), null, null);
      socket = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0);
      SSLParameters http2 = socket.getSSLParameters();
      http2.setApplicationProtocols(new String[] {"h2"});
      socket.setSSLParameters(http2);
      thread.start();
    }

    private void serve() {
      while (!socket.isClosed()) {
        try (SSLSocket connection = (SSLSocket) socket.accept()) {
          connection.startHandshake();
        } catch (IOException e) {
          // its own end, or that of a client: the tests look at what clients are told
        }
      }
    }

    @Override
    public void close() throws IOException, InterruptedException {
      socket.close();
      thread.join();
    }
  }

  private static ClientBuilder to(int port) {
    return PelotonClient.builder("tests")
        .timeout(Duration.ofSeconds(20))
        .address(Role.JOB_MANAGER, "localhost:" + port);
  }

  private static void call(ClientBuilder config) {
    try (PelotonClient client = config.build()) {
      client.jobs().get("1");
    }
  }

  @Test
  void certificatesOfBothSidesAreChecked() throws Exception {
    File[] own = certificate("server");
    File[] other = certificate("other");
    ServerCredentials mutual =
        TlsServerCredentials.newBuilder()
            .keyManager(own[0], own[1])
            .trustManager(other[0])
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
            .build();
    Server server = serve(mutual);
    try {
      call(to(server.getPort()).tls(own[0], other[0], other[1]));
      for (ClientBuilder wrong :
          List.of(
              to(server.getPort()).tls(other[0], other[0], other[1]),
              to(server.getPort()).tls(own[0], own[0], own[1]))) {
        assertThrows(PelotonException.Unauthenticated.class, () -> call(wrong));
      }
    } finally {
      server.shutdownNow();
    }
  }

  /** In TLS 1.3 the client's handshake is over before the server looks at its certificate. */
  @Test
  void aServerThatEndsConnectionsAfterTheHandshakeRefusesTheCertificate() throws Exception {
    KeyStore keys = keys("server");
    File own = pem("own.pem", "CERTIFICATE", keys.getCertificate("own").getEncoded());
    try (Ending server = new Ending(keys);
        PelotonClient client = to(server.socket.getLocalPort()).tls(own, null, null).build()) {
      for (int call = 0; call < 2; call++) {
        var refused =
            assertThrows(PelotonException.Unauthenticated.class, () -> client.jobs().get("1"));
        assertTrue(refused.reason().contains("refuses the client's certificate"));
      }
    }
  }

  @Test
  void aServerWithTlsThatEndsIsUnavailable() throws Exception {
    File[] own = certificate("server");
    Server server = serve(TlsServerCredentials.create(own[0], own[1]));
    try (PelotonClient client =
        to(server.getPort()).tls(own[0], null, null).build()) {
      client.jobs().get("1");
      server.shutdownNow().awaitTermination();
      var stub =
          client.stub(JobManagerGrpc::newBlockingStub).withDeadlineAfter(3, TimeUnit.SECONDS);
      var thrown =
          assertThrows(RuntimeException.class, () -> stub.get(GetRequest.getDefaultInstance()));
      var failure = PelotonException.of(thrown);
      assertTrue(peloton.client.Jobs.isPassing(failure), failure.toString());
    } finally {
      server.shutdownNow();
    }
  }

  @Test
  void aHandshakeThatTimesOutMayPass() {
    Status late = Status.UNAVAILABLE.withCause(new SSLHandshakeException("handshake timed out"));
    assertEquals(Status.Code.UNAVAILABLE, PelotonException.judged(late).getCode());
    Status refused = Status.UNAVAILABLE.withCause(new SSLHandshakeException("unknown authority"));
    assertEquals(Status.Code.UNAUTHENTICATED, PelotonException.judged(refused).getCode());
  }

  @Test
  void aCertificateIsGivenWithItsKey() throws Exception {
    File[] own = certificate("own");
    ClientBuilder config = PelotonClient.builder("tests");
    assertThrows(PelotonException.InvalidArgument.class, () -> config.tls(null, own[0], null));
    assertThrows(PelotonException.InvalidArgument.class, () -> config.tls(own[1], null, null));
    assertThrows(PelotonException.InvalidArgument.class, () -> config.tls(null, own[0], own[0]));
  }

  @Test
  void anAddressWithoutADaemonIsUnavailable() throws IOException {
    int port;
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = socket.getLocalPort();
    }
    ClientBuilder config = to(port).timeout(Duration.ofSeconds(5));
    FakeServer.assertPassing(() -> call(config));
  }

  @Test
  void messagesMayBeLarge() throws IOException {
    String large = "x".repeat(20 << 20);
    Server server = serve(InsecureServerCredentials.create());
    try (PelotonClient client = to(server.getPort()).build()) {
      assertEquals(large, client.jobs().get(large).getConfig().getName());
    } finally {
      server.shutdownNow();
    }
  }

  @Test
  void aPortThatIsSilentExceedsTheDeadline() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      ClientBuilder config = to(socket.getLocalPort()).timeout(Duration.ofSeconds(1));
      assertThrows(PelotonException.DeadlineExceeded.class, () -> call(config));
    }
  }

  @Test
  void addressesAreChecked() {
    for (String wrong : List.of("host", "host:", "host:0", "host:65536", ":1", "a:1,,b:1")) {
      ClientBuilder config = PelotonClient.builder("tests").address(Role.HOST_MANAGER, wrong);
      assertThrows(PelotonException.InvalidArgument.class, config::build, wrong);
      ClientBuilder elected = PelotonClient.builder("tests").zooKeeper(wrong);
      assertThrows(PelotonException.InvalidArgument.class, elected::build, wrong);
    }
    assertEquals(
        List.of("a:1", "[::1]:2"),
        Leaders.Given.parse(Role.JOB_MANAGER, "grpc://a:1/, [::1]:2").addresses());
  }

  @Test
  void leadersAreWhereTheirElectionsSay() {
    var elected = new Leaders.Elected("zk://a:1,b:2/deep", "/peloton/", "", null);
    assertEquals("/deep/peloton/jobmanager/leader", elected.node(Role.JOB_MANAGER));
    var named = new Leaders.Elected("a:1", "/peloton", "m1", null);
    assertEquals("/peloton/hostmanager/clusters/m1/leader", named.node(Role.HOST_MANAGER));
    byte[] leader = "{\"ip\": \"10.0.0.1\", \"grpc\": 5392}".getBytes(StandardCharsets.UTF_8);
    assertEquals("10.0.0.1:5392", Leaders.Elected.parse("node", leader));
    byte[] wrong = "nobody".getBytes(StandardCharsets.UTF_8);
    assertThrows(
        PelotonException.InvalidArgument.class, () -> Leaders.Elected.parse("node", wrong));
  }

  @Test
  void aClusterIsFoundByItsName() throws IOException {
    Path file = folder.resolve("clusters.json");
    Files.writeString(file, "{\"clusters\": [{\"clusterName\": \"one\", \"zkURL\": \"a:1\"}]}");
    List<Path> files = List.of(folder.resolve("missing.json"), file);
    ClientBuilder config = PelotonClient.builder("tests").clusterFiles(files);
    var found = config.cluster("one").leaders().get(Role.JOB_MANAGER);
    assertTrue(found instanceof Leaders.Elected);
    var failure =
        assertThrows(PelotonException.InvalidArgument.class, config.cluster("two")::build);
    assertTrue(failure.getMessage().contains("[one]"), failure.getMessage());
    Files.writeString(file, "{");
    assertThrows(PelotonException.InvalidArgument.class, config.cluster("one")::build);
  }

  @Test
  void theVariablesOfTheCommandLineAreRead() throws IOException {
    Path auth = Files.writeString(folder.resolve("auth.yaml"), "{username: me, password: word}");
    ClientBuilder config =
        PelotonClient.builder("tests")
            .environment(
                Map.of(
                    "JOBMGR_URL", "a:1",
                    "ZK_SERVERS", "z:1 z:2",
                    "TIMEOUT", "1.5s",
                    "BASIC_AUTH_CONFIG", auth.toString(),
                    "PELOTON_TOKEN", "secret"));
    assertEquals(new Leaders.Given(List.of("a:1")), config.leaders().get(Role.JOB_MANAGER));
    assertTrue(config.leaders().get(Role.HOST_MANAGER) instanceof Leaders.Elected);
    assertEquals(Duration.ofMillis(1500), config.timeout());
    var headers = new io.grpc.Metadata();
    config.identify(headers);
    assertEquals("me", headers.get(ClientBuilder.USERNAME));
    assertEquals("Bearer secret", headers.get(ClientBuilder.AUTHORIZATION));
    assertThrows(
        PelotonException.InvalidArgument.class,
        () -> PelotonClient.builder("tests").environment(Map.of("TIMEOUT", "soon")));
  }

  @Test
  void theTokenOfATaskIsRead() throws IOException {
    Files.writeString(folder.resolve("token"), "peloton-task.x.32503680000.y\n");
    Map<String, String> variables =
        Map.of(
            "JOBMGR_URL", "a:1",
            "MESOS_SANDBOX", folder.toString(),
            "PELOTON_TOKEN_FILE", "token");
    var headers = new io.grpc.Metadata();
    PelotonClient.builder("tests").environment(variables).identify(headers);
    assertEquals("Bearer peloton-task.x.32503680000.y", headers.get(ClientBuilder.AUTHORIZATION));
    Map<String, String> missing = new java.util.HashMap<>(variables);
    missing.put("PELOTON_TOKEN_FILE", "missing");
    assertThrows(
        PelotonException.InvalidArgument.class,
        () -> PelotonClient.builder("tests").environment(missing));
  }
}
