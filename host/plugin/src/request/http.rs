//! `[[http]]`: where a plugin may send requests.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::legible::shown;

/// Requests that a plugin asks to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Http {
    /// To whom.
    pub to: Destination,
    /// By which methods.
    pub methods: Vec<Method>,
    /// Whether a loopback, link-local or private address is meant. Where not, a name that resolves
    /// to one is refused.
    pub private: bool,
}

impl Http {
    pub(super) fn is_within(&self, granted: &Http) -> bool {
        granted.to.covers(&self.to)
            && self.methods.iter().all(|method| granted.methods.contains(method))
            && self.private <= granted.private
    }
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Reads the head.
    Head,
    /// Sends.
    Post,
    /// Puts in place.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
    /// Asks what is possible.
    Options,
}

impl Method {
    /// All that a manifest can name.
    pub const ALL: [Method; 7] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
    ];

    /// As it stands in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }

    /// The method of this name, which is told from others by case, as in HTTP.
    pub fn of(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `https://host`, `https://host:port`, `https://*.host`. Never anything but TLS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    host: Host,
    port: u16,
}

/// Whose host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// This name, in lowercase ASCII.
    Name(String),
    /// Every name below this one, and not itself.
    Below(String),
    /// This address.
    Address(IpAddr),
}

/// A text that is no destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no destination: {why}; it must be as `https://api.acme.com`, `https://api.acme.com:8443` or `https://*.acme.com`"
)]
pub struct DestinationError {
    text: String,
    why: &'static str,
}

const HTTPS: u16 = 443;

impl Destination {
    /// Whose host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Which port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether a request to `host` and `port` goes there. The host is as it stands in a request's
    /// authority: an IPv6 address with or without brackets, a name in any case. A name with a dot
    /// at its end is another name.
    pub fn admits(&self, host: &str, port: u16) -> bool {
        self.port == port && read_host(host).is_ok_and(|host| self.covers_host(&host))
    }

    /// Whether everything that goes to `other` goes here too.
    pub fn covers(&self, other: &Destination) -> bool {
        self.port == other.port && self.covers_host(&other.host)
    }

    fn covers_host(&self, other: &Host) -> bool {
        match (&self.host, other) {
            (Host::Below(parent), Host::Name(name) | Host::Below(name)) => {
                self.host == *other || is_below(name, parent)
            }
            (own, other) => own == other,
        }
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Destination, DestinationError> {
        let no = |why| DestinationError { text: shown(text, 120), why };
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(no("it does not begin with `https://`"));
        };
        if rest.contains(['/', '?', '#', '@', '\\']) {
            return Err(no("it has a host and a port, and no path, query or user"));
        }
        let bracketed = rest.starts_with('[');
        let split = if bracketed { rest.find(']').map(|at| rest.split_at(at + 1)) } else { None };
        let (host, port) = match split.or_else(|| rest.find(':').map(|at| rest.split_at(at))) {
            None => (rest, None),
            Some((host, "")) => (host, None),
            Some((host, port)) => {
                (host, Some(port.strip_prefix(':').ok_or_else(|| no("what follows the address is no port"))?))
            }
        };
        let port = match port {
            None => HTTPS,
            Some(port) if port.starts_with(|c: char| ('1'..='9').contains(&c)) => {
                port.parse().map_err(|_| no("its port is none"))?
            }
            Some(_) => return Err(no("its port is none")),
        };
        let host = match host.strip_prefix("*.") {
            Some(parent) => match read_host(parent).map_err(no)? {
                Host::Name(parent) if parent.contains('.') => Host::Below(parent),
                Host::Name(_) => return Err(no("what a `*` stands for must be below two names or more")),
                _ => return Err(no("there is nothing below an address")),
            },
            None => read_host(host).map_err(no)?,
        };
        Ok(Destination { host, port })
    }
}

