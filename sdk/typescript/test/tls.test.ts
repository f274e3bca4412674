import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { ChannelCredentials, Client, connectivityState, experimental, Server, ServerCredentials } from "@grpc/grpc-js";
import { Handle, makeLogger, type Plugin, serve, silentLogger } from "../src/index.js";
import { ReloadedFiles } from "../src/tls.js";
import * as v1 from "../src/v1.js";
import { started } from "./serving.js";

const folder = mkdtempSync(join(tmpdir(), "trireme-sdk-"));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string) => join(folder, name);
const plugin: Plugin = { info: { name: "P" }, filter: () => undefined };

// An authority, pairs by it, and files that are no certificates.
const openssl = (command: string) => execFileSync("openssl", command.split(" "), { cwd: folder, stdio: "pipe" });
const key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
const sign = "x509 -req -CA ca.crt -CAkey ca.key -set_serial 7 -extfile names";
writeFileSync(file("names"), "subjectAltName=IP:127.0.0.1");
openssl(`req -x509 ${key} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority`);
for (const name of ["one", "two"]) {
  openssl(`req ${key} -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`);
  openssl(`${sign} -in ${name}.csr -days 2 -out ${name}.crt`);
}
openssl(`${sign} -in one.csr -days -1 -out expired.crt`);
writeFileSync(file("empty"), "");
writeFileSync(file("text"), "no PEM");

/** A logger, and what it has written. */
function collected() {
  const lines: string[] = [];
  return { lines, log: makeLogger("text", "info", (line) => void lines.push(line)) };
}

for (const [certificate, privateKey, clientCa, problem] of [
  ["ca.crt", "one.key", undefined, "--tls-cert-file DIR/ca.crt and --tls-private-key-file DIR/one.key do not belong together"],
  ["empty", "one.key", undefined, "--tls-cert-file: DIR/empty: has no PEM certificate"],
  ["text", "one.key", undefined, "--tls-cert-file: DIR/text: has no PEM certificate"],
  ["none", "one.key", undefined, "--tls-cert-file: DIR/none: ENOENT"],
  ["one.crt", "empty", undefined, "--tls-private-key-file: DIR/empty: has no PEM private key"],
  ["one.crt", "one.crt", undefined, "--tls-private-key-file: DIR/one.crt: has no PEM private key"],
  ["one.crt", "none", undefined, "--tls-private-key-file: DIR/none: ENOENT"],
  ["one.crt", "one.key", "empty", "--client-ca-file: DIR/empty: has no PEM certificate"],
  ["one.crt", "one.key", "text", "--client-ca-file: DIR/text: has no PEM certificate"],
  ["one.crt", "one.key", "none", "--client-ca-file: DIR/none: ENOENT"],
] as const) {
  test(`a plugin does not start with ${certificate}, ${privateKey} and ${clientCa}`, async () => {
    const tls = { certificate: file(certificate), privateKey: file(privateKey), clientCa: clientCa && file(clientCa) };
    await assert.rejects(serve(plugin, { log: silentLogger, tls }), (error: Error) => {
      return error.message.startsWith(problem.replaceAll("DIR", folder)) || assert.fail(error.message);
    });
  });
}

test("a handle is not made with a certificate and the key of another", () => {
  const tls = { ca: file("ca.crt"), certificate: file("one.crt"), privateKey: file("two.key") };
  assert.throws(() => new Handle("127.0.0.1:1", "P", tls), /do not belong together/);
  assert.throws(() => new Handle("127.0.0.1:1", "P", { ...tls, privateKey: undefined }), /need each other/);
  assert.throws(() => new Handle("127.0.0.1:1", "P", { ca: file("text") }), /--handle-ca-file: .*text: has no PEM certificate/);
});

// An authority of each name, and a pair by it for 127.0.0.1.
const authorities = ["before", "after"] as const;
for (const name of authorities) {
  openssl(`req -x509 ${key} -keyout ${name}-ca.key -out ${name}-ca.crt -days 2 -subj /CN=${name}`);
  openssl(`req ${key} -keyout ${name}-tls.key -out ${name}-tls.csr -subj /CN=${name}`);
  openssl(
    `x509 -req -CA ${name}-ca.crt -CAkey ${name}-ca.key -set_serial 7 -extfile names -in ${name}-tls.csr -days 2 -out ${name}-tls.crt`,
  );
}

/** A frontend that allows every pod, with a pair and an authority of callers; its port, and what ends it. */
async function frontend(t: TestContext, name: (typeof authorities)[number], port = 0) {
  const server = new Server();
  server.addService(v1.HandleServiceService, {
    allow: (_: unknown, done: (error: null, response: object) => void) => done(null, {}),
    reject: () => assert.fail(),
    activate: () => assert.fail(),
  });
  const [ca, certificate, privateKey] = ["ca.crt", "tls.crt", "tls.key"].map((end) => readFileSync(file(`${name}-${end}`)));
  const credentials = ServerCredentials.createSsl(ca!, [{ cert_chain: certificate!, private_key: privateKey! }], true);
  t.after(() => server.forceShutdown());
  const chosen = await new Promise<number>((resolve, reject) =>
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) => (error ? reject(error) : resolve(bound))),
  );
  return { port: chosen, server };
}

