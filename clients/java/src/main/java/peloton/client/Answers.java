package peloton.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import io.grpc.Status;
import java.util.List;
import java.util.Locale;

/** Failures that the answers of v0 services hold. */
public final class Answers {
  private Answers() {}

  /** Returns the answer. Throws where it tells a failure. */
  public static <M extends Message> M check(M answer) {
    for (String name : List.of("error", "notFound", "outOfRange")) {
      FieldDescriptor field = answer.getDescriptorForType().findFieldByName(name);
      if (field == null || field.getJavaType() != JavaType.MESSAGE || !answer.hasField(field)) {
        continue;
      }
      Message held = (Message) answer.getField(field);
      if (!name.equals("error")) {
        throw refusal(name, held);
      }
      for (var each : held.getAllFields().entrySet()) {
        if (each.getKey().getJavaType() == JavaType.MESSAGE) {
          throw refusal(each.getKey().getName(), (Message) each.getValue());
        }
      }
      throw new PelotonException(Status.Code.UNKNOWN, text(held, "refused, without a reason"), "", null);
    }
    return answer;
  }

  private static PelotonException refusal(String name, Message held) {
    String value = "";
    for (var each : held.getAllFields().entrySet()) {
      if (each.getKey().getJavaType() == JavaType.MESSAGE && !each.getKey().isRepeated()) {
        value = text((Message) each.getValue(), "value", value);
      }
    }
    String kind = (name + " " + held.getDescriptorForType().getName()).toLowerCase(Locale.ROOT);
    return new PelotonException(code(kind), text(held, name), value, null);
  }

  private static Status.Code code(String kind) {
    if (kind.contains("alreadyexists")) {
      return Status.Code.ALREADY_EXISTS;
    } else if (kind.contains("notfound")) {
      return Status.Code.NOT_FOUND;
    } else if (kind.contains("outofrange")) {
      return Status.Code.OUT_OF_RANGE;
    } else if (kind.contains("invalid")) {
      return Status.Code.INVALID_ARGUMENT;
    }
    return kind.contains("notrunning") ? Status.Code.FAILED_PRECONDITION : Status.Code.UNKNOWN;
  }

  private static String text(Message message, String otherwise) {
    return text(message, "message", otherwise);
  }

  private static String text(Message message, String name, String otherwise) {
    FieldDescriptor field = message.getDescriptorForType().findFieldByName(name);
    String found = field == null ? "" : message.getField(field).toString();
    return found.isEmpty() ? otherwise : found;
  }
}
