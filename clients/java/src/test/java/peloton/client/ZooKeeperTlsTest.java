package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Needs a ZooKeeper that asks for certificates, by the environment, where PELOTON_TEST_LEADER is
 * the address of the resource manager that leads.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_TEST_LEADER", matches = ".+")
@Timeout(120)
class ZooKeeperTlsTest {
  private static String leader(Map<String, String> variables) {
    ClientBuilder config = PelotonClient.builder("java-tests").environment(variables);
    try (Leaders leaders = config.leaders().get(Role.RESOURCE_MANAGER)) {
      return leaders.address(Role.RESOURCE_MANAGER, "");
    }
  }

  @Test
  void aLeaderIsFoundByTls() {
    List<File> before = keys();
    assertEquals(System.getenv("PELOTON_TEST_LEADER"), leader(System.getenv()));
    assertEquals(before, keys());
  }

  /** Returns the files with keys that are left. */
  private static List<File> keys() {
    File folder = new File(System.getProperty("java.io.tmpdir"));
    return List.of(folder.listFiles((in, name) -> name.startsWith("peloton-client-")));
  }

  @ParameterizedTest
  @ValueSource(strings = {"PELOTON_CA_FILE", "PELOTON_CERT_FILE PELOTON_KEY_FILE", "ZK_TLS"})
  void withoutWhatIsRightNoneIsFound(String missing) {
    Map<String, String> variables = new HashMap<>(System.getenv());
    variables.keySet().removeAll(List.of(missing.split(" ", -1)));
    assertThrows(PelotonException.Unavailable.class, () -> leader(variables));
  }
}
