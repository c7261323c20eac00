//! `wasi:cli/environment`: the variables that the plugin was granted, and no other.

use wasmtime::component::HasData;
use wasmtime_wasi::cli::WasiCliCtxView;
use wasmtime_wasi::p2::bindings::cli::environment;

use crate::audit::MAX_ARGS;
use crate::broker::{Ambient, Broker, Call};
use crate::clean;

/// The interface, for one call.
pub(crate) struct Variables<'a> {
    pub(crate) wasi: WasiCliCtxView<'a>,
    pub(crate) broker: &'a Broker,
}

/// Names [`Variables`] to the linker.
pub(crate) struct HasVariables;

impl HasData for HasVariables {
    type Data<'a> = Variables<'a>;
}

impl environment::Host for Variables<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let mut pass = self.broker.pass(Call::Env)?;
        let variables = self.wasi.get_environment()?;
        pass.args(|| {
            let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
            clean(&names.join(" "), MAX_ARGS, false)
        });
        pass.gave(variables.iter().map(|(name, value)| name.len() + value.len()).sum());
        Ok(variables)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Arguments))?;
        self.wasi.get_arguments()
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Arguments))?;
        self.wasi.initial_cwd()
    }
}
