// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where a server listens.
 *
 * @param text as it is announced
 * @param host for host:port; null for a Unix socket
 * @param port for host:port
 * @param socket the path of a Unix socket; null for host:port
 */
record Address(String text, String host, int port, Path socket) {
  private static final Pattern HOST_PORT = Pattern.compile("(\\[[0-9a-fA-F:.%]+\\]|[^:\\[\\]/]*):(\\d{1,5})");

  /** Reads the value of --listen. Throws IllegalArgumentException naming what is wrong. */
  static Address parse(String text) {
    if (text.startsWith("unix:")) {
      String path = text.substring("unix:".length()).replaceFirst("^//+", "/");
      if (!path.startsWith("/")) {
        throw wrong(text, "a Unix socket needs an absolute path, as in unix:/run/plugin.sock");
      }
      if (path.getBytes(StandardCharsets.UTF_8).length > 107) {
        throw wrong(text, "a Unix socket's path has at most 107 bytes");
      }
      return new Address("unix:" + path, null, 0, Path.of(path));
    }
    Matcher match = HOST_PORT.matcher(text);
    if (!match.matches() || Integer.parseInt(match.group(2)) > 65535) {
      throw new IllegalArgumentException("--listen: " + text + " is neither unix:/path nor host:port");
    }
    String host = match.group(1).isEmpty() ? "0.0.0.0" : match.group(1);
    return new Address(host + ":" + match.group(2), host, Integer.parseInt(match.group(2)), null);
  }

  /** Removes the socket that a process which ended has left. Throws if another one listens there. */
  void clearSocket() throws IOException {
    if (!Files.isDirectory(socket.getParent())) {
      throw wrong(text, socket.getParent() + " is not a directory");
    }
    if (!Files.exists(socket, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (Files.isRegularFile(socket) || Files.isDirectory(socket)) {
      throw wrong(text, "there is a file that is no socket");
    }
    try (SocketChannel probe = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      probe.connect(UnixDomainSocketAddress.of(socket));
    } catch (IOException nobodyListens) {
      Files.delete(socket);
      return;
    }
    throw wrong(text, "another process listens there");
  }

  InetSocketAddress inet() {
    return new InetSocketAddress(host.replaceAll("^\\[|\\]$", ""), port);
  }

  private static IllegalArgumentException wrong(String text, String what) {
    return new IllegalArgumentException("--listen: " + text + ": " + what);
  }
}
