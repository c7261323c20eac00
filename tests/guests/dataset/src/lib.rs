//! `test/dataset/hostile`: one dataset that does what no dataset should, one thing a run.
//!
//! It is written on the bare bindings: the SDK would not let it send most of this.

mod bad;
mod cases;
mod escape;

use std::cell::Cell;

use mst_sdk::dataset::Error;
use mst_sdk::dataset::bindings::exports::mst::plugin::cases::{self as wire, EvalCase, Guest, GuestCursor};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    behaviour: String,
    count: Option<u64>,
    path: Option<String>,
}

struct Hostile;

struct Cursor {
    options: Options,
    page: Cell<u64>,
    given: Cell<u64>,
}

impl Guest for Hostile {
    type Cursor = Cursor;

    fn open(options: String) -> Result<wire::Cursor, Error> {
        let options: Options = mst_sdk::parse_options(&options)?;
        match &*options.behaviour {
            "loop-in-open" => spin(),
            "error-in-open" => return Err(Error::invalid("told to be invalid")),
            "trap-in-open" => std::process::abort(),
            _ => {}
        }
        Ok(wire::Cursor::new(Cursor { options, page: Cell::new(0), given: Cell::new(0) }))
    }
}

impl GuestCursor for Cursor {
    fn next(&self, limit: u32) -> Result<Vec<EvalCase>, Error> {
        let page = self.page.get() + 1;
        self.page.set(page);
        let count = |default| self.options.count.unwrap_or(default);
        let once = |cases: Vec<EvalCase>| Ok(if page == 1 { cases } else { Vec::new() });
        match &*self.options.behaviour {
            "count" => Ok(self.up_to(count(10), limit.into())),
            "empty" => Ok(Vec::new()),
            "endless" => Ok(self.up_to(u64::MAX, limit.into())),
            "tiny-pages" => Ok(self.up_to(count(5), 1)),
            "over-full-page" => once((0..u64::from(limit) + 1).map(cases::numbered).collect()),
            "error-on-page-3" if page == 3 => Err(Error::failed("told to fail on page 3")),
            "trap-on-page-2" if page == 2 => std::process::abort(),
            "error-on-page-3" | "trap-on-page-2" => Ok(self.up_to(u64::MAX, 1)),
            "loop-in-next" => spin(),

            "duplicate-ids" => {
                once(vec![cases::with_id("same"), cases::with_id("other"), cases::with_id("same")])
            }
            // The second comes on another page, which a host that forgets pages would miss.
            "duplicate-ids-far" => Ok(if page <= 2 { vec![cases::with_id("same")] } else { Vec::new() }),
            "wicked-ids" => once(bad::wicked_ids().iter().map(|id| cases::with_id(id)).collect()),
            "control-id" => once(vec![cases::with_id("a\nb")]),
            "empty-id" => once(vec![cases::with_id("")]),
            "long-id" => once(vec![cases::with_id(&"x".repeat(257))]),
            "bad-file-path" => once(vec![bad::file("../x")]),
            "absolute-file-path" => once(vec![bad::file("/abs")]),
            "bad-json" => once(vec![bad::metadata("{not json")]),
            "metadata-no-object" => once(vec![bad::metadata("[1]")]),
            "bad-expected" => once(vec![bad::expected("{not json")]),
            "bad-role" => once(vec![bad::role("robot")]),
            "no-prompt" => once(vec![EvalCase { prompt: Vec::new(), ..cases::numbered(0) }]),
            "huge-prompt" => once(vec![bad::prompt("x".repeat((count(64) << 20) as usize))]),
            "escapes" => once(vec![bad::escapes()]),

            "fs-escape" => {
                let path = self.options.path.as_deref().unwrap_or("/data");
                let came = escape::attempt(path, count(0)).unwrap_or_else(|| "no further attempt".to_owned());
                once(vec![bad::prompt(came)])
            }
            "options" => once(vec![bad::prompt(format!(
                "path={:?} count={:?}",
                self.options.path, self.options.count
            ))]),

            other => Err(Error::invalid(format!("`{other}` is no behaviour of this guest"))),
        }
    }
}

impl Cursor {
    /// A page of at most `limit` of `count` numbered cases.
    fn up_to(&self, count: u64, limit: u64) -> Vec<EvalCase> {
        let from = self.given.get();
        let to = count.min(from.saturating_add(limit));
        self.given.set(to);
        (from..to).map(cases::numbered).collect()
    }
}

fn spin() -> ! {
    loop {
        std::hint::black_box(());
    }
}

mst_sdk::dataset::bindings::export!(Hostile with_types_in mst_sdk::dataset::bindings);
