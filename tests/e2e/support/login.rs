//! A server that gives tokens, and a proxy to it, on this machine: real sockets, real TLS, answers as the
//! test says.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request: its header `authorization`, and its body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

/// What the server answers: status, further headers, body. It is told how many were asked before.
pub(crate) type Answers = dyn Fn(usize, &Asked) -> (u16, String, String) + Send + Sync;

/// It runs as long as the tests do.
pub(crate) struct Login {
    pub(crate) port: u16,
    tls: bool,
    asked: Arc<Mutex<Vec<Asked>>>,
    certificate: Option<String>,
}

impl Login {
    /// One that speaks no TLS.
    pub(crate) fn plain(
        answers: impl Fn(usize, &Asked) -> (u16, String, String) + Send + Sync + 'static,
    ) -> Login {
        Login::start(None, None, Arc::new(answers))
    }

    /// One that speaks TLS, for `localhost`.
    pub(crate) fn tls(
        answers: impl Fn(usize, &Asked) -> (u16, String, String) + Send + Sync + 'static,
    ) -> Login {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate");
        Login::start(Some(Arc::new(config)), Some(made.cert.pem()), Arc::new(answers))
    }

    fn start(config: Option<Arc<ServerConfig>>, certificate: Option<String>, answers: Arc<Answers>) -> Login {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (shared, tls) = (asked.clone(), config.is_some());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, asked, config) = (answers.clone(), shared.clone(), config.clone());
                std::thread::spawn(move || serve(stream, config, &*answers, &asked));
            }
        });
        Login { port, tls, asked, certificate }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://localhost:{}/token", self.port)
    }

    /// Writes the certificate that vouches for it.
    pub(crate) fn write_certificate(&self, path: &Path) {
        fs::write(path, self.certificate.as_ref().expect("it speaks TLS")).expect("written");
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("locks").clone()
    }
}

fn serve(stream: TcpStream, config: Option<Arc<ServerConfig>>, answers: &Answers, asked: &Mutex<Vec<Asked>>) {
    // Who breaks off is no fault of the server's.
    let _ = match config {
        None => exchange(stream, answers, asked),
        Some(config) => {
            let connection = ServerConnection::new(config).expect("a connection");
            exchange(StreamOwned::new(connection, stream), answers, asked)
        }
    };
}

fn exchange<S: Read + Write>(stream: S, answers: &Answers, asked: &Mutex<Vec<Asked>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut authorization, mut length) = (None, 0);
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "authorization" => authorization = Some(value.trim().to_owned()),
                "content-length" => length = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let one = Asked { authorization, body: String::from_utf8_lossy(&body).into_owned() };
    let before = {
        let mut asked = asked.lock().expect("locks");
        asked.push(one.clone());
        asked.len() - 1
    };
    let (status, headers, body) = answers(before, &one);
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 {status} Said\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

/// A proxy that leads where it is asked to, as long as it does not refuse. It runs as long as the tests do.
pub(crate) struct Proxy {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    refuses: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let (heard, refuses) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let proxy = Proxy { port, heard: heard.clone(), refuses: refuses.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heard, refuses) = (heard.clone(), refuses.load(Ordering::SeqCst));
                // Who breaks off is no fault of the proxy's.
                std::thread::spawn(move || drop(lead(stream, &heard, refuses)));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From now on it leads nowhere.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// What it could read of each that asked.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("locks").clone()
    }
}

fn lead(stream: TcpStream, heard: &Mutex<Vec<String>>, refuses: bool) -> io::Result<()> {
    let mut from = BufReader::new(stream);
    let mut request = String::new();
    while from.read_line(&mut request)? > 2 {}
    let to = request.split(' ').nth(1).unwrap_or_default().to_owned();
    heard.lock().expect("locks").push(request);
    let mut back = from.get_ref().try_clone()?;
    if refuses {
        return back.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    }
    let mut there = TcpStream::connect(to)?;
    back.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let mut answers = there.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        back.shutdown(Shutdown::Both)
    });
    io::copy(&mut from, &mut there).map(drop)
}
