//! What a plugin has here: what it was granted, and what goes with it.

use std::fmt;
use std::sync::Arc;

use mst_plugin::{Granted, PluginFile};

use crate::secret::{NoSecrets, Secrets};
use crate::trust::Trust;

/// What a plugin has here.
#[derive(Clone)]
pub struct Permit {
    /// What it may do.
    pub granted: Arc<Granted>,
    /// Variables that it may read. Those that it was not granted it does not see.
    pub variables: Vec<(String, String)>,
    /// Where the values of its secrets are read.
    pub secrets: Arc<dyn Secrets>,
    /// Which servers it believes; without, it can send no request.
    pub trust: Option<Trust>,
}

impl Permit {
    /// For what it was granted, without values, and without the means to send requests.
    pub fn new(granted: Arc<Granted>) -> Permit {
        Permit { granted, variables: Vec::new(), secrets: Arc::new(NoSecrets), trust: None }
    }

    /// For all that its manifest asks for: a first-party plugin.
    pub fn all(file: &PluginFile) -> Permit {
        Permit::new(Arc::new(Granted::all(Arc::new(file.manifest().clone()))))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables are nobody's to print.
        f.debug_struct("Permit").field("granted", &self.granted).finish_non_exhaustive()
    }
}
