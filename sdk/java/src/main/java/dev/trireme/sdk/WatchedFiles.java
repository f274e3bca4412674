// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).
package dev.trireme.sdk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;

/** TLS files that are read again when one has changed. Files that cannot be used leave in force what was. */
final class WatchedFiles {
  /** Reads the files, and puts them in force; puts nothing in force where it throws. */
  interface Read {
    void run() throws IOException, GeneralSecurityException;
  }

  private final List<Path> files;
  private final Read read;
  private List<String> seen;

  /**
   * Reads the files.
   *
   * @throws IllegalArgumentException a file cannot be used
   */
  WatchedFiles(List<Path> files, Read read) {
    this.files = files;
    this.read = read;
    seen = stamps();
    try {
      read.run();
    } catch (IOException | GeneralSecurityException error) {
      throw new IllegalArgumentException(files + " cannot be used: " + error.getMessage(), error);
    }
  }

  /** Reads the files again if one has changed; logs once for each change whether they are in use. */
  void poll() {
    List<String> now = stamps();
    if (now.equals(seen)) {
      return;
    }
    seen = now;
    try {
      read.run();
      Log.info("TLS files were read again", "files", files);
    } catch (IOException | GeneralSecurityException | IllegalArgumentException error) {
      Log.warn("changed TLS files cannot be used; those before stay in use", "reason", error.getMessage());
    }
  }

  /** What differs when a file has been replaced. */
  private List<String> stamps() {
    List<String> out = new ArrayList<>();
    for (Path file : files) {
      try {
        BasicFileAttributes found = Files.readAttributes(file, BasicFileAttributes.class);
        out.add(found.fileKey() + "/" + found.lastModifiedTime() + "/" + found.size());
      } catch (IOException error) {
        out.add(error.toString());
      }
    }
    return out;
  }
}
