//! What each world may import. WASI is linked interface by interface: sockets and HTTP are not
//! there at all, so that a component which wants them fails at load.

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings as wasi;
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::{ResourceTable, WasiView as _};

use crate::bindings;
use crate::guest::Guest;

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

struct Io;

impl wasmtime::component::HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

/// What Rust's standard library (or another language's) needs to run at all.
fn standard(linker: &mut Linker<Guest>) -> Result {
    wasi::io::error::add_to_linker::<Guest, Io>(linker, |guest| &mut guest.table)?;
    wasi::io::poll::add_to_linker::<Guest, Io>(linker, |guest| &mut guest.table)?;
    wasi::io::streams::add_to_linker::<Guest, Io>(linker, |guest| &mut guest.table)?;
    wasi::clocks::wall_clock::add_to_linker::<Guest, WasiClocks>(linker, Guest::clocks)?;
    wasi::clocks::monotonic_clock::add_to_linker::<Guest, WasiClocks>(linker, Guest::clocks)?;
    wasi::random::random::add_to_linker::<Guest, WasiRandom>(linker, |guest| guest.ctx().ctx.random())?;
    wasi::random::insecure::add_to_linker::<Guest, WasiRandom>(linker, |guest| guest.ctx().ctx.random())?;
    wasi::random::insecure_seed::add_to_linker::<Guest, WasiRandom>(linker, |guest| {
        guest.ctx().ctx.random()
    })?;
    wasi::filesystem::preopens::add_to_linker::<Guest, WasiFilesystem>(linker, Guest::filesystem)?;
    wasi::filesystem::types::add_to_linker::<Guest, WasiFilesystem>(linker, Guest::filesystem)?;
    wasi::cli::environment::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::exit::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::stdin::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::stdout::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::stderr::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::terminal_input::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::terminal_output::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::terminal_stdin::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::terminal_stdout::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)?;
    wasi::cli::terminal_stderr::add_to_linker::<Guest, WasiCli>(linker, Guest::cli)
}

#[cfg(test)]
mod tests;
