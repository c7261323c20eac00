//! `wasi:http`, outgoing: each request is decided on by its method, host and port, goes over TLS to an
//! address that was looked at, and is followed nowhere. Secrets are put into its headers on the way
//! out, and covered in what comes back.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::uri::Scheme;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use mst_plugin::Source;
use mst_plugin::request::{SECRET_CLOSE, SECRET_OPEN};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::address::near;
use crate::audit::Pass;
use crate::broker::{Broker, Call, Denied};
use crate::limits::Limits;
use crate::permit::Permit;
use crate::secret::{Scrubbed, Scrubber};

/// What one request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    bytes: u64,
    connect: Duration,
    answer: Duration,
}

impl From<&Limits> for Bounds {
    fn from(limits: &Limits) -> Bounds {
        let Limits { http_bytes, http_connect_time, http_answer_time, .. } = *limits;
        Bounds { bytes: http_bytes, connect: http_connect_time, answer: http_answer_time }
    }
}

/// The most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// What an instance sends requests with.
pub(crate) struct Outgoing {
    pub(crate) broker: Arc<Broker>,
    pub(crate) permit: Permit,
    pub(crate) scrubber: Scrubber,
    /// The most bytes of a request's body, and of an answer's.
    pub(crate) bounds: Bounds,
}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Answer = Result<(Response<WasiBody>, Io), Error>;

impl WasiHttpHooks for Outgoing {
    fn is_supported_scheme(&mut self, scheme: &Scheme) -> bool {
        *scheme == Scheme::HTTPS
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        match self.admit(&request) {
            Ok((admitted, pass)) => Box::new(exchange(request, options.unwrap_or_default(), admitted, pass)),
            Err(error) => Box::new(async { Err(error) }),
        }
    }
}

/// The longest host that there is, with its port.
const MAX_AUTHORITY: usize = 262;

/// A request that may be sent.
struct Admitted {
    broker: Arc<Broker>,
    permit: Permit,
    scrubber: Scrubber,
    host: String,
    port: u16,
    /// Whether it may lead to a near address.
    private: bool,
    /// The secrets in its headers, each with where its value comes from.
    secrets: Vec<(String, Source)>,
    bounds: Bounds,
}

