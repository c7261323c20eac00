//! Host bindings of `wit/`, generated once. One module a world; the interfaces that worlds share
//! are generated in the first and named by the others.

pub(crate) mod dataset {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "dataset",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

pub(crate) mod judge {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "judge",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "mst:plugin/types": crate::bindings::dataset::mst::plugin::types,
            "mst:plugin/log": crate::bindings::dataset::mst::plugin::log,
            "mst:plugin/evidence.trial": crate::evidence::TrialHandle,
        },
    });
}

pub(crate) mod machine_runner {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "machine-runner",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "mst:plugin/types": crate::bindings::dataset::mst::plugin::types,
            "mst:plugin/log": crate::bindings::dataset::mst::plugin::log,
            "mst:plugin/commands": crate::bindings::judge::mst::plugin::commands,
            "mst:plugin/process.child": crate::process::ChildHandle,
            "mst:plugin/process.directory": crate::process::DirectoryHandle,
            "mst:plugin/process.remote-command": crate::process::CommandHandle,
        },
    });
}

pub(crate) mod shard_runner {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "shard-runner",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "mst:plugin/types": crate::bindings::dataset::mst::plugin::types,
            "mst:plugin/log": crate::bindings::dataset::mst::plugin::log,
            "mst:plugin/commands": crate::bindings::judge::mst::plugin::commands,
            "mst:plugin/process": crate::bindings::machine_runner::mst::plugin::process,
            "mst:plugin/shard.shard": crate::shard::ShardHandle,
        },
    });
}

pub(crate) use dataset::mst::plugin::{log, types};
pub(crate) use judge::mst::plugin::{commands, evidence, workspace};
pub(crate) use machine_runner::mst::plugin::process;
