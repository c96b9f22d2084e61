package peloton.client;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;

/**
 * A call that failed, or an argument that is wrong. The common kinds are subclasses; a failure of
 * another kind has its code in {@link #code()}.
 */
public class PelotonException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What the daemons say of an argument. */
  private static final Pattern ARGUMENT =
      Pattern.compile("(?:[^:]*: )??([A-Za-z_][\\w.\\[\\]-]*): (.+?) is not (.+)", Pattern.DOTALL);

  private static final List<Map.Entry<String, Status.Code>> REFUSALS =
      List.of(
          Map.entry("alreadyexists", Status.Code.ALREADY_EXISTS),
          Map.entry("notfound", Status.Code.NOT_FOUND),
          Map.entry("outofrange", Status.Code.OUT_OF_RANGE),
          Map.entry("invalid", Status.Code.INVALID_ARGUMENT),
          Map.entry("notrunning", Status.Code.FAILED_PRECONDITION));

  private final Status.Code code;
  private final String method;
  private final String reason;
  private final String field;
  private final String value;
  private final String expected;

  private PelotonException(Failure failure) {
    super(failure.line(), failure.cause);
    code = failure.code;
    method = failure.method;
    reason = failure.reason;
    field = failure.field;
    value = failure.value;
    expected = failure.expected;
  }

  /** Returns gRPC's code. A failure that an answer tells has the code that fits it. */
  public Status.Code code() {
    return code;
  }

  /** Returns {@code package.Service/Method}, empty where nothing was called. */
  public String method() {
    return method;
  }

  /** Returns what was wrong, with the value, and what would be right. */
  public String reason() {
    return reason;
  }

  /** Returns the field that was refused, empty where it is not an argument that was. */
  public String field() {
    return field;
  }

  /** Returns the value that was refused, empty where there is none. */
  public String value() {
    return value;
  }

  /** Returns what would be right, empty where it is not an argument that was refused. */
  public String expected() {
    return expected;
  }

  /** An argument is wrong. */
  public static final class InvalidArgument extends PelotonException {
    private static final long serialVersionUID = 1;

    private InvalidArgument(Failure failure) {
      super(failure);
    }
  }

  /** What was asked for does not exist. */
  public static final class NotFound extends PelotonException {
    private static final long serialVersionUID = 1;

    private NotFound(Failure failure) {
      super(failure);
    }
  }

  /** What was to be made exists. */
  public static final class AlreadyExists extends PelotonException {
    private static final long serialVersionUID = 1;

    private AlreadyExists(Failure failure) {
      super(failure);
    }
  }

  /** Somebody else has changed it meanwhile. */
  public static final class Conflict extends PelotonException {
    private static final long serialVersionUID = 1;

    private Conflict(Failure failure) {
      super(failure);
    }
  }

  /** Refused in the present state. */
  public static final class FailedPrecondition extends PelotonException {
    private static final long serialVersionUID = 1;

    private FailedPrecondition(Failure failure) {
      super(failure);
    }
  }

  /** The daemon does not know who calls, or one side did not take the other's certificate. */
  public static final class Unauthenticated extends PelotonException {
    private static final long serialVersionUID = 1;

    private Unauthenticated(Failure failure) {
      super(failure);
    }
  }

  /** The caller may not do this. */
  public static final class PermissionDenied extends PelotonException {
    private static final long serialVersionUID = 1;

    private PermissionDenied(Failure failure) {
      super(failure);
    }
  }

  /** A limit is reached. */
  public static final class ResourceExhausted extends PelotonException {
    private static final long serialVersionUID = 1;

    private ResourceExhausted(Failure failure) {
      super(failure);
    }
  }

  /** No leader, or none that can be reached. */
  public static final class Unavailable extends PelotonException {
    private static final long serialVersionUID = 1;

    private Unavailable(Failure failure) {
      super(failure);
    }
  }

  /** No answer before the deadline. */
  public static final class DeadlineExceeded extends PelotonException {
    private static final long serialVersionUID = 1;

    private DeadlineExceeded(Failure failure) {
      super(failure);
    }
  }

  /** Returns the failure behind what a stub or a future has thrown. */
  public static PelotonException of(Throwable thrown) {
    for (Throwable each = thrown; each != null; each = each.getCause()) {
      if (each instanceof PelotonException known) {
        return known;
      }
      if (each instanceof StatusRuntimeException status) {
        return of("", status.getStatus(), thrown);
      }
      if (each instanceof StatusException status) {
        return of("", status.getStatus(), thrown);
      }
      if (!(each instanceof ExecutionException || each instanceof CompletionException)) {
        break;
      }
    }
    return new Failure(Status.Code.UNKNOWN, String.valueOf(thrown)).cause(thrown).build();
  }

  static PelotonException of(String method, Status told, Throwable cause) {
    if (told.getCause() instanceof PelotonException known) {
      return known;
    }
    Status status = judged(told);
    Throwable origin = status.getCause() == null ? cause : status.getCause();
    String reason = status.getDescription();
    Status.Code code = status.getCode();
    if (code == Status.Code.UNAVAILABLE && status.getCause() != null) {
      reason = reason + ": " + status.getCause().getMessage();
    }
    return new Failure(code, reason).method(method).cause(origin).build();
  }

  /**
   * Returns UNAUTHENTICATED where one side did not take the other's certificate: another try would
   * not help. A server that is frozen lets handshakes time out, which is not of this kind.
   */
  static Status judged(Status status) {
    if (status.getCode() != Status.Code.UNAVAILABLE) {
      return status;
    }
    for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
      if (each instanceof SSLException
          && !String.valueOf(each.getMessage()).contains("timed out")) {
        return Status.UNAUTHENTICATED
            .withDescription("the connection was refused: " + each)
            .withCause(status.getCause());
      }
    }
    return status;
  }

  static PelotonException failure(Status.Code code, String reason, Throwable cause) {
    return new Failure(code, reason).cause(cause).build();
  }

  static PelotonException unavailable(String reason, Throwable cause) {
    return failure(Status.Code.UNAVAILABLE, reason, cause);
  }

  static PelotonException expired(String method, String reason, Throwable cause) {
    return new Failure(Status.Code.DEADLINE_EXCEEDED, reason).method(method).cause(cause).build();
  }

  static PelotonException closed() {
    return failure(Status.Code.CANCELLED, "the client is closed", null);
  }

  static PelotonException invalid(String field, Object value, String expected) {
    return invalid("", field, String.valueOf(value), expected);
  }

  static PelotonException invalid(String place, String field, String value, String expected) {
    String reason = place + field + ": \"" + value + "\" is not " + expected;
    Failure failure = new Failure(Status.Code.INVALID_ARGUMENT, reason);
    failure.field = field;
    failure.value = value;
    failure.expected = expected;
    return failure.build();
  }

  /** Throws the failure that an answer of a v0 service tells; returns an answer without one. */
  public static <T> T check(T answer) {
    if (!(answer instanceof Message message)) {
      return answer;
    }
    for (String name : List.of("error", "notFound", "outOfRange")) {
      FieldDescriptor field = message.getDescriptorForType().findFieldByName(name);
      if (isMessage(field) && message.hasField(field)) {
        Message told = (Message) message.getField(field);
        throw name.equals("error") ? choice(told) : refusal(name, told);
      }
    }
    return answer;
  }

  private static boolean isMessage(FieldDescriptor field) {
    return field != null
        && !field.isRepeated()
        && field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
  }

  private static PelotonException choice(Message error) {
    String reason = "refused, without a reason";
    for (Map.Entry<FieldDescriptor, Object> each : error.getAllFields().entrySet()) {
      if (isMessage(each.getKey())) {
        return refusal(each.getKey().getName(), (Message) each.getValue());
      }
      if (each.getKey().getName().equals("message")) {
        reason = (String) each.getValue();
      }
    }
    return new Failure(Status.Code.UNKNOWN, reason).build();
  }

  private static PelotonException refusal(String name, Message told) {
    String kind = (name + " " + told.getDescriptorForType().getName()).toLowerCase(Locale.ROOT);
    Status.Code code =
        REFUSALS.stream()
            .filter(known -> kind.contains(known.getKey()))
            .map(Map.Entry::getValue)
            .findFirst()
            .orElse(Status.Code.UNKNOWN);
    String reason = "";
    String id = "";
    for (Map.Entry<FieldDescriptor, Object> each : told.getAllFields().entrySet()) {
      if (isMessage(each.getKey())) {
        Message inner = (Message) each.getValue();
        FieldDescriptor value = inner.getDescriptorForType().findFieldByName("value");
        id = value == null ? id : String.valueOf(inner.getField(value));
      } else if (each.getKey().getName().equals("message")) {
        reason = (String) each.getValue();
      }
    }
    Failure failure = new Failure(code, reason.isEmpty() ? name : reason);
    if (failure.value.isEmpty()) {
      failure.value = id;
    }
    return failure.build();
  }

  /** What an exception is made of. */
  private static final class Failure {
    final Status.Code code;
    final String reason;
    String method = "";
    String field = "";
    String value = "";
    String expected = "";
    Throwable cause;

    Failure(Status.Code code, String reason) {
      this.code = code;
      this.reason = reason == null || reason.isEmpty() ? code.toString() : reason;
      Matcher found = ARGUMENT.matcher(this.reason);
      if (code == Status.Code.INVALID_ARGUMENT && found.matches()) {
        field = found.group(1);
        value = found.group(2).replaceAll("^['\"]|['\"]$", "");
        expected = found.group(3);
      }
    }

    Failure method(String called) {
      method = called;
      return this;
    }

    Failure cause(Throwable thrown) {
      cause = thrown;
      return this;
    }

    String line() {
      return method.isEmpty() ? reason : method + ": " + code + ": " + reason;
    }

    PelotonException build() {
      return switch (code) {
        case INVALID_ARGUMENT -> new InvalidArgument(this);
        case NOT_FOUND -> new NotFound(this);
        case ALREADY_EXISTS -> new AlreadyExists(this);
        case ABORTED -> new Conflict(this);
        case FAILED_PRECONDITION -> new FailedPrecondition(this);
        case UNAUTHENTICATED -> new Unauthenticated(this);
        case PERMISSION_DENIED -> new PermissionDenied(this);
        case RESOURCE_EXHAUSTED -> new ResourceExhausted(this);
        case UNAVAILABLE -> new Unavailable(this);
        case DEADLINE_EXCEEDED -> new DeadlineExceeded(this);
        default -> new PelotonException(this);
      };
    }
  }
}
