/** A plugin served on a free port, and clients of its services. */
import type { TestContext } from "node:test";
import { ChannelCredentials, Client, Metadata, type ServiceError } from "@grpc/grpc-js";
import { type Plugin, serve, type ServeOptions, silentLogger } from "../src/index.js";
import * as v1 from "../src/v1.js";

type AnyMethod = { path: string; requestSerialize: (v: any) => Buffer; responseDeserialize: (v: Buffer) => any };

/** Serves the plugin for the duration of the test. */
export async function started(
  test: TestContext,
  plugin: Plugin,
  options: ServeOptions = {},
): Promise<{ address: string; call: (method: AnyMethod, request: object, deadlineMs?: number, headers?: Metadata) => Promise<any> }> {
  const server = await serve(plugin, { log: silentLogger, ...options });
  const client = new Client(server.address, ChannelCredentials.createInsecure());
  test.after(async () => {
    client.close();
    await server.stop();
  });
  const call = (method: AnyMethod, request: object, deadlineMs = 10_000, headers = new Metadata()): Promise<any> =>
    new Promise((resolve, reject) => {
      const { path, requestSerialize, responseDeserialize } = method;
      const options = { deadline: Date.now() + deadlineMs };
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, headers, options, (error, response) =>
        error ? reject(error) : resolve(response),
      );
    });
  return { address: server.address, call };
}

/** The error of a call that fails. */
export async function errorOf(call: Promise<unknown>): Promise<ServiceError> {
  return call.then(
    () => {
      throw new Error("the call succeeded");
    },
    (error: ServiceError) => error,
  );
}

/** A cycle of the contract with these fields. */
export function cycle(fields: Partial<v1.Cycle> = {}): v1.Cycle {
  return v1.Cycle.fromPartial({ profile: "default-scheduler", generation: 3n, ...fields } as object);
}

/** A selection of nodes by name. */
export function nodes(...names: string[]): v1.NodeSelection {
  return v1.NodeSelection.fromPartial({ nodes: names.map((name) => ({ name })) });
}
