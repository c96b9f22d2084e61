package peloton.client;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A call that failed, or an argument that is wrong. */
public final class PelotonException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final Pattern ARGUMENT =
      Pattern.compile("(?:.*?: )??([A-Za-z_][\\w.\\[\\]-]*): (.+?) is not (.+)", Pattern.DOTALL);

  private final Status.Code code;
  private final String field;
  private final String value;
  private final String expected;

  PelotonException(Status.Code code, String message, String value, Throwable cause) {
    super(message, cause);
    Matcher found = ARGUMENT.matcher(message);
    boolean argument = code == Status.Code.INVALID_ARGUMENT && found.matches();
    this.code = code;
    this.field = argument ? found.group(1) : "";
    this.value = argument ? found.group(2).replaceAll("^['\"]|['\"]$", "") : value;
    this.expected = argument ? found.group(3) : "";
  }

  static PelotonException of(StatusRuntimeException error) {
    String message = error.getStatus().getDescription();
    Status.Code code = error.getStatus().getCode();
    String text = message == null ? code.name().toLowerCase(Locale.ROOT) : message;
    return new PelotonException(code, text, "", error);
  }

  static PelotonException invalid(String field, String value, String expected) {
    String message = String.format("%s: '%s' is not %s", field, value, expected);
    return new PelotonException(Status.Code.INVALID_ARGUMENT, message, value, null);
  }

  /** Returns gRPC's code. A failure that an answer tells has the code that fits it. */
  public Status.Code code() {
    return code;
  }

  /** Returns the argument that was refused, empty where it is not one. */
  public String field() {
    return field;
  }

  /** Returns the value that was refused, or the id of what the failure is about. */
  public String value() {
    return value;
  }

  /** Returns what would be right for an argument that was refused. */
  public String expected() {
    return expected;
  }

  /** Returns whether the failure is of the moment: no leader, or none that answers. */
  public boolean passing() {
    return code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED;
  }
}
