package peloton.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class SettingsTest {
  @Test
  void mastersOfPeloton() {
    assertTrue(Master.matches("local://peloton://h:1"));
    assertTrue(Master.matches("peloton://h:1"));
    assertFalse(Master.matches("local[2]"));
    assertEquals(new Master("h:1,i:2", ""), Master.parse("local://peloton://h:1,i:2"));
    assertEquals(new Master("", "z:2181"), Master.parse("local://peloton://zk://z:2181"));
    assertEquals(new Master("", ""), Master.parse("local://peloton://"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"h", "h:x", "h:1,", "zk://", "zk://h", "h:1/path"})
  void mastersThatAreNone(String place) {
    String master = "local://peloton://" + place;
    String message =
        assertThrows(IllegalArgumentException.class, () -> Master.parse(master)).getMessage();
    assertTrue(message.startsWith("master: " + master + " is not local://peloton://HOST:PORT"));
  }

  @Test
  void wordsForTheShell() {
    assertEquals("-Dspark.driver.port=7", Shell.quoted("-Dspark.driver.port=7"));
    assertEquals("'it'\\''s $HOME'", Shell.quoted("it's $HOME"));
    assertEquals("''", Shell.quoted(""));
  }

  @Test
  void idsOfExecutors() {
    ExecutorIds ids = ExecutorIds.forMost(8);
    assertEquals("20003", ids.of(3, 2));
    assertEquals(3, ids.instance("20003"));
    assertEquals(2, ids.run("20003"));
    assertEquals("199999", ExecutorIds.forMost(Integer.MAX_VALUE).of(99_999, 1));
  }

  @Test
  void failuresCountForATimeAndNewExecutorsWait() {
    FailureCount failures = new FailureCount(3, 1_000_000);
    for (int each = 0; each < 3; each++) {
      failures.failed(each);
    }
    assertFalse(failures.areTooMany());
    assertEquals(500, failures.pauseMillis(3));
    assertEquals(0, failures.pauseMillis(70_000));
    failures.failed(4);
    assertTrue(failures.areTooMany());
    failures.failed(2_000_000);
    assertEquals(1, failures.count());
  }
}
