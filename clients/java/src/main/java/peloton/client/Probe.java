package peloton.client;

import com.google.common.util.concurrent.ListenableFuture;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Asks a server whether it leads, by the standard health check. */
final class Probe {
  static final long MILLIS = 400;

  private static final byte[] SERVING = {0x08, 1};

  private static final MethodDescriptor<byte[], byte[]> CHECK =
      MethodDescriptor.<byte[], byte[]>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("grpc.health.v1.Health/Check")
          .setRequestMarshaller(new Bytes())
          .setResponseMarshaller(new Bytes())
          .build();

  private final ListenableFuture<byte[]> answer;

  /** Asks whether a service is served, which only the leader does. */
  Probe(Channel channel, Metadata headers, String service) {
    Channel with =
        ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(MILLIS, TimeUnit.MILLISECONDS);
    answer = ClientCalls.futureUnaryCall(with.newCall(CHECK, options), request(service));
  }

  /** Returns a HealthCheckRequest. */
  private static byte[] request(String service) {
    byte[] name = service.getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream made = new ByteArrayOutputStream();
    made.write(0x0a);
    made.write(name.length);
    made.writeBytes(name);
    return made.toByteArray();
  }

  /** Waits for the answer, which comes soon or not at all. */
  boolean leads() {
    try {
      return Arrays.equals(answer.get(), SERVING);
    } catch (ExecutionException e) {
      return false; // frozen, gone, or without such a service
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
