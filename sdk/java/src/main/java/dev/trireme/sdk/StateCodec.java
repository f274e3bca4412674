// Also change: internal/trireme/sdk/state.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.Gson;
import com.google.protobuf.ByteString;

/** Turns a plugin's state into bytes and back; it travels to the scheduler and returns in a later call. */
public interface StateCodec {
  /** The codec of plugins that bring none of their own. */
  StateCodec JSON = new StateCodec() {
    private final Gson gson = new Gson();

    @Override
    public ByteString encode(Object value) {
      return ByteString.copyFromUtf8(gson.toJson(value));
    }

    @Override
    public <T> T decode(ByteString bytes, Class<T> type) {
      return gson.fromJson(bytes.toStringUtf8(), type);
    }
  };

  /** The bytes of a value. */
  ByteString encode(Object value);

  /** The value of the bytes. */
  <T> T decode(ByteString bytes, Class<T> type);
}
