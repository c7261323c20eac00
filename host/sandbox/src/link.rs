//! What each world may import. WASI is linked interface by interface: sockets are not
//! there at all, so that a component which wants them fails at load. `wasi:http` is there for a plugin
//! whose manifest asks for it.

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliCtxView, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings as wasi;
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{ResourceTable, WasiView as _};
use wasmtime_wasi_http::WasiHttp;
use wasmtime_wasi_http::p2::bindings as http_bindings;

use crate::bindings;
use crate::broker::Ambient;
use crate::files::HasFiles;
use crate::guest::Guest;
use crate::variables::HasVariables;

type Result = wasmtime::Result<()>;

/// The linker of world `dataset`.
pub(crate) fn dataset(linker: &mut Linker<Guest>) -> Result {
    standard(linker)?;
    bindings::dataset::Dataset::add_to_linker::<_, HasSelf<_>>(linker, |guest| guest)
}

/// The linker of world `judge`.
pub(crate) fn judge(linker: &mut Linker<Guest>) -> Result {
    standard(linker)?;
    bindings::judge::Judge::add_to_linker::<_, HasSelf<_>>(linker, |guest| guest)
}

/// The linker of world `machine-runner`.
pub(crate) fn machine_runner(linker: &mut Linker<Guest>) -> Result {
    standard(linker)?;
    bindings::machine_runner::MachineRunner::add_to_linker::<_, HasSelf<_>>(linker, |guest| guest)
}

/// The linker of world `shard-runner`.
pub(crate) fn shard_runner(linker: &mut Linker<Guest>) -> Result {
    standard(linker)?;
    bindings::shard_runner::ShardRunner::add_to_linker::<_, HasSelf<_>>(linker, |guest| guest)
}

/// What a component of a manifest that asks for `[[http]]` has beyond its world: to send requests.
pub(crate) fn http(linker: &mut Linker<Guest>) -> Result {
    let options = http_bindings::LinkOptions::default();
    http_bindings::http::outgoing_handler::add_to_linker::<Guest, WasiHttp>(linker, Guest::http)?;
    http_bindings::http::types::add_to_linker::<Guest, WasiHttp>(linker, &(&options).into(), Guest::http)
}

struct Io;

impl wasmtime::component::HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

/// What Rust's standard library (or another language's) needs to run at all. Each interface is
/// reached through a door of its own, which tells the broker of every call.
fn standard(linker: &mut Linker<Guest>) -> Result {
    wasi::io::error::add_to_linker::<Guest, Io>(linker, |guest| &mut guest.counted(Ambient::IoError).table)?;
    wasi::io::poll::add_to_linker::<Guest, Io>(linker, |guest| &mut guest.counted(Ambient::Poll).table)?;
    wasi::io::streams::add_to_linker::<Guest, Io>(linker, |guest| {
        &mut guest.counted(Ambient::Streams).table
    })?;
    wasi::clocks::wall_clock::add_to_linker::<Guest, WasiClocks>(linker, |guest| {
        guest.counted(Ambient::WallClock).clocks()
    })?;
    wasi::clocks::monotonic_clock::add_to_linker::<Guest, WasiClocks>(linker, |guest| {
        guest.counted(Ambient::MonotonicClock).clocks()
    })?;
    wasi::random::random::add_to_linker::<Guest, WasiRandom>(linker, |guest| {
        guest.counted(Ambient::Random).ctx().ctx.random()
    })?;
    wasi::random::insecure::add_to_linker::<Guest, WasiRandom>(linker, |guest| {
        guest.counted(Ambient::Insecure).ctx().ctx.random()
    })?;
    wasi::random::insecure_seed::add_to_linker::<Guest, WasiRandom>(linker, |guest| {
        guest.counted(Ambient::InsecureSeed).ctx().ctx.random()
    })?;
    wasi::filesystem::preopens::add_to_linker::<Guest, HasFiles>(linker, Guest::files)?;
    wasi::filesystem::types::add_to_linker::<Guest, HasFiles>(linker, Guest::files)?;
    wasi::cli::environment::add_to_linker::<Guest, HasVariables>(linker, Guest::variables)?;
    wasi::cli::exit::add_to_linker::<Guest, WasiCli>(linker, |guest| guest.counted(Ambient::Exit).cli())?;
    wasi::cli::stdin::add_to_linker::<Guest, WasiCli>(linker, |guest| guest.counted(Ambient::Stdin).cli())?;
    wasi::cli::stdout::add_to_linker::<Guest, WasiCli>(linker, |guest| guest.counted(Ambient::Stdout).cli())?;
    wasi::cli::stderr::add_to_linker::<Guest, WasiCli>(linker, |guest| guest.counted(Ambient::Stderr).cli())?;
    wasi::cli::terminal_input::add_to_linker::<Guest, WasiCli>(linker, terminal)?;
    wasi::cli::terminal_output::add_to_linker::<Guest, WasiCli>(linker, terminal)?;
    wasi::cli::terminal_stdin::add_to_linker::<Guest, WasiCli>(linker, terminal)?;
    wasi::cli::terminal_stdout::add_to_linker::<Guest, WasiCli>(linker, terminal)?;
    wasi::cli::terminal_stderr::add_to_linker::<Guest, WasiCli>(linker, terminal)
}

fn terminal(guest: &mut Guest) -> WasiCliCtxView<'_> {
    guest.counted(Ambient::Terminal).cli()
}

#[cfg(test)]
mod tests;
