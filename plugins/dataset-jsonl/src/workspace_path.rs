//! The host's rule for a path in a workspace, held here too so that a bad one is told with
//! its line.

/// Why this is no path in a workspace, if it is none.
pub(crate) fn fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.starts_with('/') {
        return Some("it must be relative");
    }
    if path.len() > 1024 {
        return Some("it is longer than 1024 bytes");
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return Some("it holds a backslash or a control character");
    }
    path.split('/').find_map(|part| match part {
        "" | "." | ".." => Some("it has an empty, `.` or `..` part"),
        _ if part.len() > 255 => Some("it has a part longer than 255 bytes"),
        _ => None,
    })
}
