package peloton.client;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.util.Base64;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** How the HTTP servers of Mesos agents are called: plainly, unless something else is set. */
final class AgentAccess {
  private static final int CONNECT_MILLIS = 5000;
  private static final int READ_MILLIS = 20_000;

  static final AgentAccess PLAIN = new AgentAccess(null, "");

  private final SSLSocketFactory tls; // null: HTTP
  private final String authorization;

  private AgentAccess(SSLSocketFactory tls, String authorization) {
    this.tls = tls;
    this.authorization = authorization;
  }

  /** Returns access by TLS; trusts the authorities in a PEM file, or Java's where it is null. */
  AgentAccess trusting(File authorities) {
    try {
      return new AgentAccess(context(authorities).getSocketFactory(), authorization);
    } catch (IOException | GeneralSecurityException e) {
      throw PelotonException.invalid(
          "agentCaFile", authorities, "a PEM file with certificates: " + e);
    }
  }

  private static SSLContext context(File authorities) throws IOException, GeneralSecurityException {
    if (authorities == null) {
      return SSLContext.getDefault();
    }
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (InputStream text = Files.newInputStream(authorities.toPath())) {
      for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(text)) {
        trusted.setCertificateEntry("authority-" + trusted.size(), each);
      }
    }
    if (trusted.size() == 0) {
      throw new CertificateException("none found");
    }
    TrustManagerFactory managers =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    return context;
  }

  /** Returns access as a principal with its secret. */
  AgentAccess basic(String principal, String secret) {
    byte[] both = (principal + ":" + secret).getBytes(StandardCharsets.UTF_8);
    return new AgentAccess(tls, "Basic " + Base64.getEncoder().encodeToString(both));
  }

  /** Prepares a request of an agent, host:port. */
  HttpURLConnection connect(String agent, String pathAndQuery) throws IOException {
    URL url = new URL((tls == null ? "http://" : "https://") + agent + pathAndQuery);
    // Not behind the user's proxy; without threads or connections that outlive it.
    HttpURLConnection connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
    connection.setConnectTimeout(CONNECT_MILLIS);
    connection.setReadTimeout(READ_MILLIS);
    connection.setRequestProperty("Connection", "close");
    if (!authorization.isEmpty()) {
      connection.setRequestProperty("Authorization", authorization);
    }
    if (connection instanceof HttpsURLConnection encrypted && tls != null) {
      encrypted.setSSLSocketFactory(tls);
    }
    return connection;
  }
}