/** Replaces files of the handle by those of an authority. */
function put(name: (typeof authorities)[number], ...ends: string[]) {
  for (const end of ends) {
    rmSync(file(`used-${end}`), { force: true });
    copyFileSync(file(`${name}-${end}`), file(`used-${end}`));
  }
}

const used = { ca: file("used-ca.crt"), certificate: file("used-tls.crt"), privateKey: file("used-tls.key") };
const pod = { namespace: "n", name: "a", uid: "u" };

test("the handle uses an authority, certificate and key that were replaced", async (t) => {
  const { lines, log } = collected();
  put("before", "ca.crt", "tls.crt", "tls.key");
  const { port, server } = await frontend(t, "before");
  const handle = new Handle(`127.0.0.1:${port}`, "P", used, log);
  t.after(() => handle.close());
  assert.ok(await handle.allow(pod));
  put("after", "tls.crt");
  assert.ok(await handle.allow(pod));
  assert.ok(await handle.allow(pod));
  assert.equal(lines.length, 1, lines.join(""));
  assert.match(lines[0]!, /those before stay in use.*do not belong together/);
  put("after", "ca.crt", "tls.key");
  assert.ok(await handle.allow(pod), "the open connection goes on, since its server has not changed yet");
  const { client } = handle as unknown as { client: Client };
  const ended = new Promise<void>((resolve, reject) => {
    const deadline = Date.now() + 60_000;
    client.getChannel().watchConnectivityState(connectivityState.READY, deadline, (error) => (error ? reject(error) : resolve()));
  });
  server.forceShutdown();
  await ended;
  await frontend(t, "after", port);
  assert.ok(await handle.allow(pod));
});

test("the handle uses files that are replaced after connections that were refused at once", async (t) => {
  const { port } = await frontend(t, "after");
  put("before", "ca.crt", "tls.crt", "tls.key");
  const handle = new Handle(`127.0.0.1:${port}`, "P", used, silentLogger);
  t.after(() => handle.close());
  for (let attempt = 0; attempt < 3; attempt++) await assert.rejects(handle.allow(pod));
  put("after", "ca.crt", "tls.crt", "tls.key");
  assert.ok(await handle.allow(pod));
});

test("on a Unix socket there is no TLS, and its files are not read", async (t) => {
  const none = { certificate: file("none"), privateKey: file("none"), clientCa: file("none") };
  const listen = `unix:${file("p.sock")}`;
  const { call } = await started(t, plugin, { listen, tls: none, allowedIdentities: ["filter"] });
  await call(v1.PluginServiceService.getPluginInfo, v1.GetPluginInfoRequest.fromPartial({}));
  new Handle(listen, "P", { ca: file("none"), certificate: file("none"), privateKey: file("none") }).close();
});

test("a caller without a certificate is served where there is no client CA", async (t) => {
  const tls = { certificate: file("one.crt"), privateKey: file("one.key") };
  const server = await serve(plugin, { log: silentLogger, tls });
  const client = new Client(server.address, ChannelCredentials.createSsl(readFileSync(file("ca.crt"))));
  t.after(async () => {
    client.close();
    await server.stop();
  });
  await new Promise<void>((resolve, reject) => {
    client.waitForReady(Date.now() + 30_000, (error) => (error ? reject(error) : resolve()));
  });
});

test("a pair that does not match leaves the pair before in use until it matches", (t) => {
  const { lines, log } = collected();
  const put = (from: string, to: string) => {
    rmSync(file(to), { force: true });
    copyFileSync(file(from), file(to));
  };
  put("one.crt", "tls.crt");
  put("one.key", "tls.key");
  const files = new ReloadedFiles({ certificate: file("tls.crt"), privateKey: file("tls.key") }, log);
  t.after(() => files.close());
  const used: string[] = [];
  const names = new Map(["one", "two"].map((name) => [readFileSync(file(`${name}.crt`), "utf8"), name]));
  const listener: experimental.IdentityCertificateUpdateListener = (update) => {
    used.push(names.get(String(update?.certificate)) ?? "another");
  };
  files.addIdentityCertificateListener(listener);
  put("two.crt", "tls.crt");
  files.poll();
  files.poll();
  assert.deepEqual(used, []);
  assert.equal(lines.length, 1, lines.join(""));
  assert.match(lines[0]!, /those before stay in use.*tls.crt and .*tls.key do not belong together/);
  put("two.key", "tls.key");
  files.poll();
  assert.deepEqual(used, ["two"]);
  rmSync(file("tls.crt"));
  files.poll();
  files.poll();
  assert.deepEqual([used, lines.length], [["two"], 3], lines.join(""));
});

test("an expired certificate is used and logged", () => {
  for (const [certificate, count] of [["one.crt", 0], ["expired.crt", 1]] as const) {
    const { lines, log } = collected();
    new ReloadedFiles({ certificate: file(certificate), privateKey: file("one.key") }, log).close();
    assert.equal(lines.filter((line) => /has expired.*expired.crt/.test(line)).length, count, lines.join(""));
  }
});
