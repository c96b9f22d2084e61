package peloton.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.io.StringReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.yaml.snakeyaml.DumperOptions.ScalarStyle;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;
import org.yaml.snakeyaml.error.YAMLException;
import org.yaml.snakeyaml.nodes.MappingNode;
import org.yaml.snakeyaml.nodes.Node;
import org.yaml.snakeyaml.nodes.NodeTuple;
import org.yaml.snakeyaml.nodes.ScalarNode;
import org.yaml.snakeyaml.nodes.SequenceNode;
import org.yaml.snakeyaml.nodes.Tag;

/**
 * Reads messages from YAML, as the command line does: keys are matched without case and
 * underscores, enums by name or number, also without the prefix that their values share. A failure
 * names source, line and field.
 */
public final class Specs {
  private static final int MOST_DEPTH = 100;
  private static final BigDecimal MOST_FLOAT = BigDecimal.valueOf(1L << 53);

  private final String source;

  private Specs(String source) {
    this.source = source;
  }

  /** Sets the fields of a message from a YAML file. */
  public static <B extends Message.Builder> B read(Path file, B message) {
    try {
      return parse(Files.readString(file), file.toString(), message);
    } catch (IOException e) {
      throw PelotonException.invalid("spec", file, "a readable file in UTF-8: " + e);
    }
  }

  /** Sets the fields of a message from YAML. */
  public static <B extends Message.Builder> B parse(String text, String source, B message) {
    Node document;
    try {
      Yaml yaml = new Yaml(new SafeConstructor(new LoaderOptions()));
      document = yaml.compose(new StringReader(text));
    } catch (YAMLException e) {
      throw PelotonException.invalid("spec", source, "YAML: " + e.getMessage());
    }
    if (document == null) {
      throw PelotonException.invalid("spec", source, "a mapping: the file is empty");
    }
    new Specs(source).fill(message, document, "", 0);
    return message;
  }

  private PelotonException fail(Node node, String path, String expected) {
    String value =
        node instanceof ScalarNode scalar
            ? scalar.getValue()
            : node instanceof SequenceNode ? "a list" : "a mapping";
    String place = source + ":" + (node.getStartMark().getLine() + 1) + ": ";
    return PelotonException.invalid(place, path, value, expected);
  }

  private MappingNode mapping(Node node, String path) {
    if (node instanceof MappingNode mapping) {
      return mapping;
    }
    throw fail(node, path, "a mapping: `key: value` lines");
  }

  private void fill(Message.Builder message, Node node, String path, int depth) {
    if (depth > MOST_DEPTH) {
      throw fail(node, path, "nested less deeply");
    }
    Map<String, FieldDescriptor> known = new HashMap<>();
    Descriptor type = message.getDescriptorForType();
    type.getFields().forEach(field -> known.put(normalized(field.getName()), field));
    for (NodeTuple pair : mapping(node, path).getValue()) {
      String key = scalar(pair.getKeyNode(), path).getValue();
      String inner = path.isEmpty() ? key : path + "." + key;
      FieldDescriptor field = known.get(normalized(key));
      if (field == null) {
        throw fail(pair.getKeyNode(), inner, "a field of " + type.getName());
      }
      if (isSet(message, field)) {
        throw fail(pair.getKeyNode(), inner, "given once, without another choice beside it");
      }
      if (!pair.getValueNode().getTag().equals(Tag.NULL)) {
        set(message, field, pair.getValueNode(), inner, depth);
      }
    }
  }

  private static boolean isSet(Message.Builder message, FieldDescriptor field) {
    if (field.isRepeated()) {
      return message.getRepeatedFieldCount(field) > 0;
    }
    return field.getContainingOneof() != null
        ? message.hasOneof(field.getContainingOneof())
        : message.getAllFields().containsKey(field);
  }

  private void set(
      Message.Builder message, FieldDescriptor field, Node node, String path, int depth) {
    if (field.isMapField()) {
      setMap(message, field, node, path, depth);
    } else if (field.isRepeated()) {
      if (!(node instanceof SequenceNode list)) {
        throw fail(node, path, "a list: each entry on a line of its own, with `- ` before it");
      }
      int number = 0;
      for (Node item : list.getValue()) {
        String inner = path + "[" + number++ + "]";
        message.addRepeatedField(field, value(message, field, item, inner, depth));
      }
    } else {
      message.setField(field, value(message, field, node, path, depth));
    }
  }

  private void setMap(
      Message.Builder message, FieldDescriptor field, Node node, String path, int depth) {
    FieldDescriptor key = field.getMessageType().findFieldByName("key");
    FieldDescriptor value = field.getMessageType().findFieldByName("value");
    for (NodeTuple pair : mapping(node, path).getValue()) {
      String inner = path + "." + scalar(pair.getKeyNode(), path).getValue();
      Message.Builder entry = message.newBuilderForField(field);
      entry.setField(key, value(entry, key, pair.getKeyNode(), inner, depth));
      entry.setField(value, value(entry, value, pair.getValueNode(), inner, depth));
      message.addRepeatedField(field, entry.build());
    }
  }

