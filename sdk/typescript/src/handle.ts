/** Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods. */
import { type CallOptions, ChannelCredentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { PodIdentity } from "./generated/trireme/v1/cycle.js";
import { HandleServiceClient } from "./generated/trireme/v1/frontend.js";
import { readCertificate, readPair } from "./tls.js";

const DEADLINE_MS = 5000;

/** PEM files of a caller; read when the handle is made. */
export interface HandleTls {
  /** The authority of the scheduler's certificate; unset: the system's. */
  readonly ca?: string;
  readonly certificate?: string;
  readonly privateKey?: string;
}

/** What names a pod; a pod message has it in its metadata. */
export type PodName = Pick<PodIdentity, "namespace" | "name" | "uid">;

/** A client of the scheduler's frontend, for one plugin. */
export class Handle {
  private readonly client: HandleServiceClient;

  constructor(
    address: string,
    private readonly plugin: string,
    tls?: HandleTls,
  ) {
    const credentials = tls ? clientCredentials(tls) : ChannelCredentials.createInsecure();
    this.client = new HandleServiceClient(address, credentials, { "grpc.enable_http_proxy": 0 });
  }

  /** Ends this plugin's wait on permit for the pod; false if the pod does not wait. */
  allow(pod: PodName): Promise<boolean> {
    const request = { pod: identity(pod), plugin: this.plugin };
    return unlessNotFound((done) => this.client.allow(request, new Metadata(), deadline(), done));
  }

  /** Rejects a pod that waits on permit; false if the pod does not wait. */
  reject(pod: PodName, message: string): Promise<boolean> {
    const request = { pod: identity(pod), plugin: this.plugin, message };
    return unlessNotFound((done) => this.client.reject(request, new Metadata(), deadline(), done));
  }

  /**
   * Moves pods to the active queue at once, also during their back-off, and resolves with those that are tried next.
   * Left out are pods that are unknown, and those that an in-tree preEnqueue plugin or their group holds back.
   */
  async activate(pods: Iterable<PodName>): Promise<PodIdentity[]> {
    const request = { pods: [...pods].map(identity) };
    const response = await answer<{ activated: PodIdentity[] }>((done) =>
      this.client.activate(request, new Metadata(), deadline(), done),
    );
    return response.activated;
  }

  /** Closes the connection. */
  close(): void {
    this.client.close();
  }
}

function identity({ namespace, name, uid }: PodName): PodIdentity {
  return PodIdentity.create({ namespace, name, uid });
}

function clientCredentials({ ca, certificate, privateKey }: HandleTls): ChannelCredentials {
  const authority = ca === undefined ? null : readCertificate("--handle-ca-file", ca).contents;
  if (certificate === undefined && privateKey === undefined) return ChannelCredentials.createSsl(authority);
  if (certificate === undefined || privateKey === undefined) {
    throw new Error("--tls-cert-file and --tls-private-key-file need each other");
  }
  const pair = readPair(certificate, privateKey);
  return ChannelCredentials.createSsl(authority, pair.privateKey, pair.certificate);
}

function deadline(): Partial<CallOptions> {
  return { deadline: Date.now() + DEADLINE_MS };
}

type Done<T> = (error: ServiceError | null, response: T) => void;

function answer<T>(call: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => call((error, response) => (error ? reject(error) : resolve(response))));
}

async function unlessNotFound(call: (done: Done<unknown>) => void): Promise<boolean> {
  try {
    await answer(call);
    return true;
  } catch (error) {
    if ((error as ServiceError).code === status.NOT_FOUND) return false;
    throw error;
  }
}
