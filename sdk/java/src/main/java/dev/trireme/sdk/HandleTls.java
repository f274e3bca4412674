// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/**
 * TLS of requests to the scheduler: PEM files. Each request looks at them: a connection that is open goes on, the next one
 * uses what they have. Unix sockets are plain.
 *
 * @param ca the authority of the scheduler's certificate
 * @param certificate the certificate chain that is shown to the scheduler; null: none
 * @param privateKey its private key; null: none
 */
public record HandleTls(Path ca, Path certificate, Path privateKey) {
  /**
   * Both or none of certificate and key.
   *
   * @throws IllegalArgumentException only one of them is set
   */
  public HandleTls {
    if ((certificate == null) != (privateKey == null)) {
      throw new IllegalArgumentException("--tls-cert-file and --tls-private-key-file need each other");
    }
  }

  List<Path> files() {
    return Stream.of(ca, certificate, privateKey).filter(path -> path != null).toList();
  }

  /**
   * Credentials of the files as they are now.
   *
   * @throws IllegalArgumentException a file cannot be used, or the key is not that of the certificate
   */
  ChannelCredentials credentials() throws IOException {
    PemFiles.certificates("--handle-ca-file", ca);
    TlsChannelCredentials.Builder out = TlsChannelCredentials.newBuilder().trustManager(ca.toFile());
    if (certificate != null) {
      PemFiles.Pair pair = PemFiles.pair(certificate, privateKey);
      out.keyManager(certificate.toFile(), privateKey.toFile());
      PemFiles.warnUnlessValid(certificate, pair.chain()[0], Instant.now(), "the scheduler refuses");
    }
    return out.build();
  }
}
