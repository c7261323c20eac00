//! `test/judge/web`: sends one request as its options say, on WASI's own interface, and tells in its
//! verdict what came back.

use std::collections::BTreeMap;

use mst_sdk::judge::{Error, Judge, Trial, Verdict};
use serde::Deserialize;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

#[derive(Deserialize)]
struct Options {
    url: String,
    method: String,
    headers: BTreeMap<String, String>,
    body: u64,
    follow: bool,
}

struct Web;

impl Judge for Web {
    type Options = Options;

    fn judge(_: &Trial<'_>, options: Options) -> Result<Verdict, Error> {
        let mut url = options.url.clone();
        let mut told = String::new();
        for _ in 0..3 {
            match answer(&options, &url) {
                Err(error) => {
                    told += &format!("error: {error:?}\n");
                    break;
                }
                Ok(response) => {
                    let headers: BTreeMap<String, String> = response
                        .headers()
                        .entries()
                        .into_iter()
                        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
                        .collect();
                    told += &format!("status: {}\n", response.status());
                    for (name, value) in &headers {
                        told += &format!("{name}: {value}\n");
                    }
                    match read(response) {
                        Ok(body) => {
                            told += &format!("{} bytes\n", body.len());
                            told += &String::from_utf8_lossy(&body[..body.len().min(2000)]);
                        }
                        Err(error) => told += &format!("error: {error}\n"),
                    }
                    match headers.get("location") {
                        Some(location) if options.follow => url = location.clone(),
                        _ => break,
                    }
                }
            }
        }
        Ok(Verdict::pass(told))
    }
}

fn answer(options: &Options, url: &str) -> Result<IncomingResponse, ErrorCode> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let headers = Fields::new();
    for (name, value) in &options.headers {
        headers.append(name, value.as_bytes()).map_err(|error| internal(format!("{name}: {error:?}")))?;
    }
    let request = OutgoingRequest::new(headers);
    let method = match &*options.method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "DELETE" => Method::Delete,
        other => Method::Other(other.to_owned()),
    };
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let refused = |()| internal("the request can't be made".to_owned());
    request.set_method(&method).map_err(refused)?;
    request.set_scheme(Some(&scheme)).map_err(refused)?;
    request.set_authority(Some(authority)).map_err(refused)?;
    request.set_path_with_query(Some(&format!("/{path}"))).map_err(refused)?;
    let body = (options.body > 0).then(|| request.body()).transpose().map_err(refused)?;
    let response = handle(request, None)?;
    if let Some(body) = body {
        let stream = body.write().map_err(refused)?;
        let chunk = [b'x'; 4096];
        let mut left = options.body;
        while left > 0 {
            let now = left.min(4096);
            if stream.blocking_write_and_flush(&chunk[..now as usize]).is_err() {
                break;
            }
            left -= now;
        }
        drop(stream);
        OutgoingBody::finish(body, None)?;
    }
    response.subscribe().block();
    match response.get() {
        Some(Ok(answer)) => answer,
        other => Err(internal(format!("{other:?}"))),
    }
}

fn internal(what: String) -> ErrorCode {
    ErrorCode::InternalError(Some(what))
}

fn read(response: IncomingResponse) -> Result<Vec<u8>, String> {
    let body = response.consume().map_err(|()| "no body".to_owned())?;
    let stream = body.stream().map_err(|()| "no stream".to_owned())?;
    let mut whole = Vec::new();
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(bytes) => whole.extend_from_slice(&bytes),
            Err(StreamError::Closed) => return Ok(whole),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(format!("after {} bytes: {}", whole.len(), error.to_debug_string()));
            }
        }
    }
}

mst_sdk::export_judge!(Web);
