//! The little of HTTP/1.1 (RFC 9112) that a scrape needs.

/// The longest request, its headers included, in bytes.
pub(crate) const MAX_REQUEST: usize = 8192;
/// The end of a request's headers.
const END: &[u8] = b"\r\n\r\n";
/// The forms that the text comes in: by the word in `Accept`, and as `Content-Type` of the answer.
const OPENMETRICS: &str = "application/openmetrics-text";
const CONTENT_TYPES: [&str; 2] = [
    "text/plain; version=0.0.4; charset=utf-8",
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
];

/// Form of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Text format 0.0.4 of Prometheus, for whoever does not ask for more.
    Plain,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

/// Outcome of a request so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// More is to come.
    Unfinished,
    /// The metrics, in this form.
    For(Form),
    /// Refused: status and reason phrase.
    Refused(&'static str),
}

/// Takes a request as far as it has come.
pub(crate) fn asked(input: &[u8]) -> Asked {
    let Some(end) = input.windows(END.len()).position(|window| window == END) else {
        return match input.len() < MAX_REQUEST {
            true => Asked::Unfinished,
            false => Asked::Refused("431 Request Header Fields Too Large"),
        };
    };
    let bad = Asked::Refused("400 Bad Request");
    let Some(Ok(head)) = input.get(..end).map(str::from_utf8) else { return bad };
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = *words.as_slice() else { return bad };
    if !version.starts_with("HTTP/1.") || method.is_empty() {
        return bad;
    }
    if target.split('?').next() != Some("/metrics") {
        return Asked::Refused("404 Not Found");
    }
    if method != "GET" {
        return Asked::Refused("405 Method Not Allowed");
    }
    let accepts = headers.split("\r\n").filter_map(|header| header.split_once(':'));
    let open = accepts
        .filter(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .any(|(_, value)| value.to_ascii_lowercase().contains(OPENMETRICS));
    Asked::For(if open { Form::OpenMetrics } else { Form::Plain })
}

/// An answer with the metrics in this form.
pub(crate) fn found(form: Form, text: &str) -> Vec<u8> {
    let [plain, open] = CONTENT_TYPES;
    answer("200 OK", if form == Form::Plain { plain } else { open }, text)
}

/// An answer that says why there are none.
pub(crate) fn refused(status: &str) -> Vec<u8> {
    let text = format!("{status}: GET /metrics is all there is\n");
    answer(status, "text/plain; charset=utf-8", &text)
}

fn answer(status: &str, content_type: &str, text: &str) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_asked_for_is_told_apart() {
        let refused = Asked::Refused;
        for (request, expected) in [
            ("", Asked::Unfinished),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", Asked::Unfinished),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Asked::For(Form::Plain)),
            ("GET /metrics HTTP/1.0\r\n\r\n", Asked::For(Form::Plain)),
            ("GET /metrics?x=1 HTTP/1.1\r\naccept: */*\r\n\r\n", Asked::For(Form::Plain)),
            (
                "GET /metrics HTTP/1.1\r\nAccept: application/OpenMetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\nbody",
                Asked::For(Form::OpenMetrics),
            ),
            ("GET / HTTP/1.1\r\n\r\n", refused("404 Not Found")),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", refused("404 Not Found")),
            ("POST /metrics HTTP/1.1\r\n\r\n", refused("405 Method Not Allowed")),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", refused("405 Method Not Allowed")),
            ("PRI * HTTP/2.0\r\n\r\n", refused("400 Bad Request")),
            ("GET  /metrics HTTP/1.1\r\n\r\n", refused("400 Bad Request")),
            ("\r\n\r\n", refused("400 Bad Request")),
            ("\u{0}\u{1}\r\n\r\n", refused("400 Bad Request")),
        ] {
            assert_eq!(asked(request.as_bytes()), expected, "{request:?}");
        }
        let endless = vec![b'x'; MAX_REQUEST];
        assert_eq!(asked(&endless), refused("431 Request Header Fields Too Large"));
        assert_eq!(asked(b"\xff / HTTP/1.1\r\n\r\n"), refused("400 Bad Request"));
    }

    #[test]
    fn a_refusal_is_http() {
        let text = String::from_utf8(super::refused("405 Method Not Allowed")).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 405 ") && head.contains("\r\nAllow: GET\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), end: bool) {
            let more: &[u8] = if end { b" HTTP/1.1\r\n\r\n" } else { b"" };
            let _ = asked(&[&bytes[..], more].concat());
        }
    }
}
