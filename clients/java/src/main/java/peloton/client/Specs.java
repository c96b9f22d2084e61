package peloton.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
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
 * Reads messages from YAML, as the command line does. Keys are matched without case and underscores, enums by name or
 * number, also without the prefix that their values share. A failure names source, line and field.
 */
public final class Specs {
  private static final int MOST_DEPTH = 100;
  private static final int UNSIGNED = 32;

  private final String source;

  private Specs(String source) {
    this.source = source;
  }

  /** Reads a file into a builder. */
  public static <B extends Message.Builder> B read(Path file, B into) {
    try {
      return parse(Files.readString(file), file.toString(), into);
    } catch (IOException error) {
      throw PelotonException.invalid("spec", file.toString(), "a readable file: " + error);
    }
  }

  /** Reads text into a builder; {@code source} names it in failures. */
  public static <B extends Message.Builder> B parse(String text, String source, B into) {
    Node document;
    try {
      document = new Yaml(new SafeConstructor(new LoaderOptions())).compose(new java.io.StringReader(text));
    } catch (YAMLException error) {
      throw PelotonException.invalid("spec", source, "YAML: " + error.getMessage());
    }
    if (document == null) {
      throw PelotonException.invalid("spec", source, "a mapping: the file is empty");
    }
    new Specs(source).fill(into, document, "", 0);
    return into;
  }

  private PelotonException wrong(Node node, String path, String expected) {
    String value = node instanceof ScalarNode scalar ? scalar.getValue() : node instanceof MappingNode ? "a mapping" : "a list";
    String where = source + ":" + (node.getStartMark().getLine() + 1);
    return PelotonException.invalid(where + ": " + path, value, expected);
  }

  private void fill(Message.Builder into, Node node, String path, int depth) {
    if (depth > MOST_DEPTH) {
      throw wrong(node, path, "nested less deeply");
    }
    for (NodeTuple entry : mapping(node, path)) {
      String key = ((ScalarNode) entry.getKeyNode()).getValue();
      String inner = path.isEmpty() ? key : path + "." + key;
      FieldDescriptor field = into.getDescriptorForType().getFields().stream()
          .filter(each -> normal(each.getName()).equals(normal(key))).findFirst()
          .orElseThrow(() -> wrong(entry.getKeyNode(), inner, "a field of " + into.getDescriptorForType().getName()));
      Node value = entry.getValueNode();
      boolean chosen = field.getContainingOneof() != null && into.hasOneof(field.getContainingOneof());
      if (chosen || (field.isRepeated() ? into.getRepeatedFieldCount(field) > 0 : field.hasPresence() && into.hasField(field))) {
        throw wrong(entry.getKeyNode(), inner, "given once, without another choice beside it");
      }
      if (!value.getTag().equals(Tag.NULL)) {
        set(into, field, value, inner, depth);
      }
    }
  }

  private List<NodeTuple> mapping(Node node, String path) {
    if (node instanceof MappingNode found) {
      return found.getValue();
    }
    throw wrong(node, path, "a mapping: `key: value` lines");
  }

  private void set(Message.Builder into, FieldDescriptor field, Node node, String path, int depth) {
    if (field.isMapField()) {
      FieldDescriptor keys = field.getMessageType().findFieldByName("key");
      FieldDescriptor values = field.getMessageType().findFieldByName("value");
      for (NodeTuple entry : mapping(node, path)) {
        String inner = path + "." + ((ScalarNode) entry.getKeyNode()).getValue();
        Message.Builder one = into.newBuilderForField(field);
        one.setField(keys, scalar(keys, entry.getKeyNode(), inner));
        one.setField(values, single(one, values, entry.getValueNode(), inner, depth));
        into.addRepeatedField(field, one.build());
      }
    } else if (field.isRepeated()) {
      if (!(node instanceof SequenceNode list)) {
        throw wrong(node, path, "a list: each entry on a line of its own, with `- ` before it");
      }
      for (Node item : list.getValue()) {
        into.addRepeatedField(field, single(into, field, item, path + "[" + into.getRepeatedFieldCount(field) + "]", depth));
      }
    } else {
      into.setField(field, single(into, field, node, path, depth));
    }
  }

