import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ChannelCredentials, Client, experimental } from "@grpc/grpc-js";
import { Handle, makeLogger, type Plugin, serve, silentLogger } from "../src/index.js";
import { ReloadedFiles } from "../src/tls.js";

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
