package peloton.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** Which calls may be made again though they may have been carried out, by the table calls.json. */
public final class Calls {
  private static final Map<String, String> RULES = read();
  private static final long FIRST_PAUSE_MILLIS = 100;
  private static final long LONGEST_PAUSE_MILLIS = 1000;

  private Calls() {}

  private static Map<String, String> read() {
    try (InputStream text = Calls.class.getResourceAsStream("calls.json")) {
      return new Yaml(new SafeConstructor(new LoaderOptions())).load(text);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Returns whether the second time changes nothing. */
  public static boolean repeatable(String method, Object request) {
    String rule = RULES.getOrDefault(method, "never");
    if (rule.equals("always")) {
      return true;
    }
    if (!(request instanceof Message message)) {
      return false;
    }
    FieldDescriptor field = message.getDescriptorForType().findFieldByName(rule);
    if (field == null || !message.hasField(field)) {
      return false;
    }
    Message inner = (Message) message.getField(field);
    FieldDescriptor value = inner.getDescriptorForType().findFieldByName("value");
    return value != null && !inner.getField(value).toString().isEmpty();
  }

  /** Returns the pause before a try, counted from 1: they double, each drawn from the upper half. */
  static long pauseMillis(int tries) {
    long longest = Math.min(FIRST_PAUSE_MILLIS << Math.min(tries - 1, 10), LONGEST_PAUSE_MILLIS);
    return longest / 2 + ThreadLocalRandom.current().nextLong(longest / 2);
  }
}
