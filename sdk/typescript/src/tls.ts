// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).

/** TLS of the server: PEM files that are read again when they change, and the callers that are let in. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
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
import { WatchedFiles } from "./watched_files.js";

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

/** The contents of the files, for a server. */
export class ReloadedFiles implements experimental.CertificateProvider {
  private readonly caListeners = new Set<CaListener>();
  private readonly identityListeners = new Set<IdentityListener>();
  private readonly watched: WatchedFiles<Contents>;
  private readonly timer: NodeJS.Timeout;

  /** @throws Error naming the file or flag that cannot be used. */
  constructor(files: TlsFiles, log: Logger) {
    const { certificate, privateKey, clientCa } = files;
    const paths = [certificate, privateKey, ...(clientCa ? [clientCa] : [])];
    this.watched = new WatchedFiles(paths, () => readContents(files, log), log);
    this.timer = setInterval(() => this.poll(), POLL_MS).unref();
  }

  /** Stops looking at the files. */
  close(): void {
    clearInterval(this.timer);
  }

  addCaCertificateListener(listener: CaListener): void {
    this.caListeners.add(listener);
    // Not at once: the server takes no note of what comes while it adds its listeners, and then has no certificate.
    process.nextTick(() => listener(this.watched.contents));
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.caListeners.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.identityListeners.add(listener);
    process.nextTick(() => listener(this.watched.contents));
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.identityListeners.delete(listener);
  }

  /** Reads the files again if one has changed. */
  poll(): void {
    if (!this.watched.poll()) return;
    for (const listener of this.caListeners) listener(this.watched.contents);
    for (const listener of this.identityListeners) listener(this.watched.contents);
  }
}

function readContents({ certificate, privateKey, clientCa }: TlsFiles, log: Logger): Contents {
  const pair = readPair(certificate, privateKey);
  const caCertificate = clientCa ? readCertificate("--client-ca-file", clientCa).contents : Buffer.alloc(0);
  try {
    createSecureContext({ cert: pair.certificate, key: pair.privateKey, ca: caCertificate });
  } catch (error) {
    const used = [certificate, privateKey, ...(clientCa ? [clientCa] : [])].join(", ");
    throw new Error(`${used}: cannot be used for TLS: ${message(error)}`);
  }
  warnUnlessValid(log, certificate, pair.parsed, "callers refuse");
  return { certificate: pair.certificate, privateKey: pair.privateKey, caCertificate };
}

/** A certificate and its key, PEM. @throws Error naming flag and file that cannot be used. */
export function readPair(certificate: string, privateKey: string) {
  const { contents, parsed } = readCertificate("--tls-cert-file", certificate);
  const key = readFile("--tls-private-key-file", privateKey);
  let parsedKey: KeyObject;
  try {
    parsedKey = createPrivateKey(key);
  } catch {
    throw new Error(`--tls-private-key-file: ${privateKey}: has no PEM private key without a password`);
  }
  if (!parsed.checkPrivateKey(parsedKey)) {
    const both = `--tls-cert-file ${certificate} and --tls-private-key-file ${privateKey}`;
    throw new Error(`${both} do not belong together: use the key that the certificate was issued for`);
  }
  return { certificate: contents, privateKey: key, parsed };
}

/** The contents of a PEM file, and its first certificate. @throws Error naming flag and file. */
export function readCertificate(flag: string, path: string): { contents: Buffer; parsed: X509Certificate } {
  const contents = readFile(flag, path);
  try {
    return { contents, parsed: new X509Certificate(contents) };
  } catch {
    throw new Error(`${flag}: ${path}: has no PEM certificate`);
  }
}

function readFile(flag: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`${flag}: ${path}: ${message(error)}`);
  }
}

/** Logs that the others refuse the certificate, if its time has passed or has not come. */
export function warnUnlessValid(
  log: Logger,
  file: string,
  { validFrom, validTo }: X509Certificate,
  refuse: "callers refuse" | "the scheduler refuses",
): void {
  const now = new Date();
  if (now > new Date(validTo)) {
    log.warn(`the certificate has expired: ${refuse} it until the file is replaced`, { file, ended: validTo });
  } else if (now < new Date(validFrom)) {
    log.warn(`the certificate is not valid yet: ${refuse} it until then`, { file, begins: validFrom });
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

type CreateCredentials = (
  identity: experimental.CertificateProvider,
  ca: experimental.CertificateProvider | null,
  requireClientCertificate: boolean,
) => ServerCredentials;

/** The server's credentials of these files. */
export function serverCredentials(files: TlsFiles, reloaded: ReloadedFiles): ServerCredentials {
  const authority = files.clientCa ? reloaded : null;
  // The names and types of the parameters are the other way round, but this is the order in which they are used. Without
  // an authority no certificate is requested of the caller.
  const create = experimental.createCertificateProviderServerCredentials as unknown as CreateCredentials;
  return create(reloaded, authority, authority !== null);
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