impl Outgoing {
    /// Has the broker decide on a request, and on each secret in its headers.
    fn admit(&self, request: &Request<WasiBody>) -> Result<(Admitted, Pass), Error> {
        let authority = request.uri().authority().ok_or(Error::HttpRequestUriInvalid)?;
        if authority.as_str().contains('@') {
            return Err(Error::HttpRequestUriInvalid);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = authority.port_u16().unwrap_or(443);
        // As one would write it: what is asked for, decided on, connected to and written down is one.
        let plain = authority.as_str();
        let written = plain == authority.host() || plain == format!("{}:{port}", authority.host());
        if !written || plain.len() > MAX_AUTHORITY {
            return Err(Error::HttpRequestUriInvalid);
        }
        let method = request.method().as_str();
        let denied = |Denied(_)| Error::HttpRequestDenied;
        let mut pass = self.broker.pass(Call::Http { method, host: &host, port }).map_err(denied)?;
        pass.args(|| {
            // Without what is behind the `?`: values stand there.
            let path = crate::clean(request.uri().path(), 512, false);
            format!("{method} https://{authority}{path}")
        });
        let mut secrets: Vec<(String, Source)> = Vec::new();
        for value in request.headers().values() {
            for name in names_in(value) {
                if secrets.iter().any(|(known, _)| *known == name) {
                    continue;
                }
                let call = Call::SecretTo { name: &name, host: &host, port };
                self.broker.pass(call).map_err(denied)?.ok();
                let source = self.permit.granted.source(&name).ok_or(Error::HttpRequestDenied)?;
                let source = source.clone();
                secrets.push((name, source));
            }
        }
        let private =
            self.permit.granted.http(method, &host, port).is_ok_and(|admitted| admitted.what.private);
        let (broker, permit, scrubber) = (self.broker.clone(), self.permit.clone(), self.scrubber.clone());
        let bounds = self.bounds;
        Ok((Admitted { broker, permit, scrubber, host, port, private, secrets, bounds }, pass))
    }
}

/// The names in a header's `{{secret:NAME}}`s.
fn names_in(value: &HeaderValue) -> Vec<String> {
    let Ok(text) = value.to_str() else { return Vec::new() };
    let after = text.split(SECRET_OPEN).skip(1);
    after.filter_map(|rest| Some(rest.split_once(SECRET_CLOSE)?.0.to_owned())).collect()
}

/// Sends a request and takes its answer, as far as the beginning of its body.
async fn exchange(
    request: Request<WasiBody>,
    options: RequestOptions,
    admitted: Admitted,
    mut pass: Pass,
) -> Answer {
    if let Err(fault) = pass.leave() {
        return Err(Error::InternalError(Some(fault.to_string())));
    }
    let sent = Arc::new(AtomicU64::new(0));
    let method = request.method().clone();
    match send(request, options, &admitted, &sent).await {
        Ok((answer, connection)) => {
            let (mut head, body) = answer.into_parts();
            scrub_headers(&mut head.headers, &admitted.scrubber);
            let status = head.status.as_u16();
            let body = AnswerBody {
                body,
                scrubbed: Scrubbed::new(admitted.scrubber.clone()),
                trailers: None,
                over: false,
                left: admitted.bounds.bytes,
                max_bytes: admitted.bounds.bytes,
                line: Some(pass),
                status,
                received: 0,
                sent,
            };
            let connection = Box::new(async move {
                // How it ended is seen by who reads the body.
                connection.await;
                Ok(())
            });
            Ok((Response::from_parts(head, body.boxed_unsync()), connection as Io))
        }
        Err(Failed::Refused(rule)) => {
            let call = Call::Http { method: method.as_str(), host: &admitted.host, port: admitted.port };
            admitted.broker.refuse_late(pass, call, rule);
            Err(Error::DestinationIpProhibited)
        }
        Err(Failed::Error(error)) => {
            let why = admitted.scrubber.scrubbed(error.to_string());
            pass.end(crate::clean(&why, 256, false), 0, sent.load(Ordering::Relaxed));
            Err(error)
        }
    }
}

enum Failed {
    /// By this rule, as it turned out on the way.
    Refused(String),
    Error(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Error(error)
    }
}

type Connection = wasmtime_wasi::runtime::AbortOnDropJoinHandle<()>;

async fn send(
    mut request: Request<WasiBody>,
    options: RequestOptions,
    admitted: &Admitted,
    sent: &Arc<AtomicU64>,
) -> Result<(Response<hyper::body::Incoming>, Connection), Failed> {
    put_in(request.headers_mut(), admitted).await?;
    let connect = admitted.bounds.connect.min(options.connect_timeout.unwrap_or(Duration::MAX));
    let addresses = resolve(admitted, connect).await?;
    let stream = open(&addresses, connect).await?;
    let name = ServerName::try_from(admitted.host.clone()).map_err(|_| Error::HttpRequestUriInvalid)?;
    let tls = match &admitted.permit.trust {
        Some(trust) => TlsConnector::from(trust.0.clone()),
        None => return Err(Error::ConfigurationError.into()),
    };
    let stream = timeout(connect, tls.connect(name, stream))
        .await
        .map_err(|_| Error::ConnectionTimeout)?
        .map_err(Error::Tls)?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| Error::HttpRequestUriInvalid)?;
    let (sent, max) = (sent.clone(), admitted.bounds.bytes);
    let request = request.map(|body| RequestBody { body, sent, max });
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(Error::from)?;
    let connection = wasmtime_wasi::runtime::spawn(async move {
        let _ = connection.await;
    });
    let first = admitted.bounds.answer.min(options.first_byte_timeout.unwrap_or(Duration::MAX));
    let answer = timeout(first, sender.send_request(request))
        .await
        .map_err(|_| Error::ConnectionReadTimeout)?
        .map_err(Error::from)?;
    Ok((answer, connection))
}

/// Puts secrets into headers.
async fn put_in(headers: &mut HeaderMap, admitted: &Admitted) -> Result<(), Error> {
    for (name, source) in &admitted.secrets {
        let value = admitted.permit.secrets.value(source).await;
        let value = value.map_err(|why| {
            Error::InternalError(Some(format!(
                "the secret `{}` can't be had: {why}",
                crate::clean(name, 64, false)
            )))
        })?;
        admitted.scrubber.know(&value);
        let placeholder = format!("{SECRET_OPEN}{name}{SECRET_CLOSE}");
        for header in headers.values_mut() {
            let Ok(text) = header.to_str() else { continue };
            if text.contains(&placeholder) {
                let text = text.replace(&placeholder, value.expose());
                *header = HeaderValue::from_str(&text)
                    .map_err(|_| Error::HttpRequestHeaderSize { field_name: None, field_size: None })?;
                header.set_sensitive(true);
            }
        }
    }
    Ok(())
}

