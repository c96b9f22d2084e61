package peloton.client;

import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Which calls are made again, and after which pauses. */
final class Calls {
  private static final Map<String, String> RULES = read();
  private static final long FIRST_PAUSE = Duration.ofMillis(100).toNanos();
  private static final long LONGEST_PAUSE = Duration.ofMillis(500).toNanos();

  private Calls() {}

  private static Map<String, String> read() {
    try (InputStream file = Calls.class.getResourceAsStream("calls.json");
        InputStreamReader text = new InputStreamReader(file, StandardCharsets.UTF_8)) {
      return new Gson().fromJson(text, new TypeToken<Map<String, String>>() {}.getType());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Returns whether a call that may have been carried out may be made again: the second time
   * changes nothing, since it reads, requests an end state, or names the job or the entity version.
   */
  static boolean repeatable(String method, Object request) {
    String rule = RULES.getOrDefault(method, "never");
    if (rule.equals("always")) {
      return true;
    }
    if (rule.equals("never") || !(request instanceof Message message)) {
      return false;
    }
    FieldDescriptor field = message.getDescriptorForType().findFieldByName(rule);
    if (field == null || !message.hasField(field)) {
      return false;
    }
    Message inner = (Message) message.getField(field);
    FieldDescriptor value = inner.getDescriptorForType().findFieldByName("value");
    return value != null && !String.valueOf(inner.getField(value)).isEmpty();
  }

  /** Returns the pause after one (0: none): it doubles, and is drawn from the upper half. */
  static final class Pauses {
    private long last;

    long next() {
      last = Math.min(Math.max(2 * last, FIRST_PAUSE), LONGEST_PAUSE);
      return last / 2 + ThreadLocalRandom.current().nextLong(last / 2);
    }

    /** Makes the next pause. An interrupt ends it with an exception. */
    void pause() {
      try {
        TimeUnit.NANOSECONDS.sleep(next());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw PelotonException.failure(Status.Code.CANCELLED, "interrupted", e);
      }
    }
  }
}
