package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class TaskTokenTest {
  private static final String OLD = "peloton-task.x.1000.y";
  private static final String NEW = "peloton-task.x.3000.z";

  private volatile long now;
  private volatile boolean fails;
  private final List<String> shown = new CopyOnWriteArrayList<>();

  private TaskToken token(String read) {
    return new TaskToken(read, this::renewed, () -> Instant.ofEpochSecond(now));
  }

  private String renewed(String old) {
    shown.add(old);
    if (fails) {
      throw PelotonException.invalid("leader", "", "there");
    }
    return NEW;
  }

  private void await(TaskToken token, int calls, String expected) throws InterruptedException {
    while (shown.size() < calls || token.isRenewing() || !token.get().equals(expected)) {
      Thread.sleep(10);
    }
    assertEquals(calls, shown.size());
  }

  @Test
  @Timeout(60)
  void itIsRenewedWhenHalfOfItsTimeIsOver() throws InterruptedException {
    TaskToken token = token(OLD);
    now = 499;
    await(token, 0, OLD);
    fails = true;
    now = 501;
    assertEquals(OLD, token.get());
    await(token, 1, OLD);
    fails = false;
    now = 522;
    token.get();
    await(token, 2, NEW);
    now = 1700;
    await(token, 2, NEW);
    assertEquals(List.of(OLD, OLD), shown);
  }

  @Test
  void oneThatHasExpiredIsRenewedAtOnce() {
    now = 2000;
    assertEquals(NEW, token(OLD).get());
  }

  @Test
  void whatIsNoTokenIsRefusedAndNotShown() {
    var thrown =
        assertThrows(PelotonException.InvalidArgument.class, () -> token("peloton-task.secret"));
    assertTrue(!thrown.getMessage().contains("secret"), thrown.getMessage());
  }
}
