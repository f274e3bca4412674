// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.util.CertificateUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.time.Instant;

/** Reads certificates and keys; what is wrong with a file is an IllegalArgumentException that names flag and file. */
final class PemFiles {
  private static final byte[] SAMPLE = {1, 2, 3};

  private PemFiles() {}

  /**
   * A certificate chain and the key of its first certificate.
   *
   * @param chain at least one certificate
   * @param key the key that the first one was issued for
   */
  record Pair(X509Certificate[] chain, PrivateKey key) {}

  /** Reads both files, and checks that they belong together: TLS would fail only at each handshake, and log nothing. */
  static Pair pair(Path certificate, Path privateKey) {
    X509Certificate[] chain = certificates("--tls-cert-file", certificate);
    PrivateKey key = privateKey("--tls-private-key-file", privateKey);
    if (!belongTogether(chain[0].getPublicKey(), key)) {
      throw new IllegalArgumentException("--tls-cert-file " + certificate + " and --tls-private-key-file " + privateKey
          + " do not belong together: use the key that the certificate was issued for");
    }
    return new Pair(chain, key);
  }

  /** Reads at least one certificate. */
  static X509Certificate[] certificates(String flag, Path file) {
    try {
      X509Certificate[] found = CertificateUtils.getX509Certificates(new ByteArrayInputStream(read(flag, file)));
      if (found.length > 0) {
        return found;
      }
    } catch (CertificateException error) {
      throw new IllegalArgumentException(flag + ": " + file + ": has no PEM certificate", error);
    }
    throw new IllegalArgumentException(flag + ": " + file + ": has no PEM certificate");
  }

  /** Logs that the others refuse the certificate ("callers refuse"), if its time has passed or has not come. */
  static void warnUnlessValid(Path file, X509Certificate certificate, Instant now, String refuse) {
    Instant begins = certificate.getNotBefore().toInstant();
    Instant ends = certificate.getNotAfter().toInstant();
    if (now.isAfter(ends)) {
      Log.warn("the certificate has expired: " + refuse + " it until the file is replaced", "file", file, "ended", ends);
    } else if (now.isBefore(begins)) {
      Log.warn("the certificate is not valid yet: " + refuse + " it until then", "file", file, "begins", begins);
    }
  }

  private static PrivateKey privateKey(String flag, Path file) {
    try {
      return CertificateUtils.getPrivateKey(new ByteArrayInputStream(read(flag, file)));
    } catch (IOException | GeneralSecurityException error) {
      throw new IllegalArgumentException(flag + ": " + file + ": has no PEM private key of RSA or EC in PKCS #8 without a"
          + " password (BEGIN PRIVATE KEY); `openssl pkcs8 -topk8 -nodes` converts others");
    }
  }

  private static byte[] read(String flag, Path file) {
    try {
      return Files.readAllBytes(file);
    } catch (NoSuchFileException error) {
      throw new IllegalArgumentException(flag + ": " + file + ": no such file");
    } catch (IOException error) {
      throw new IllegalArgumentException(flag + ": " + file + ": cannot be read: " + error);
    }
  }

  /** Whether what the key signs is what the certificate's public key verifies. */
  private static boolean belongTogether(PublicKey certified, PrivateKey key) {
    if (!certified.getAlgorithm().equals(key.getAlgorithm())) {
      return false;
    }
    try {
      Signature signature = Signature.getInstance(key.getAlgorithm().equals("EC") ? "SHA256withECDSA" : "SHA256withRSA");
      signature.initSign(key);
      signature.update(SAMPLE);
      byte[] signed = signature.sign();
      signature.initVerify(certified);
      signature.update(SAMPLE);
      return signature.verify(signed);
    } catch (GeneralSecurityException error) {
      return false; // another curve or length, for example
    }
  }
}
