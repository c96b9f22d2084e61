package peloton.client;

import com.google.protobuf.Empty;
import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * The token of the task in which the program runs. It is renewed when half of its time is over.
 * Messages do not show it.
 */
final class TaskToken implements Supplier<String> {
  /** Bounds one renewal; after one that failed, the next is as late. */
  static final Duration RENEWAL_TIMEOUT = Duration.ofSeconds(20);

  /** GetTokenResponse begins as StringValue does, with a string of number 1. */
  private static final MethodDescriptor<Empty, StringValue> GET_TOKEN =
      MethodDescriptor.<Empty, StringValue>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("peloton.private.jobmgr.access.TaskAccessService/GetToken")
          .setRequestMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
          .build();

  private final UnaryOperator<String> renewed;
  private final InstantSource clock;
  private String token;
  private Instant due;
  private boolean renewing;

  /** Keeps a token; one that has expired already is renewed here, by a function that may block. */
  TaskToken(String read, UnaryOperator<String> renewed, InstantSource clock) {
    this.renewed = renewed;
    this.clock = clock;
    Instant expires = expiry(read);
    if (expires == null) {
      throw PelotonException.invalid("PELOTON_TOKEN_FILE", "the content", "the token of a task");
    }
    take(read, expires);
    if (!clock.instant().isBefore(expires)) {
      renew();
    }
  }

  /** Returns a new token, by a channel whose calls show the old one. Throws PelotonException. */
  static String renew(Channel channel) {
    CallOptions options =
        CallOptions.DEFAULT.withDeadlineAfter(RENEWAL_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
    try {
      return ClientCalls.blockingUnaryCall(channel, GET_TOKEN, options, Empty.getDefaultInstance())
          .getValue();
    } catch (StatusRuntimeException e) {
      throw PelotonException.of(e);
    }
  }

  /** Returns the token for a call, and has it renewed behind where that is due. */
  @Override
  public synchronized String get() {
    if (clock.instant().isAfter(due) && !renewing) {
      renewing = true;
      Thread behind = new Thread(this::renew, "peloton token");
      behind.setDaemon(true);
      behind.start();
    }
    return token;
  }

  /** Takes a new token. Where there is none, the calls tell why, and a later one tries again. */
  private void renew() {
    String found = null;
    try {
      found = renewed.apply(current());
    } catch (PelotonException e) {
      found = "";
    } finally {
      settle(found);
    }
  }

  synchronized boolean isRenewing() {
    return renewing;
  }

  private synchronized String current() {
    return token;
  }

  private synchronized void settle(String found) {
    renewing = false;
    Instant expires = found == null ? null : expiry(found);
    if (expires == null) {
      due = clock.instant().plus(RENEWAL_TIMEOUT);
    } else {
      take(found, expires);
    }
  }

  private synchronized void take(String found, Instant expires) {
    Instant now = clock.instant();
    token = found;
    due = now.plus(Duration.between(now, expires).dividedBy(2));
  }

  /** Returns when a token expires; null where it is none. */
  private static Instant expiry(String token) {
    String[] parts = token.split("\\.", -1);
    if (parts.length != 4 || !parts[2].matches("\\d{1,12}")) {
      return null;
    }
    return Instant.ofEpochSecond(Long.parseLong(parts[2]));
  }
}
