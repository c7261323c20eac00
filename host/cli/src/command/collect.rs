//! `mst collect`: the worker on a machine. Its stdin and stdout belong to the coordinator.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mst_model::bundle::Bundle;
use mst_worker::collect::{Place, collect as do_collect};
use mst_worker::trial::ClientEnvironment;

use crate::error::Failure;
use crate::exit::Exit;
use crate::place;
use crate::scratch::Scratch;
use crate::until_signal::UntilSignal;

/// How long a worker that ends waits for its clients' processes to be gone.
const SETTLE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// The bundle's directory
    #[arg(long, value_name = "DIR")]
    bundle: PathBuf,
    /// Where transcripts go
    #[arg(long, value_name = "DIR")]
    results: PathBuf,
    /// Where tokens go, in place of the usual directories
    #[arg(long, value_name = "DIR")]
    tokens: Option<PathBuf>,
}

pub(crate) fn collect(args: CollectArgs) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("the worker can't start", &error))?;
    mst_process::adopt_orphans();
    let scratch = Scratch::new()?;
    let place = Place {
        environment: ClientEnvironment {
            path: place::path(),
            home: place::var("HOME").unwrap_or_else(|| "/".to_owned()),
            vars: BTreeMap::new(),
            base_dir: args.bundle.join(Bundle::CLIENT_DIR),
        },
        bundle: args.bundle,
        results: args.results,
        scratch: scratch.path().join("trials"),
        tokens: args.tokens.map_or_else(place::token_places, |dir| vec![dir]),
        mst: place::VERSION.to_owned(),
    };
    let done = runtime.block_on(async {
        let stdin = UntilSignal::new(tokio::io::stdin())
            .map_err(|error| Failure::because("can't listen for signals", &error))?;
        let done = do_collect(place, stdin, tokio::io::stdout()).await;
        done.map_err(|error| Failure::from_error(&error))
    });
    // stdin's thread may hang in a read for ever; what matters is that the clients are gone.
    runtime.shutdown_background();
    // A trial that was given up may not have been dropped yet, and nobody drops it after this process.
    mst_process::kill_all();
    mst_process::settle(SETTLE);
    done.map(|()| Exit::Done).map_err(|failure| failure.exit(Exit::Partial))
}
