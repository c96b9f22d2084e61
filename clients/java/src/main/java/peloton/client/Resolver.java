package peloton.client;

import java.util.ArrayList;
import java.util.List;

/** Finds the address of a role's leader. A failure of code UNAVAILABLE may pass. */
interface Resolver extends AutoCloseable {
  /** Returns host:port; {@code failed} is the address that did not do, or empty. */
  String address(Role role, String failed);

  @Override
  void close();

  /** Addresses that the caller gave, one after the other as they fail. */
  static Resolver of(Role role, String text) {
    List<String> addresses = new ArrayList<>();
    for (String part : text.split(",")) {
      String address = part.strip().replaceFirst("^(?i)(grpc|http|https|dns):/+", "").replaceFirst("/+$", "");
      if (!address.matches("(\\[[^]]+]|[^:\\s]+):\\d{1,5}")) {
        throw PelotonException.invalid("address of " + role.id, part, "host:port, such as " + role.defaultAddress);
      }
      addresses.add(address);
    }
    return new Resolver() {
      @Override
      public String address(Role ignored, String failed) {
        return addresses.get((addresses.indexOf(failed) + 1) % addresses.size());
      }

      @Override
      public void close() {}
    };
  }
}
