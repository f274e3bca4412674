/** TLS of the server: PEM files that are read again when they change, and the callers that are let in. */
import { readFileSync, statSync } from "node:fs";
import { createSecureContext, type PeerCertificate } from "node:tls";
import {
  experimental,
  type Metadata,
  type ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  ServerListenerBuilder,
  status,
} from "@grpc/grpc-js";
import type { Logger } from "./logging.js";

/** How often the files are looked at, in milliseconds. */
const POLL_MS = 2000;

const HEALTH_CHECK = "/grpc.health.v1.Health/Check";

/** PEM files of a server. */
export interface TlsFiles {
  readonly certificate: string;
  readonly privateKey: string;
  /** The authority of callers' certificates; set: every caller must show one. */
  readonly clientCa?: string;
}

type CaListener = experimental.CaCertificateUpdateListener;
type IdentityListener = experimental.IdentityCertificateUpdateListener;

interface Contents {
  readonly certificate: Buffer;
  readonly privateKey: Buffer;
  readonly caCertificate: Buffer;
}

/** The contents of the files. A change that cannot be used is logged, and what was read before stays in use. */
export class ReloadedFiles implements experimental.CertificateProvider {
  private readonly caListeners = new Set<CaListener>();
  private readonly identityListeners = new Set<IdentityListener>();
  private contents: Contents;
  private seen: string;
  private readonly timer: NodeJS.Timeout;

  /** @throws Error naming the file or flag that cannot be used. */
  constructor(
    private readonly files: TlsFiles,
    private readonly log: Logger,
  ) {
    this.seen = this.stamp();
    this.contents = this.read();
    this.timer = setInterval(() => this.poll(), POLL_MS).unref();
  }

  /** Stops looking at the files. */
  close(): void {
    clearInterval(this.timer);
  }

  addCaCertificateListener(listener: CaListener): void {
    this.caListeners.add(listener);
    // Not at once: the server takes no note of what comes while it adds its listeners, and then has no certificate.
    process.nextTick(() => listener(this.contents));
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.caListeners.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.identityListeners.add(listener);
    process.nextTick(() => listener(this.contents));
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.identityListeners.delete(listener);
  }

  /** Reads the files again if one has changed. */
  poll(): void {
    try {
      const stamp = this.stamp();
      if (stamp === this.seen) return;
      this.contents = this.read();
      this.seen = stamp;
    } catch (error) {
      this.log.warn("changed TLS files cannot be used; those before stay in use", { error: String(error) });
      return;
    }
    this.log.info("TLS files were read again", { certificate: this.files.certificate });
    for (const listener of this.caListeners) listener(this.contents);
    for (const listener of this.identityListeners) listener(this.contents);
  }

  private stamp(): string {
    const { certificate, privateKey, clientCa } = this.files;
    return [certificate, privateKey, ...(clientCa ? [clientCa] : [])]
      .map((path) => {
        const found = statSync(path);
        return `${found.ino}/${found.mtimeMs}/${found.size}`;
      })
      .join();
  }

  private read(): Contents {
    const { certificate, privateKey, clientCa } = this.files;
    const contents = {
      certificate: readFileSync(certificate),
      privateKey: readFileSync(privateKey),
      caCertificate: clientCa ? readFileSync(clientCa) : Buffer.alloc(0),
    };
    try {
      createSecureContext({ cert: contents.certificate, key: contents.privateKey, ca: contents.caCertificate });
    } catch (error) {
      throw new Error(`${certificate} and ${privateKey} cannot be used together: ${String(error)}`);
    }
    return contents;
  }
}

type CreateCredentials = (
  ca: experimental.CertificateProvider | null,
  identity: experimental.CertificateProvider,
  requireClientCertificate: boolean,
) => ServerCredentials;

/** The server's credentials of these files. */
export function serverCredentials(files: TlsFiles, reloaded: ReloadedFiles): ServerCredentials {
  const authority = files.clientCa ? reloaded : null;
  // The types do not say that there may be no authority; then no certificate is requested of the caller.
  const create = experimental.createCertificateProviderServerCredentials as unknown as CreateCredentials;
  return create(authority, reloaded, authority !== null);
}

/** Lets in only callers whose certificate has one of these names; everybody that TLS accepts may check the health. */
export function identityInterceptor(allowed: ReadonlySet<string>, log: Logger): ServerInterceptor {
  return (method, call) => {
    if (method.path === HEALTH_CHECK) return new ServerInterceptingCall(call);
    return new ServerInterceptingCall(call, {
      start(next) {
        const onMetadata = (metadata: Metadata, pass: (metadata: Metadata) => void) => {
          const names = identitiesOf(call.getAuthContext().sslPeerCertificate);
          if (names.some((name) => allowed.has(name))) {
            pass(metadata);
            return;
          }
          log.warn("refused a call: the caller has none of the allowed identities", { identities: names });
          call.sendStatus({ code: status.PERMISSION_DENIED, details: "the client's identity is not allowed to call" });
        };
        next(new ServerListenerBuilder().withOnReceiveMetadata(onMetadata).build());
      },
    });
  };
}

/** The names in a certificate: DNS names, URIs, IP and e-mail addresses, and the common name. */
export function identitiesOf(certificate: Partial<PeerCertificate> | undefined): string[] {
  const alternatives = certificate?.subjectaltname?.split(", ") ?? [];
  const names = alternatives.map((entry) => entry.slice(entry.indexOf(":") + 1).replace(/^"|"$/g, ""));
  const common = certificate?.subject?.CN;
  return [...names, ...(common === undefined ? [] : [common].flat())];
}
