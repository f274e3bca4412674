// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.ServiceDescriptor;
import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoUtils;

/** An RPC of the contract; its description comes from the descriptors of the messages. */
public final class Rpc<I extends Message, O extends Message> {
  private final ServiceDescriptor service;
  private final MethodDescriptor<I, O> method;

  /** The RPC of this name, of a service in the file of its request. */
  public Rpc(String service, String name, I request, O response) {
    this(request.getDescriptorForType().getFile().findServiceByName(service), name, request, response);
  }

  /** The RPC of this name, of a service in another file than that of its request. */
  Rpc(ServiceDescriptor service, String name, I request, O response) {
    this.service = service;
    var described = this.service.findMethodByName(name);
    this.method = MethodDescriptor.<I, O>newBuilder()
        .setType(typeOf(described))
        .setFullMethodName(MethodDescriptor.generateFullMethodName(this.service.getFullName(), name))
        .setRequestMarshaller(ProtoUtils.marshaller(request))
        .setResponseMarshaller(ProtoUtils.marshaller(response))
        .build();
  }

  private static MethodDescriptor.MethodType typeOf(com.google.protobuf.Descriptors.MethodDescriptor described) {
    if (described.isClientStreaming()) {
      return MethodDescriptor.MethodType.BIDI_STREAMING;
    }
    return described.isServerStreaming()
        ? MethodDescriptor.MethodType.SERVER_STREAMING
        : MethodDescriptor.MethodType.UNARY;
  }

  /** For gRPC's calls. */
  public MethodDescriptor<I, O> method() {
    return method;
  }

  ServiceDescriptor service() {
    return service;
  }

  String name() {
    return method.getBareMethodName();
  }

  /** What reflection reads of a service. */
  record Schema(ServiceDescriptor service) implements io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    @Override
    public ServiceDescriptor getServiceDescriptor() {
      return service;
    }

    @Override
    public FileDescriptor getFileDescriptor() {
      return service.getFile();
    }
  }
}
