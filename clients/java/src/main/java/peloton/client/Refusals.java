package peloton.client;

import io.grpc.Attributes;
import io.grpc.ClientTransportFilter;
import io.grpc.Grpc;
import io.grpc.Status;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Tells that a server at an address refuses the client's certificate. In TLS 1.3 the client's
 * handshake is over before the server looks at it, and servers on gRPC's C core then end the
 * connection without an alert.
 */
final class Refusals extends ClientTransportFilter {
  /**
   * How many connections in a row a server ends before it says anything when it refuses the
   * certificate. One that is killed may end one or two.
   */
  private static final int ENDED_IN_A_ROW = 3;

  private static final Attributes.Key<Boolean> HEARD = Attributes.Key.create("heard");

  private final AtomicInteger ended = new AtomicInteger();

  @Override
  public Attributes transportReady(Attributes connection) {
    ended.set(0);
    return connection.toBuilder().set(HEARD, true).build();
  }

  @Override
  public void transportTerminated(Attributes connection) {
    boolean encrypted = connection.get(Grpc.TRANSPORT_ATTR_SSL_SESSION) != null;
    if (encrypted && connection.get(HEARD) == null) {
      ended.incrementAndGet();
    }
  }

  /** Returns UNAUTHENTICATED where one side did not take the other's certificate. */
  Status judged(Status status) {
    int count = ended.get();
    if (status.getCode() != Status.Code.UNAVAILABLE || count < ENDED_IN_A_ROW) {
      return PelotonException.judged(status);
    }
    return Status.UNAUTHENTICATED
        .withDescription(
            "the server ended "
                + count
                + " connections in a row after the handshake, as one does that refuses the client's"
                + " certificate")
        .withCause(status.getCause());
  }
}
