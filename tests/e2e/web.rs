//! A judge that sends requests, in a run: to a TLS server on this machine, as the lock says.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, files_below, guest, holds, missing, need, python, wasm};

/// As no other text has it.
const VALUE: &str = "tok_4b7e02d95fa1c386";

/// Answers each request with the `authorization` that came with it.
const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("you said " + self.headers.get("authorization", "nothing")).encode()
        with open("asked", "ab") as asked:
            asked.write(self.path.encode() + b" " + body + b"\n")
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Ended when dropped.
struct Server {
    child: Child,
    port: u16,
    /// Its own, so that a search of the run's space does not find what it was asked.
    space: Space,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server() -> Option<Server> {
    let python = python()?;
    let space = Space::new();
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem \
                 -out cert.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                 -addext basicConstraints=critical,CA:FALSE";
    let made = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(space.dir())
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        missing("OPENSSL", "there is no openssl that makes a certificate");
        return None;
    }
    let mut command = space.any_command(python.join("python3"), ["-c", SERVER]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says its port");
    let port = line.trim_end().parse().expect("a port");
    Some(Server { child, port, space })
}

impl Server {
    fn origin(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.space.path("asked")).unwrap_or_default()
    }

    /// A place with the judge, which may ask this server.
    fn asking(&self, options: Value) -> Option<Space> {
        let bytes = fs::read(guest("web")?).expect("reads");
        let mut manifest = wasm::manifest(&bytes);
        manifest["http"] = json!([{"to": self.origin(), "methods": ["GET"], "private": true}]);
        manifest["secret"] = json!([{"name": "token", "about": "For tests.", "to": [self.origin()]}]);
        let space = Space::new();
        space.write("web.wasm", wasm::with_manifest(&bytes, &manifest));
        Eval::new()
            .judges(json!([{"id": "web", "plugin": "test/judge/web", "options": options}]))
            .write(&space);
        let bind = ["plugin", "add", "web.wasm", "--grant", "all", "--bind", "secret:token=env:ACME_TOKEN"];
        space.mst(bind).exits(0);
        Some(space)
    }

    fn run(&self, space: &Space) -> Output {
        let mut command = space.command(["run", "eval.yaml"]);
        command.env("ACME_TOKEN", VALUE).env("SSL_CERT_FILE", self.space.path("cert.pem"));
        space.finish(command)
    }
}

#[test]
fn a_request_of_a_run_has_its_secret_and_the_run_has_it_not() {
    let server = need!(server());
    let url = format!("{}/hello?q=private", server.origin());
    let space =
        need!(server.asking(json!({"url": url, "headers": {"authorization": "Bearer {{secret:token}}"}})));
    let output = server.run(&space).exits(0);
    assert_eq!(server.asked(), format!("/hello?q=private you said Bearer {VALUE}\n"));
    let run = space.run();
    let told = run.grade("web", "a/v/0")["verdict"]["reason"].as_str().expect("a verdict").to_owned();
    assert!(told.starts_with("status: 200\n"), "{told}");
    assert!(told.ends_with(&format!("you said Bearer {}", "*".repeat(VALUE.len()))), "{told}");
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    let root = space.dir().parent().expect("a root").to_owned();
    for path in files_below(&root) {
        assert!(!holds(&fs::read(&path).expect("reads"), VALUE), "{}", path.display());
    }
    let audit = fs::read_to_string(run.dir().join("audit.jsonl")).expect("an audit");
    assert!(
        audit.contains(&format!("GET {}/hello", server.origin())) && !audit.contains("private"),
        "{audit}"
    );
}

#[test]
fn a_request_that_was_taken_back_is_not_sent() {
    let server = need!(server());
    let space = need!(server.asking(json!({"url": format!("{}/", server.origin())})));
    let key = format!("http:{}", server.origin());
    space.mst(["plugin", "revoke", "test/judge/web", &key]).exits(0);
    let output = server.run(&space).exits(106);
    let said = format!("`mst plugin grant test/judge/web '{key}'` would grant it");
    let bare = said.replace('\'', "");
    assert_eq!(output.stdout.matches(&said).count() + output.stdout.matches(&bare).count(), 1, "{output}");
    assert_eq!(server.asked(), "");
    space.mst(["plugin", "grant", "test/judge/web", &key]).exits(0);
    server.run(&space).exits(0);
    assert_eq!(server.asked(), "/ you said nothing\n");
}