  private Object single(Message.Builder parent, FieldDescriptor field, Node node, String path, int depth) {
    if (field.getJavaType() != JavaType.MESSAGE) {
      return scalar(field, node, path);
    }
    Message.Builder inner = parent.newBuilderForField(field);
    if (inner instanceof com.google.protobuf.Timestamp.Builder time) {
      return time(time, node, path);
    }
    fill(inner, node, path, depth + 1);
    return inner.buildPartial();
  }

  private Message time(com.google.protobuf.Timestamp.Builder into, Node node, String path) {
    try {
      java.time.Instant at = java.time.Instant.parse(node instanceof ScalarNode scalar ? scalar.getValue() : "");
      return into.setSeconds(at.getEpochSecond()).setNanos(at.getNano()).build();
    } catch (java.time.DateTimeException error) {
      throw wrong(node, path, "a time such as 2026-01-31T12:00:00Z");
    }
  }

  private Object scalar(FieldDescriptor field, Node node, String path) {
    if (!(node instanceof ScalarNode scalar)) {
      throw wrong(node, path, "a single value");
    }
    String text = scalar.getValue();
    return switch (field.getJavaType()) {
      case STRING -> text;
      case BYTE_STRING -> bytes(scalar, path);
      case BOOLEAN -> truth(scalar, path);
      case ENUM -> member(field, scalar, path);
      case DOUBLE -> decimal(scalar, path);
      case FLOAT -> (float) decimal(scalar, path);
      case INT -> (int) integer(field, scalar, path);
      case LONG -> integer(field, scalar, path);
      case MESSAGE -> throw new IllegalArgumentException(path);
    };
  }

  private Object bytes(ScalarNode node, String path) {
    if (!node.getTag().equals(Tag.BINARY)) {
      return ByteString.copyFromUtf8(node.getValue());
    }
    try {
      return ByteString.copyFrom(java.util.Base64.getMimeDecoder().decode(node.getValue()));
    } catch (IllegalArgumentException error) {
      throw wrong(node, path, "base64");
    }
  }

  private boolean truth(ScalarNode node, String path) {
    if (!node.getTag().equals(Tag.BOOL)) {
      throw wrong(node, path, "true or false");
    }
    return List.of("true", "yes", "on").contains(node.getValue().toLowerCase(Locale.ROOT));
  }

  private double decimal(ScalarNode node, String path) {
    try {
      double value = new BigDecimal(node.getValue()).doubleValue();
      if (value >= 0 && Double.isFinite(value)) {
        return value;
      }
    } catch (NumberFormatException error) {
      throw wrong(node, path, "a number of 0 or more");
    }
    throw wrong(node, path, "a number of 0 or more");
  }

  private long integer(FieldDescriptor field, ScalarNode node, String path) {
    boolean unsigned = field.getType().name().contains("UINT") || field.getType().name().startsWith("FIXED");
    int bits = (field.getJavaType() == JavaType.INT ? UNSIGNED : 2 * UNSIGNED) - (unsigned ? 0 : 1);
    BigInteger most = BigInteger.ONE.shiftLeft(bits).subtract(BigInteger.ONE);
    try {
      String text = node.getValue();
      BigInteger value = text.startsWith("0x")
          ? new BigInteger(text.substring(2), 16) : new BigDecimal(text).toBigIntegerExact();
      if (value.signum() >= 0 && value.compareTo(most) <= 0) {
        return value.longValue();
      }
    } catch (NumberFormatException | ArithmeticException error) {
      throw wrong(node, path, "a whole number from 0 to " + most);
    }
    throw wrong(node, path, "a whole number from 0 to " + most);
  }

  private EnumValueDescriptor member(FieldDescriptor field, ScalarNode node, String path) {
    List<EnumValueDescriptor> values = field.getEnumType().getValues();
    String prefix = values.get(0).getName();
    for (EnumValueDescriptor each : values) {
      while (!each.getName().startsWith(prefix)) {
        prefix = prefix.substring(0, prefix.length() - 1);
      }
    }
    int cut = values.size() > 1 ? prefix.lastIndexOf('_') + 1 : 0;
    String given = normal(node.getValue());
    for (EnumValueDescriptor each : values) {
      String name = each.getName();
      if (List.of(normal(name), normal(name.substring(cut)), String.valueOf(each.getNumber())).contains(given)) {
        return each;
      }
    }
    throw wrong(node, path, "one of " + String.join(", ", values.stream().map(EnumValueDescriptor::getName).toList()));
  }

  private static String normal(String name) {
    return name.replace("_", "").toLowerCase(Locale.ROOT);
  }
}