  private Object value(
      Message.Builder message, FieldDescriptor field, Node node, String path, int depth) {
    if (field.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
      if (field.getMessageType().equals(Timestamp.getDescriptor())) {
        return time(scalar(node, path), path);
      }
      Message.Builder inner = message.newBuilderForField(field);
      fill(inner, node, path, depth + 1);
      return inner.build();
    }
    ScalarNode scalar = scalar(node, path);
    return switch (field.getJavaType()) {
      case STRING -> scalar.getValue();
      case BYTE_STRING -> bytes(scalar, path);
      case BOOLEAN -> bool(scalar, path);
      case ENUM -> enumValue(field.getEnumType(), scalar, path);
      case DOUBLE -> number(scalar, path);
      case FLOAT -> (float) number(scalar, path);
      case INT -> integer(scalar, path, isUnsigned(field) ? 32 : 31).intValue();
      case LONG -> integer(scalar, path, isUnsigned(field) ? 64 : 63).longValue();
      default -> throw fail(node, path, "of a known kind");
    };
  }

  private Timestamp time(ScalarNode node, String path) {
    try {
      Instant time = Instant.parse(node.getValue());
      return Timestamp.newBuilder()
          .setSeconds(time.getEpochSecond())
          .setNanos(time.getNano())
          .build();
    } catch (DateTimeParseException e) {
      throw fail(node, path, "a time such as 2026-01-31T12:00:00Z");
    }
  }

  private ScalarNode scalar(Node node, String path) {
    if (node instanceof ScalarNode scalar) {
      return scalar;
    }
    throw fail(node, path, "a single value");
  }

  private boolean bool(ScalarNode node, String path) {
    boolean plain = node.getScalarStyle() == ScalarStyle.PLAIN;
    return switch (plain ? node.getValue().toLowerCase(Locale.ROOT) : "") {
      case "true", "yes", "on" -> true;
      case "false", "no", "off" -> false;
      default -> throw fail(node, path, "true or false");
    };
  }

  private ByteString bytes(ScalarNode node, String path) {
    if (!node.getTag().equals(Tag.BINARY)) {
      return ByteString.copyFromUtf8(node.getValue());
    }
    try {
      String text = node.getValue().replaceAll("\\s+", "");
      return ByteString.copyFrom(Base64.getDecoder().decode(text));
    } catch (IllegalArgumentException e) {
      throw fail(node, path, "base64");
    }
  }

  private double number(ScalarNode node, String path) {
    try {
      double value = Double.parseDouble(node.getValue());
      if (value >= 0 && !Double.isInfinite(value)) {
        return value;
      }
    } catch (NumberFormatException e) {
      // told below, with the value
    }
    throw fail(node, path, "a number of 0 or more");
  }

  private static boolean isUnsigned(FieldDescriptor field) {
    return switch (field.getType()) {
      case UINT32, UINT64, FIXED32, FIXED64 -> true;
      default -> false;
    };
  }

  private BigInteger integer(ScalarNode node, String path, int bits) {
    try {
      BigInteger value = whole(node.getValue());
      if (value.signum() >= 0 && value.bitLength() <= bits) {
        return value;
      }
    } catch (NumberFormatException | ArithmeticException e) {
      // told below, with the value
    }
    BigInteger most = BigInteger.ONE.shiftLeft(bits).subtract(BigInteger.ONE);
    throw fail(node, path, "a whole number from 0 to " + most);
  }

  /** Returns what 42, 0x2a, 0o52, 0b101010, 1_000, 1e3 and 4.0 say. */
  private static BigInteger whole(String text) {
    String digits = text.toLowerCase(Locale.ROOT).replace("_", "");
    if (digits.startsWith("0x")) {
      return new BigInteger(digits.substring(2), 16);
    }
    if (digits.startsWith("0b")) {
      return new BigInteger(digits.substring(2), 2);
    }
    if (digits.matches("0o?[0-7]+")) {
      return new BigInteger(digits.replaceFirst("0o?", ""), 8);
    }
    if (digits.matches("\\d+")) {
      return new BigInteger(digits);
    }
    BigDecimal value = new BigDecimal(digits);
    if (value.compareTo(MOST_FLOAT) >= 0) {
      throw new ArithmeticException("not exact");
    }
    return value.toBigIntegerExact();
  }

  private EnumValueDescriptor enumValue(EnumDescriptor type, ScalarNode node, String path) {
    List<String> names = type.getValues().stream().map(EnumValueDescriptor::getName).toList();
    int prefix = sharedPrefix(names);
    String given = normalized(node.getValue());
    for (EnumValueDescriptor each : type.getValues()) {
      String name = each.getName();
      if (given.equals(normalized(name))
          || given.equals(normalized(name.substring(prefix)))
          || given.equals(Integer.toString(each.getNumber()))) {
        return each;
      }
    }
    throw fail(node, path, "one of " + names.stream().collect(Collectors.joining(", ")));
  }

  /** Returns the length of the words that all names begin with: STATE_ in STATE_UP, STATE_DOWN. */
  private static int sharedPrefix(List<String> names) {
    if (names.size() < 2) {
      return 0;
    }
    String prefix = names.get(0);
    for (String name : names) {
      while (!name.startsWith(prefix)) {
        prefix = prefix.substring(0, prefix.length() - 1);
      }
    }
    return prefix.lastIndexOf('_') + 1;
  }

  private static String normalized(String name) {
    return name.replace("_", "").toLowerCase(Locale.ROOT);
  }
}