/// The addresses of the host, every one of them looked at: one that is near refuses them all.
async fn resolve(admitted: &Admitted, time: Duration) -> Result<Vec<SocketAddr>, Failed> {
    let (host, port) = (admitted.host.as_str(), admitted.port);
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => timeout(time, tokio::net::lookup_host((host, port)))
            .await
            .map_err(|_| Error::DnsTimeout)?
            .map_err(|_| Error::DnsError { rcode: None, info_code: None })?
            .take(MAX_ADDRESSES)
            .collect(),
    };
    if !admitted.private
        && let Some((address, what)) =
            addresses.iter().find_map(|address| Some((address.ip(), near(address.ip())?)))
    {
        return Err(Failed::Refused(format!(
            "`{}` is {address}, {what}, and its manifest does not ask for that host as `private`",
            crate::clean(host, 256, false)
        )));
    }
    match addresses.is_empty() {
        true => Err(Error::DestinationNotFound.into()),
        false => Ok(addresses),
    }
}

/// A connection to the first of the addresses that takes one.
async fn open(addresses: &[SocketAddr], time: Duration) -> Result<TcpStream, Error> {
    let mut last = Error::DestinationNotFound;
    for address in addresses {
        match timeout(time, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Error::Connect(error),
            Err(_) => last = Error::ConnectionTimeout,
        }
    }
    Err(last)
}

fn scrub_headers(headers: &mut HeaderMap, scrubber: &Scrubber) {
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        scrubber.scrub(&mut bytes);
        // As long as it was, and of characters that a header may have.
        if let Ok(scrubbed) = HeaderValue::from_bytes(&bytes) {
            *value = scrubbed;
        }
    }
}

/// A request's body, counted.
struct RequestBody {
    body: WasiBody,
    sent: Arc<AtomicU64>,
    max: u64,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let before = self.sent.fetch_add(data.len() as u64, Ordering::Relaxed);
            if before + data.len() as u64 > self.max {
                return Poll::Ready(Some(Err(Error::HttpRequestBodySize(Some(self.max)))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body: scrubbed, bounded, and at its end the request's line in the audit.
struct AnswerBody {
    body: hyper::body::Incoming,
    scrubbed: Scrubbed,
    trailers: Option<HeaderMap>,
    over: bool,
    left: u64,
    max_bytes: u64,
    line: Option<Pass>,
    status: u16,
    received: u64,
    sent: Arc<AtomicU64>,
}

impl AnswerBody {
    fn end(&mut self, how: &str) {
        if let Some(pass) = self.line.take() {
            let result = match (how, self.status) {
                ("", 200..=299) => "ok".to_owned(),
                ("", status) => format!("status {status}"),
                (how, status) => format!("status {status}, {how}"),
            };
            pass.end(result, self.received, self.sent.load(Ordering::Relaxed));
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.end("not read to its end");
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if this.over {
                let trailers = this.trailers.take();
                if trailers.is_none() {
                    this.end("");
                }
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    this.end("broken off");
                    return Poll::Ready(Some(Err(Error::from(error))));
                }
                None => {
                    this.over = true;
                    let rest = this.scrubbed.finish();
                    if rest.is_empty() {
                        continue;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(rest))));
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    this.received += data.len() as u64;
                    let Some(left) = this.left.checked_sub(data.len() as u64) else {
                        this.end("too long");
                        return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(this.max_bytes)))));
                    };
                    this.left = left;
                    let ready = this.scrubbed.push(data);
                    if !ready.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(ready))));
                    }
                }
                Err(frame) => {
                    if let Ok(mut trailers) = frame.into_trailers() {
                        scrub_headers(&mut trailers, &this.scrubbed.scrubber());
                        this.trailers = Some(trailers);
                    }
                    this.over = true;
                    let rest = this.scrubbed.finish();
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_where_they_are_whole() {
        let names = |text: &str| names_in(&HeaderValue::from_str(text).expect("a header"));
        assert_eq!(names("Bearer {{secret:api-key}}"), ["api-key"]);
        assert_eq!(names("{{secret:a}}{{secret:b}} {{secret:a}}"), ["a", "b", "a"]);
        assert_eq!(names("{{secret:a"), [""; 0]);
        assert_eq!(names("{{ secret:a }} {secret:a}"), [""; 0]);
        assert_eq!(names("{{secret:}}"), [""]);
        assert_eq!(names("{{secret:{{secret:a}}"), ["a"]);
    }
}
