//! Requests of a plugin's, to a real TLS server on this machine: what is sent, what is not, and what
//! the audit and the plugin get to know.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mst_model::audit::{AuditCall, Caller, Decision, Phase};
use mst_plugin::{Bindings, Granted, Manifest, PluginFile, Source};
use mst_sandbox::{
    AuditSink, CallError, JudgeError, JudgePlugin, LimitKind, Limits, Permit, SecretValue, Secrets, Sinks,
    Trust,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::hostile::built;
use crate::world::{Endless, Heard, LONG, Trial, sandbox};

/// As no other text has it.
const TOKEN: &str = "tok_9d1f6c3ab4e2";

fn web() -> Option<&'static PluginFile> {
    static FILE: OnceLock<Option<PluginFile>> = OnceLock::new();
    FILE.get_or_init(|| built("web")).as_ref()
}

/// A server that has a certificate for `localhost`, and keeps what it was asked.
struct Server {
    port: u16,
    pem: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers each request by its path.
    async fn start() -> Server {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate");
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, kept) = (tls.clone(), kept.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = tls.accept(stream).await else { return };
                    let mut head = Vec::new();
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
                    let mut body = Vec::new();
                    while head.starts_with("POST") && !body.ends_with(b"0\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => body.push(byte),
                            Err(_) => return,
                        }
                    }
                    let path = head.split_whitespace().nth(1).unwrap_or_default();
                    let path = path.split('?').next().unwrap_or_default().to_owned();
                    let _ = answer(&mut stream, &path, &head).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Server { port, pem: made.cert.pem(), asked }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(stream: &mut (impl tokio::io::AsyncWrite + Unpin), path: &str, head: &str) -> io::Result<()> {
    let authorization =
        head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("none").to_owned();
    match path {
        "/hello" => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await,
        "/metadata" => {
            let to = "HTTP/1.1 302 Found\r\nlocation: https://169.254.169.254/latest/meta-data/\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(to.as_bytes()).await
        }
        // In pieces, so that borders of chunks go through the value.
        "/echo" => {
            let head = format!(
                "HTTP/1.1 401 Unauthorized\r\nx-you-said: {authorization}\r\ntransfer-encoding: chunked\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            for piece in format!("you said {authorization}, twice {authorization}").as_bytes().chunks(5) {
                stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                stream.write_all(piece).await?;
                stream.write_all(b"\r\n").await?;
                stream.flush().await?;
                tokio::task::yield_now().await;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
        "/silent" => std::future::pending().await,
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await,
    }
}

#[derive(Default)]
struct Kept(Mutex<Vec<AuditCall>>);

impl AuditSink for Kept {
    fn append(&self, _: &Caller, calls: &[AuditCall]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(calls);
        Ok(())
    }
}

struct Token;

#[async_trait]
impl Secrets for Token {
    async fn value(&self, source: &Source) -> Result<SecretValue, String> {
        match source {
            Source::Env(name) if name == "TOKEN" => SecretValue::new(TOKEN.to_owned()),
            other => Err(format!("`{other}` is not here")),
        }
    }
}

/// What came of one call.
struct Came {
    /// What the plugin told, or why it told nothing.
    told: Result<String, CallError>,
    calls: Vec<AuditCall>,
}

impl Came {
    fn told(&self) -> &str {
        self.told.as_deref().unwrap_or_else(|error| panic!("{error}"))
    }

    fn denied(&self) -> String {
        match &self.told {
            Err(CallError::Denied { denial, .. }) => denial.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// The line of a call that ended.
    fn line(&self, call: &str) -> &AuditCall {
        let mut lines = self.calls.iter().filter(|line| line.call == call && line.phase == Phase::Ended);
        lines.next().unwrap_or_else(|| panic!("no {call} in {:#?}", self.calls))
    }

    /// Nothing that anybody keeps has the secret in it.
    fn keeps_quiet(&self) {
        let all = format!("{:?} {:?}", self.told, self.calls);
        assert!(!all.contains(TOKEN), "{all}");
        assert!(!serde_json::to_string(&self.calls).expect("JSON").contains(TOKEN));
    }
}

struct World<'a> {
    server: &'a Server,
    requests: String,
    limits: Limits,
    time: Duration,
    trusts: bool,
}

impl World<'_> {
    /// A plugin that may ask the server.
    fn of(server: &Server) -> World<'_> {
        let requests = format!(
            "[[http]]\nto = 'https://localhost:{0}'\nmethods = ['GET', 'POST']\nprivate = true\n\
             [[secret]]\nname = 'token'\nabout = 'For tests.'\nto = ['https://localhost:{0}']\n",
            server.port
        );
        World { server, requests, limits: Limits::default(), time: LONG, trusts: true }
    }

    async fn asks(&self, options: Value) -> Option<Came> {
        let file = web()?;
        let manifest = Manifest::from_toml(&format!(
            "id='test/judge/web'\nversion='0.1.0'\nworld='judge'\ndescription='Tests.'\n{}",
            self.requests
        ));
        let manifest = Arc::new(manifest.unwrap_or_else(|error| panic!("{error}")));
        let secrets =
            manifest.secrets.iter().map(|secret| (secret.name.clone(), Source::Env("TOKEN".to_owned())));
        let bindings = Bindings { dirs: BTreeMap::new(), secrets: secrets.collect() };
        let granted = Arc::new(Granted::all(manifest).bound(bindings));
        let trust = if self.trusts { Trust::of_pem(self.server.pem.as_bytes()) } else { Trust::public() };
        let permit =
            Permit { secrets: Arc::new(Token), trust: Some(trust.expect("trust")), ..Permit::new(granted) };
        let kept = Arc::new(Kept::default());
        let sinks = Sinks { log: Arc::new(Heard::default()), audit: kept.clone() };
        let sandbox = sandbox(self.limits.clone());
        let (judge, _) = JudgePlugin::load(&sandbox, file, &permit).unwrap_or_else(|error| panic!("{error}"));
        let mut whole = json!({"method": "GET", "headers": {}, "body": 0, "follow": false});
        let map = whole.as_object_mut().expect("an object");
        map.extend(options.as_object().expect("an object").clone());
        let trial = Arc::new(Trial::new("yes"));
        let judged = judge.judge(trial, Arc::new(Endless::default()), &whole.into(), self.time, &sinks).await;
        let told = match judged {
            Ok(verdict) => Ok(verdict.reason),
            Err(JudgeError::Call(error)) => Err(error),
            Err(JudgeError::Load(error)) => panic!("{error}"),
        };
        drop(judge);
        let calls = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Came { told, calls })
    }
}

#[tokio::test]
async fn a_request_that_is_granted_is_sent_and_in_the_audit() {
    let server = Server::start().await;
    let Some(came) = World::of(&server).asks(json!({"url": server.url("/hello?q=private")})).await else {
        return;
    };
    assert_eq!(came.told(), "status: 200\ncontent-length: 5\n5 bytes\nhello");
    let line = came.line("http.request");
    let origin = format!("https://localhost:{}", server.port);
    assert_eq!(line.rule, format!("`http:{origin}` is granted"));
    assert_eq!(line.args, format!("GET {origin}/hello"), "what is behind the `?` is not kept");
    assert_eq!((&*line.result, line.bytes_in), ("ok", 5));
    let asks = line.asks.as_ref().expect("a request");
    assert_eq!((asks.request.as_str(), asks.access.as_deref()), (&*format!("http:{origin}"), Some("GET")));
    let begun = came.calls.iter().position(|call| call.call == "http.request").expect("a line");
    assert_eq!(came.calls[begun].phase, Phase::Begun, "it was written before it was sent");
    assert!(server.asked()[0].starts_with("GET /hello?q=private HTTP/1.1\r\n"));
    let world = World::of(&server);
    let body = world.asks(json!({"url": server.url("/hello"), "method": "POST", "body": 10_000}));
    let line = body.await.expect("a toolchain").line("http.request").clone();
    assert_eq!(line.bytes_out, 10_000);
}

#[tokio::test]
async fn what_is_not_on_the_list_is_denied_and_nothing_is_sent() {
    let server = Server::start().await;
    let origin = format!("https://localhost:{}", server.port);
    for (options, words) in [
        (json!({"url": "https://example.com/"}), "`[[http]]` for that host"),
        (json!({"url": "https://localhost/"}), "`[[http]]` for that host"),
        (json!({"url": format!("https://127.0.0.1:{}/", server.port)}), "`[[http]]` for that host"),
        (json!({"url": format!("https://localhost.:{}/", server.port)}), "`[[http]]` for that host"),
        (json!({"url": server.url("/hello"), "method": "DELETE"}), "and not by `DELETE`"),
        (json!({"url": server.url("/hello"), "method": "get"}), "and not by `get`"),
        (json!({"url": server.url("/hello"), "method": "TRACE"}), "and not by `TRACE`"),
    ] {
        let Some(came) = World::of(&server).asks(options.clone()).await else { return };
        assert!(came.denied().contains(words), "{options}: {}", came.denied());
        assert_eq!(came.line("http.request").decision, Decision::Denied);
    }
    // What is no request that could be decided on is none.
    for url in
        [format!("http://localhost:{}/hello", server.port), origin.replace("localhost", "user@localhost")]
    {
        let came = World::of(&server).asks(json!({"url": url})).await.expect("a toolchain");
        assert!(came.told().starts_with("error: "), "{}", came.told());
    }
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_unless_it_is_meant() {
    let server = Server::start().await;
    let mut world = World::of(&server);
    world.requests = format!("[[http]]\nto = 'https://localhost:{}'\nmethods = ['GET']\n", server.port);
    let Some(came) = world.asks(json!({"url": server.url("/hello")})).await else { return };
    assert!(came.denied().contains("a loopback address"), "{}", came.denied());
    let line = came.line("http.request");
    assert_eq!((line.decision, &*line.result), (Decision::Denied, "denied"));
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test]
async fn no_redirect_leads_to_the_metadata_service() {
    let server = Server::start().await;
    let world = World::of(&server);
    // Nobody follows one for the plugin.
    let Some(came) = world.asks(json!({"url": server.url("/metadata")})).await else { return };
    assert!(came.told().starts_with("status: 302\n"), "{}", came.told());
    // It follows one itself.
    let follows = json!({"url": server.url("/metadata"), "follow": true});
    let came = world.asks(follows.clone()).await.expect("a toolchain");
    assert!(came.denied().contains("http.request(GET https://169.254.169.254)"), "{}", came.denied());
    // And where somebody granted it as if it were any host.
    let mut world = World::of(&server);
    world.requests += "[[http]]\nto = 'https://169.254.169.254'\nmethods = ['GET']\n";
    let came = world.asks(follows).await.expect("a toolchain");
    assert!(came.denied().contains("a link-local address"), "{}", came.denied());
}

#[tokio::test]
async fn a_server_without_a_certificate_that_is_believed_gets_nothing() {
    let server = Server::start().await;
    let mut world = World::of(&server);
    world.trusts = false;
    let options =
        json!({"url": server.url("/echo"), "headers": {"authorization": "Bearer {{secret:token}}"}});
    let Some(came) = world.asks(options).await else { return };
    assert!(came.told().contains("error: "), "{}", came.told());
    assert!(came.line("http.request").result.contains("UnknownIssuer"), "{:?}", came.line("http.request"));
    came.keeps_quiet();
    assert_eq!(server.asked(), [""; 0]);
}

#[tokio::test]
async fn who_does_not_answer_or_does_not_speak_is_not_waited_for() {
    let server = Server::start().await;
    let mut world = World::of(&server);
    world.limits.http_answer_time = Duration::from_millis(200);
    let Some(came) = world.asks(json!({"url": server.url("/silent")})).await else { return };
    assert!(came.told().contains("ConnectionReadTimeout"), "{}", came.told());
    // One that accepts and says nothing of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let mute = Server { port, pem: server.pem.clone(), asked: server.asked.clone() };
    let mut world = World::of(&mute);
    world.limits.http_connect_time = Duration::from_millis(200);
    let url = mute.url("/hello");
    let came = world.asks(json!({"url": url})).await.expect("a toolchain");
    assert!(came.told().contains("ConnectionTimeout"), "{}", came.told());
}

#[tokio::test]
async fn size_and_time_are_bounded() {
    let server = Server::start().await;
    let mut world = World::of(&server);
    world.limits.http_bytes = 100_000;
    let Some(came) = world.asks(json!({"url": server.url("/endless")})).await else { return };
    assert!(came.told().contains("error: after "), "{}", came.told());
    assert_eq!(came.line("http.request").result, "status 200, too long");
    let came = world.asks(json!({"url": server.url("/hello"), "method": "POST", "body": 200_000}));
    let came = came.await.expect("a toolchain");
    assert!(!came.told().starts_with("status: 2"), "{}", came.told());
    // The longer time is for a machine that was too busy to come to the request within the shorter.
    for (millis, last) in [(500, false), (10_000, true)] {
        world.time = Duration::from_millis(millis);
        let came = world.asks(json!({"url": server.url("/silent")})).await.expect("a toolchain");
        assert!(matches!(came.told, Err(CallError::Limit { limit: LimitKind::Time, .. })), "{:?}", came.told);
        let begun = came.calls.iter().any(|call| call.call == "http.request" && call.phase == Phase::Begun);
        if begun {
            break;
        }
        assert!(!last, "{:?}", came.calls);
    }
}

#[tokio::test]
async fn a_secret_goes_out_and_never_comes_back() {
    let server = Server::start().await;
    let options =
        json!({"url": server.url("/echo"), "headers": {"authorization": "Bearer {{secret:token}}"}});
    let Some(came) = World::of(&server).asks(options).await else { return };
    let sent = server.asked();
    assert!(sent[0].contains(&format!("authorization: Bearer {TOKEN}\r\n")), "{sent:?}");
    let covered = format!("Bearer {}", "*".repeat(TOKEN.len()));
    assert!(came.told().contains(&format!("x-you-said: {covered}\n")), "{}", came.told());
    assert!(came.told().contains(&format!("you said {covered}, twice {covered}")), "{}", came.told());
    assert_eq!(came.line("secret").asks.as_ref().map(|asks| asks.request.as_str()), Some("secret:token"));
    assert_eq!(came.line("http.request").result, "status 401");
    came.keeps_quiet();
}

#[tokio::test]
async fn a_secret_goes_to_no_place_but_its_own() {
    let server = Server::start().await;
    let header = |text: &str| json!({"url": server.url("/echo"), "headers": {"x": text}});
    let world = World::of(&server);
    // A second placeholder is decided on like the first.
    for text in ["{{secret:token}} {{secret:other}}", "{{secret:}}", "{{secret:TOKEN}}"] {
        let Some(came) = world.asks(header(text)).await else { return };
        assert!(came.denied().contains("`[[secret]]` of that name"), "{}", came.denied());
        came.keeps_quiet();
    }
    let mut elsewhere = World::of(&server);
    elsewhere.requests = format!(
        "[[http]]\nto = 'https://localhost:{}'\nmethods = ['GET']\nprivate = true\n\
         [[http]]\nto = 'https://api.acme.com'\nmethods = ['GET']\n\
         [[secret]]\nname = 'token'\nabout = 'For tests.'\nto = ['https://api.acme.com']\n",
        server.port
    );
    let came = elsewhere.asks(header("{{secret:token}}")).await.expect("a toolchain");
    assert!(came.denied().contains("go to `https://api.acme.com` only"), "{}", came.denied());
    assert_eq!(server.asked(), [""; 0]);
    // What is not whole is text.
    let came = world.asks(header("{{secret:token")).await.expect("a toolchain");
    came.keeps_quiet();
    assert!(server.asked()[0].contains("x: {{secret:token\r\n"));
}
