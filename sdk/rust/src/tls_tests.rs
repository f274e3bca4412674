//! Certificate files: what is wrong with them at the start, and what is in use after a change.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::{Path, PathBuf, Reloaded, SystemTime, TlsFiles, identities};

/// A folder with an authority, pairs by it, and files that are no certificates; removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("trireme-sdk-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&folder, &format!("req -x509 {key} -keyout ca.key -out ca.crt -days 2 -subj /CN=authority"));
        let sign = "x509 -req -CA ca.crt -CAkey ca.key -set_serial 7 -extfile names";
        fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap(); // without extensions it is of version 1
        for name in ["one", "two"] {
            openssl(&folder, &format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
            openssl(&folder, &format!("{sign} -in {name}.csr -days 2 -out {name}.crt"));
        }
        openssl(&folder, &format!("{sign} -in one.csr -days -1 -out expired.crt"));
        fs::write(folder.join("empty"), "").unwrap();
        fs::write(folder.join("text"), "no PEM").unwrap();
        Self(folder)
    }

    fn files(&self, certificate: &str, private_key: &str, client_ca: &str) -> TlsFiles {
        let client_ca = (!client_ca.is_empty()).then(|| self.0.join(client_ca));
        let (certificate, private_key) = (self.0.join(certificate), self.0.join(private_key));
        TlsFiles { certificate, private_key, client_ca, allowed_identities: Vec::new() }
    }

    /// Copies a file, with a time that no copy before has.
    fn put(&self, from: &str, to: &str, age: u64) {
        fs::copy(self.0.join(from), self.0.join(to)).unwrap();
        let changed = SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::options().write(true).open(self.0.join(to)).unwrap().set_modified(changed).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let ended = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output();
    let ended = ended.expect("openssl is installed: the test makes its certificates with it");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// What this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn collect(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone());
        tracing::subscriber::set_default(lines.finish())
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(String::from).collect()
    }
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A plugin that starts with such files fails every handshake, and nobody knows why.
#[test]
fn files_that_cannot_be_used_are_refused_by_name() {
    let folder = Folder::new("refused");
    for (certificate, key, ca, problem) in [
        ("ca.crt", "one.key", "", "--tls-cert-file DIR/ca.crt and --tls-private-key-file DIR/one.key do not belong together"),
        ("empty", "one.key", "", "--tls-cert-file: DIR/empty: has no PEM certificate"),
        ("text", "one.key", "", "--tls-cert-file: DIR/text: has no PEM certificate"),
        ("none", "one.key", "", "--tls-cert-file: DIR/none: "),
        ("one.crt", "empty", "", "--tls-private-key-file: DIR/empty: has no PEM private key"),
        ("one.crt", "one.crt", "", "--tls-private-key-file: DIR/one.crt: has no PEM private key"),
        ("one.crt", "none", "", "--tls-private-key-file: DIR/none: "),
        ("one.crt", "one.key", "empty", "--client-ca-file: DIR/empty: has no PEM certificate"),
        ("one.crt", "one.key", "text", "--client-ca-file: DIR/text: has no PEM certificate"),
        ("one.crt", "one.key", "none", "--client-ca-file: DIR/none: "),
    ] {
        let error = Reloaded::new(&folder.files(certificate, key, ca)).unwrap_err();
        assert!(error.starts_with(&problem.replace("DIR", folder.0.to_str().unwrap())), "{error} is not {problem}");
    }
}

/// A certificate and its key are replaced one after the other.
#[test]
fn a_pair_that_does_not_match_leaves_the_pair_before_in_use_until_it_matches() {
    let (folder, log) = (Folder::new("reloaded"), Log::default());
    let _collecting = log.collect();
    folder.put("one.crt", "tls.crt", 50);
    folder.put("one.key", "tls.key", 50);
    let reloaded = Reloaded::new(&folder.files("tls.crt", "tls.key", "")).unwrap();
    let in_use = || reloaded.refresh(|current| identities(&current.contents.pair.cert[0]));
    assert_eq!((in_use(), log.lines().len()), (vec!["one".into()], 0));
    folder.put("two.crt", "tls.crt", 40);
    assert_eq!((in_use(), in_use()), (vec!["one".into()], vec!["one".into()]));
    let lines = log.lines();
    assert!(lines.len() == 1 && lines[0].contains("those before stay in use"), "{lines:?}");
    assert!(lines[0].contains("tls.key do not belong together"), "{lines:?}");
    folder.put("two.key", "tls.key", 40);
    assert_eq!(in_use(), ["two"]);
    fs::remove_file(folder.0.join("tls.crt")).unwrap();
    assert_eq!((in_use(), in_use(), log.lines().len()), (vec!["two".into()], vec!["two".into()], 3));
}

/// Callers refuse it, and the plugin does not learn why.
#[test]
fn an_expired_certificate_is_used_and_logged() {
    let (folder, log) = (Folder::new("expired"), Log::default());
    let _collecting = log.collect();
    Reloaded::new(&folder.files("one.crt", "one.key", "ca.crt")).unwrap();
    assert!(log.lines().is_empty(), "{:?}", log.lines());
    Reloaded::new(&folder.files("expired.crt", "one.key", "")).unwrap();
    let lines = log.lines();
    assert!(lines.len() == 1 && lines[0].contains("has expired") && lines[0].contains("expired.crt"), "{lines:?}");
}
