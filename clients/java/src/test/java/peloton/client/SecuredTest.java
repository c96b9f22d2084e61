package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import peloton.api.v0.job.JobConfig;

/**
 * Needs a cluster that asks who calls: the job manager for certificates and bearer tokens, the
 * resource manager for certificates and passwords, the agents for passwords. The environment has
 * what is right, and in PELOTON_TEST_JOB a job that has written hello. PELOTON_TEST_STRANGERS is a
 * folder with certificates of another authority, and tokens that are wrong.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_TEST_STRANGERS", matches = ".+")
@Timeout(120)
class SecuredTest {
  private static final String MISSING = "00000000-0000-4000-8000-000000000000";

  private static void lookUpJob(PelotonClient client) {
    client.jobs().get(MISSING);
  }

  private static void lookUpPool(PelotonClient client) {
    assertFalse(client.jobs().poolId("/").isEmpty());
  }

  private static void create(PelotonClient client) {
    client.jobs().create("", JobConfig.newBuilder().setName("denied").build());
  }

  private static void watch(PelotonClient client) {
    try (var watch = client.services().watch()) {
      assertTrue(watch.hasNext());
    }
  }

  private static void readLog(PelotonClient client) {
    readLog(client, false);
  }

  private static void followLog(PelotonClient client) {
    readLog(client, true);
  }

  private static void readLog(PelotonClient client, boolean follow) {
    try (InputStream log =
        client.jobs().logs(System.getenv("PELOTON_TEST_JOB"), 0, "stdout", "", follow)) {
      assertEquals("hello\n", new String(log.readAllBytes(), StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static File file(String variable) {
    return new File(System.getenv(variable));
  }

  private static File strangers(String name) {
    return file("PELOTON_TEST_STRANGERS").toPath().resolve(name).toFile();
  }

  private static Consumer<ClientBuilder> token(String name) {
    return config -> {
      try {
        String text = Files.readString(Path.of(strangers(name + ".token").getPath()));
        config.token(() -> text);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    };
  }

  private static Arguments one(
      String name, Consumer<PelotonClient> call, Class<? extends PelotonException> expected) {
    return one(name, config -> {}, call, expected);
  }

  private static Arguments one(
      String name,
      Consumer<ClientBuilder> change,
      Consumer<PelotonClient> call,
      Class<? extends PelotonException> expected) {
    return arguments(name, List.of(), change, call, expected);
  }

  private static Arguments without(
      String name,
      List<String> variables,
      Consumer<PelotonClient> call,
      Class<? extends PelotonException> expected) {
    Consumer<ClientBuilder> soon = config -> config.timeout(Duration.ofSeconds(5));
    return arguments(name, variables, soon, call, expected);
  }

  /** What is left out of the environment, what is set otherwise, a call, and how that ends. */
  static Stream<Arguments> cases() {
    var unknown = PelotonException.Unauthenticated.class;
    var denied = PelotonException.PermissionDenied.class;
    var missing = PelotonException.NotFound.class;
    var unavailable = PelotonException.Unavailable.class;
    File ca = file("PELOTON_CA_FILE");
    File certificate = file("PELOTON_CERT_FILE");
    File key = file("PELOTON_KEY_FILE");
    Consumer<ClientBuilder> stranger =
        config -> config.tls(ca, strangers("stranger.crt"), strangers("stranger.key"));
    Consumer<ClientBuilder> another = config -> config.tls(strangers("ca.crt"), certificate, key);
    Consumer<ClientBuilder> anotherAgent = config -> config.agentTls(strangers("ca.crt"));
    Consumer<ClientBuilder> wrongSecret = config -> config.agentBasic("peloton", "wrong");
    List<String> pair = List.of("PELOTON_CERT_FILE", "PELOTON_KEY_FILE");
    List<String> tls = List.of("PELOTON_CA_FILE", "PELOTON_CERT_FILE", "PELOTON_KEY_FILE");
    return Stream.of(
        one("right token", SecuredTest::lookUpJob, missing),
        one("right token of a watch", SecuredTest::watch, null),
        one("right password", SecuredTest::lookUpPool, null),
        one("forged token", token("forged"), SecuredTest::lookUpJob, unknown),
        one("expired token", token("expired"), SecuredTest::lookUpJob, unknown),
        one("token for another", token("elsewhere"), SecuredTest::lookUpJob, unknown),
        one("garbage for a token", token("garbage"), SecuredTest::lookUpJob, unknown),
        without("no token", List.of("PELOTON_TOKEN"), SecuredTest::lookUpJob, unknown),
        one("forged token of a watch", token("forged"), SecuredTest::watch, unknown),
        one("a reader's token", token("reader"), SecuredTest::lookUpJob, missing),
        one("a reader creates", token("reader"), SecuredTest::create, denied),
        one(
            "wrong password",
            config -> config.basic("admin", "wrong"),
            SecuredTest::lookUpPool,
            unknown),
        without("no password", List.of("BASIC_AUTH_CONFIG"), SecuredTest::lookUpPool, unknown),
        without("no certificate", pair, SecuredTest::lookUpJob, unknown),
        one("a stranger's certificate", stranger, SecuredTest::lookUpJob, unknown),
        one("a stranger's certificate of a watch", stranger, SecuredTest::watch, unknown),
        one("another authority", another, SecuredTest::lookUpJob, unknown),
        without("no TLS", tls, SecuredTest::lookUpJob, unavailable),
        one("output of an agent", SecuredTest::readLog, null),
        one("output that is followed", SecuredTest::followLog, null),
        one("an agent of another authority", anotherAgent, SecuredTest::readLog, unknown),
        one("wrong secret of agents", wrongSecret, SecuredTest::readLog, unknown),
        without(
            "no secret of agents", List.of("PELOTON_AGENT_AUTH"), SecuredTest::followLog, unknown));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("cases")
  void whoCallsIsAsked(
      String name,
      List<String> without,
      Consumer<ClientBuilder> change,
      Consumer<PelotonClient> call,
      Class<? extends PelotonException> expected) {
    Map<String, String> variables = new HashMap<>(System.getenv());
    variables.keySet().removeAll(without);
    ClientBuilder config = PelotonClient.builder("java-tests").environment(variables);
    change.accept(config);
    try (PelotonClient client = config.build()) {
      if (expected == null) {
        call.accept(client);
      } else if (expected == PelotonException.Unavailable.class) {
        FakeServer.assertPassing(() -> call.accept(client));
      } else {
        assertThrows(expected, () -> call.accept(client), name);
      }
    }
  }

  @Test
  void theTokenOfATaskIsRenewed() {
    ClientBuilder config = PelotonClient.builder("java-tests").environment(System.getenv());
    String token = config.renewed(System.getenv("PELOTON_TEST_TASK_TOKEN"));
    config.basic("", "").token(() -> token);
    try (PelotonClient client = config.build()) {
      client.jobs().get(System.getenv("PELOTON_TEST_TASK_JOB"));
      assertThrows(PelotonException.PermissionDenied.class, () -> lookUpJob(client));
    }
    assertThrows(
        PelotonException.Unauthenticated.class, () -> config.renewed("peloton-task.x.1000.y"));
  }
}
