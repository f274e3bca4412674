// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).

/** Reflection with the descriptors of the contract, so that grpcurl shows and calls the plugin. */
import { readFileSync } from "node:fs";
import type { Server } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

const CONTRACT = new URL("../contract.binpb", import.meta.url);

/** Serves reflection about these services, by full name. */
export function addReflection(server: Server, services: readonly string[]): void {
  const fileDescriptorProtos = readFiles(readFileSync(CONTRACT));
  // A package definition lists definitions with the files they are in; of these only the files are read.
  const definition = { contract: { fileDescriptorProtos, format: "Protocol Buffer 3 DescriptorProto", type: {} } };
  new ReflectionService(definition as never, { services: [...services] }).addToServer(server);
}

/** The files of a FileDescriptorSet, each still encoded. */
function readFiles(descriptorSet: Uint8Array): Buffer[] {
  const reader = new BinaryReader(descriptorSet);
  const files: Buffer[] = [];
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === 1 && type === WireType.LengthDelimited) files.push(Buffer.from(reader.bytes()));
    else reader.skip(type, number);
  }
  return files;
}
