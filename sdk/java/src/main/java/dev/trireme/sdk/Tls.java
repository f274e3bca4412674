// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.Attributes;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerCredentials;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.grpc.util.AdvancedTlsX509TrustManager;
import java.io.IOException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Principal;
import java.security.cert.CertificateException;
import java.security.cert.CertificateParsingException;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import javax.naming.InvalidNameException;
import javax.naming.ldap.LdapName;
import javax.net.ssl.SSLPeerUnverifiedException;
import javax.net.ssl.SSLSession;

/**
 * TLS of the server: PEM files that are read again when they change.
 *
 * @param certificate the certificate chain
 * @param privateKey its private key
 * @param clientCa the authority of callers' certificates, which every caller must show; null: none
 */
public record Tls(Path certificate, Path privateKey, Path clientCa) {
  /** How often the files are looked at, in seconds. gRPC's own watch of them waits a minute at least. */
  private static final long POLL_S = 5;

  private static final String HEALTH_CHECK = "grpc.health.v1.Health/Check";

  /**
   * Reads the files, and looks at them again with the timer.
   *
   * @throws IllegalArgumentException a file cannot be used, or the key is not that of the certificate
   */
  ServerCredentials credentials(ScheduledExecutorService timer) {
    AdvancedTlsX509KeyManager key = new AdvancedTlsX509KeyManager();
    watch(timer, pair(read -> key.updateIdentityCredentials(read.chain(), read.key())));
    TlsServerCredentials.Builder out = TlsServerCredentials.newBuilder().keyManager(key);
    if (clientCa != null) {
      try {
        AdvancedTlsX509TrustManager trust = AdvancedTlsX509TrustManager.newBuilder()
            .setVerification(AdvancedTlsX509TrustManager.Verification.CERTIFICATE_ONLY_VERIFICATION).build();
        watch(timer, new WatchedFiles(List.of(clientCa),
            () -> trust.updateTrustCredentials(PemFiles.certificates("--client-ca-file", clientCa))));
        out.trustManager(trust).clientAuth(TlsServerCredentials.ClientAuth.REQUIRE);
      } catch (CertificateException error) {
        throw new IllegalArgumentException("--client-ca-file: " + clientCa + ": " + error.getMessage(), error);
      }
    }
    return out.build();
  }

  /** Takes a certificate and its key. */
  interface Use {
    void of(PemFiles.Pair pair) throws IOException, GeneralSecurityException;
  }

  /** Certificate and key, which are used now and whenever they have changed and belong together. */
  WatchedFiles pair(Use use) {
    return new WatchedFiles(List.of(certificate, privateKey), () -> {
      PemFiles.Pair read = PemFiles.pair(certificate, privateKey);
      use.of(read);
      PemFiles.warnUnlessValid(certificate, read.chain()[0], Instant.now(), "callers refuse");
    });
  }

  private static void watch(ScheduledExecutorService timer, WatchedFiles files) {
    timer.scheduleWithFixedDelay(files::poll, POLL_S, POLL_S, TimeUnit.SECONDS);
  }

  /** Lets in only callers whose certificate has one of these names; everybody that TLS accepts may check the health. */
  static ServerInterceptor identities(Set<String> allowed) {
    return new ServerInterceptor() {
      @Override
      public <I, O> ServerCall.Listener<I> interceptCall(
          ServerCall<I, O> call, Metadata headers, ServerCallHandler<I, O> next) {
        if (call.getMethodDescriptor().getFullMethodName().equals(HEALTH_CHECK)) {
          return next.startCall(call, headers);
        }
        Set<String> names = identitiesOf(call.getAttributes());
        if (names.stream().anyMatch(allowed::contains)) {
          return next.startCall(call, headers);
        }
        Log.warn("refused a call: the caller has none of the allowed identities", "identities", names);
        call.close(
            Status.PERMISSION_DENIED.withDescription("the client's identity is not allowed to call"), new Metadata());
        return new ServerCall.Listener<>() {};
      }
    };
  }

  private static Set<String> identitiesOf(Attributes attributes) {
    SSLSession session = attributes.get(Grpc.TRANSPORT_ATTR_SSL_SESSION);
    Set<String> names = new HashSet<>();
    try {
      if (session != null && session.getPeerCertificates()[0] instanceof X509Certificate certificate) {
        names.addAll(alternatives(certificate));
        names.addAll(commonNames(certificate.getSubjectX500Principal()));
      }
    } catch (SSLPeerUnverifiedException | CertificateParsingException | InvalidNameException error) {
      Log.warn("a caller's certificate cannot be read", "reason", error.getMessage());
    }
    return names;
  }

  private static List<String> alternatives(X509Certificate certificate) throws CertificateParsingException {
    Collection<List<?>> entries = certificate.getSubjectAlternativeNames();
    List<String> names = new ArrayList<>();
    if (entries != null) {
      entries.stream().map(entry -> entry.get(1)).filter(String.class::isInstance)
          .forEach(name -> names.add((String) name));
    }
    return names;
  }

  private static List<String> commonNames(Principal subject) throws InvalidNameException {
    return new LdapName(subject.getName()).getRdns().stream()
        .filter(part -> part.getType().equalsIgnoreCase("CN")).map(part -> String.valueOf(part.getValue())).toList();
  }
}