/// A name or an address, as it stands in an authority.
fn read_host(text: &str) -> Result<Host, &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let inner = rest.strip_suffix(']').ok_or("its address has no end")?;
        return inner
            .parse()
            .map(|address| Host::Address(IpAddr::V6(address)))
            .map_err(|_| "its address is none");
    }
    if let Ok(address) = text.parse() {
        return Ok(Host::Address(address));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    if text.contains('*') {
        return Err("a `*` stands at the beginning, as `*.`, and nowhere else");
    }
    if text.len() > 253 || !text.split('.').all(label) {
        return Err("its host is no name: labels of ASCII letters, digits and `-`, with dots between");
    }
    // What a resolver may read as an address in another notation, as `0x7f.1` or `127.1`.
    if text.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit())) {
        return Err("the last part of a name begins with a letter");
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "https://{name}"),
            Host::Below(parent) => write!(f, "https://*.{parent}"),
            Host::Address(IpAddr::V4(address)) => write!(f, "https://{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "https://[{address}]"),
        }?;
        if self.port == HTTPS { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> Destination {
        text.parse().expect(text)
    }

    #[test]
    fn each_is_written_in_one_way() {
        for (text, canonical) in [
            ("https://api.acme.com", "https://api.acme.com"),
            ("https://API.Acme.com:443", "https://api.acme.com"),
            ("https://api.acme.com:8443", "https://api.acme.com:8443"),
            ("https://*.acme.com", "https://*.acme.com"),
            ("https://*.acme.com:8443", "https://*.acme.com:8443"),
            ("https://localhost:9", "https://localhost:9"),
            ("https://127.0.0.1:8443", "https://127.0.0.1:8443"),
            ("https://[::1]:8443", "https://[::1]:8443"),
            ("https://[0:0::1]", "https://[::1]"),
        ] {
            assert_eq!(to(text).to_string(), canonical);
            assert_eq!(to(canonical), to(text));
        }
    }

    #[test]
    fn what_is_no_destination() {
        for bad in [
            "",
            "api.acme.com",
            "http://api.acme.com",
            "https://",
            "https://api.acme.com/",
            "https://a@b.com",
            "https://api.acme.com/v1",
            "https://*",
            "https://*.com",
            "https://*.*.com",
            "https://a.*.com",
            "https://api*.acme.com",
            "https://*.127.0.0.1",
            "https://127.1",
            "https://0x7f.1",
            "https://a.b.0x7f",
            "https://api.acme.com.",
            "https://api..com",
            "https://-a.com",
            "https://a_b.com",
            "https://\u{430}cme.com",
            "https://a.com:0",
            "https://a.com:",
            "https://a.com:65536",
            "https://a.com:+80",
            "https://[::1",
            "https://[::1]x",
            "https://[acme.com]",
            "https://::1",
            "https://a.com:443:443",
            "https://a.com\n",
            "https://a.com?x",
            "https://a.com#x",
            "https://a.com\\b",
            "HTTPS://a.com",
        ] {
            assert!(bad.parse::<Destination>().is_err(), "`{bad}`");
        }
    }

    #[test]
    fn who_is_admitted() {
        let api = to("https://api.acme.com");
        assert!(api.admits("api.acme.com", 443) && api.admits("API.ACME.COM", 443));
        for host in [
            "acme.com",
            "x.api.acme.com",
            "api.acme.com.",
            "api.acme.comx",
            "evil.com",
            "",
            "api.acme.com:443",
        ] {
            assert!(!api.admits(host, 443), "`{host}`");
        }
        assert!(!api.admits("api.acme.com", 80));
        let all = to("https://*.acme.com");
        assert!(all.admits("a.acme.com", 443) && all.admits("a.b.acme.com", 443));
        for host in ["acme.com", "xacme.com", ".acme.com", "-.acme.com", "*.acme.com", "a.acme.com.evil.com"]
        {
            assert!(!all.admits(host, 443), "`{host}`");
        }
        let local = to("https://[::1]:8443");
        assert!(local.admits("[::1]", 8443) && local.admits("::1", 8443) && !local.admits("127.0.0.1", 8443));
        assert!(all.covers(&api) && all.covers(&all) && all.covers(&to("https://*.b.acme.com")));
        assert!(!api.covers(&all) && !to("https://*.b.acme.com").covers(&all));
    }
}
