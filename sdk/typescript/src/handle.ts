// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).

/** Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods. */
import { type CallOptions, ChannelCredentials, connectivityState, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { PodIdentity } from "./generated/trireme/v1/cycle.js";
import { HandleServiceClient } from "./generated/trireme/v1/frontend.js";
import { type Logger, makeLogger } from "./logging.js";
import { readCertificate, readPair, warnUnlessValid } from "./tls.js";
import { WatchedFiles } from "./watched_files.js";

const DEADLINE_MS = 5000;

/**
 * PEM files of a caller. Each request looks at them: a connection that is open goes on, the next one uses what they have.
 * Unix sockets are plain.
 */
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
  private readonly files: WatchedFiles<ChannelCredentials> | undefined;
  private credentials: ChannelCredentials;
  private client: HandleServiceClient;
  private readonly replaced = new Set<HandleServiceClient>();

  /** @throws Error naming the file or flag that cannot be used. */
  constructor(
    private readonly address: string,
    private readonly plugin: string,
    tls?: HandleTls,
    log: Logger = makeLogger(),
  ) {
    this.files = tls && !address.startsWith("unix:") ? watched(tls, log) : undefined;
    this.credentials = this.files?.contents ?? ChannelCredentials.createInsecure();
    this.client = this.open();
  }

  /** Ends this plugin's wait on permit for the pod; false if the pod does not wait. */
  allow(pod: PodName): Promise<boolean> {
    const request = { pod: identity(pod), plugin: this.plugin };
    return unlessNotFound((done) => this.current().allow(request, new Metadata(), deadline(), done));
  }

  /** Rejects a pod that waits on permit; false if the pod does not wait. */
  reject(pod: PodName, message: string): Promise<boolean> {
    const request = { pod: identity(pod), plugin: this.plugin, message };
    return unlessNotFound((done) => this.current().reject(request, new Metadata(), deadline(), done));
  }

  /**
   * Moves pods to the active queue at once, also during their back-off, and resolves with those that are tried next.
   * Left out are pods that are unknown, and those that an in-tree preEnqueue plugin or their group holds back.
   */
  async activate(pods: Iterable<PodName>): Promise<PodIdentity[]> {
    const request = { pods: [...pods].map(identity) };
    const response = await answer<{ activated: PodIdentity[] }>((done) =>
      this.current().activate(request, new Metadata(), deadline(), done),
    );
    return response.activated;
  }

  /** Closes the connection. */
  close(): void {
    for (const client of [this.client, ...this.replaced]) client.close();
  }

  private open(): HandleServiceClient {
    return new HandleServiceClient(this.address, this.credentials, { "grpc.enable_http_proxy": 0 });
  }

  /**
   * The client for a request. One that is not connected, perhaps since the files before are refused, is replaced once
   * they have changed: gRPC itself would try again with those before, after two minutes at worst.
   */
  private current(): HandleServiceClient {
    this.files?.poll();
    const credentials = this.files?.contents ?? this.credentials;
    if (credentials === this.credentials) return this.client;
    if (this.client.getChannel().getConnectivityState(false) === connectivityState.READY) return this.client;
    const former = this.client;
    this.replaced.add(former);
    // By then its requests have ended; closing cancels those that wait for the connection.
    setTimeout(() => {
      this.replaced.delete(former);
      former.close();
    }, DEADLINE_MS).unref();
    this.credentials = credentials;
    this.client = this.open();
    return this.client;
  }
}

function identity({ namespace, name, uid }: PodName): PodIdentity {
  return PodIdentity.create({ namespace, name, uid });
}

function watched(tls: HandleTls, log: Logger): WatchedFiles<ChannelCredentials> {
  const paths = [tls.ca, tls.certificate, tls.privateKey].filter((path) => path !== undefined);
  return new WatchedFiles(paths, () => clientCredentials(tls, log), log);
}

function clientCredentials({ ca, certificate, privateKey }: HandleTls, log: Logger): ChannelCredentials {
  const authority = ca === undefined ? null : readCertificate("--handle-ca-file", ca).contents;
  if (certificate === undefined && privateKey === undefined) return ChannelCredentials.createSsl(authority);
  if (certificate === undefined || privateKey === undefined) {
    throw new Error("--tls-cert-file and --tls-private-key-file need each other");
  }
  const pair = readPair(certificate, privateKey);
  const credentials = ChannelCredentials.createSsl(authority, pair.privateKey, pair.certificate);
  warnUnlessValid(log, certificate, pair.parsed, "the scheduler refuses");
  return credentials;
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
