//! The state of a module as a dictionary of tensors: copied out, checked, copied in.

use crate::module::{Member, Module, walk_members};
use std::collections::BTreeMap;
use std::fmt;
use ternion_core::{Error, Result, Tensor, no_grad};

/// Tensors by their keys, as in PyTorch's `state_dict()`.
pub type StateDict = BTreeMap<String, Tensor>;

/// Which keys must be there when a state is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Exactly those of the module.
    #[default]
    Exact,
    /// Any: what is missing keeps its values, what is extra is passed over. What is there must fit all the same.
    Partial,
}

/// Keys without a counterpart, of a state loaded with [`Matching::Partial`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Keys of the module that were not loaded.
    pub missing: Vec<String>,
    /// Loaded keys that the module does not have.
    pub extra: Vec<String>,
}

/// All that keeps a state from being loaded.
#[derive(Default)]
struct Misfits {
    unmatched: Unmatched,
    shapes: Vec<String>,
    dtypes: Vec<String>,
}

impl Misfits {
    fn allow(&self, matching: Matching) -> bool {
        let keys = self.unmatched.missing.is_empty() && self.unmatched.extra.is_empty();
        self.shapes.is_empty() && self.dtypes.is_empty() && (keys || matching == Matching::Partial)
    }
}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("missing", &self.unmatched.missing),
            ("extra", &self.unmatched.extra),
            ("wrong shape", &self.shapes),
            ("wrong dtype", &self.dtypes),
        ];
        f.write_str("the state does not fit")?;
        for (kind, keys) in kinds.iter().filter(|(_, keys)| !keys.is_empty()) {
            write!(f, "; {kind}: {}", keys.join(", "))?;
        }
        Ok(())
    }
}

/// Parameters and state by key, on the module's own memory and without history.
pub(crate) fn tensors_of<M: Module + ?Sized>(module: &M) -> StateDict {
    let mut tensors = StateDict::new();
    walk_members(module, &mut |key, member| {
        let tensor = match member {
            Member::Param(param) => param.tensor().detach(),
            Member::State(state) => state.tensor(),
            Member::Mode(_) | Member::Layer { .. } => return,
        };
        tensors.insert(key.to_owned(), tensor);
    });
    tensors
}

pub(crate) fn copy_of<M: Module + ?Sized>(module: &M) -> Result<StateDict> {
    no_grad(|| tensors_of(module).into_iter().map(|(key, tensor)| Ok((key, tensor.copy()?))).collect())
}

pub(crate) fn load<M: Module + ?Sized>(
    module: &M,
    dict: &StateDict,
    matching: Matching,
) -> Result<Unmatched> {
    overwrite(&tensors_of(module), dict, matching).map_err(|error| match error {
        Overwrite::Misfit(detail) => Error::invalid("load_state_dict", detail),
        Overwrite::Failed(error) => error,
    })
}

/// Why a state was not loaded: nothing has been changed then, but for a device that fails in the middle.
pub(crate) enum Overwrite {
    /// Keys, shapes or dtypes do not fit; in words.
    Misfit(String),
    /// A device failed.
    Failed(Error),
}

impl From<Error> for Overwrite {
    fn from(error: Error) -> Self {
        Overwrite::Failed(error)
    }
}

/// Copies `sources` into the memory of `targets`, once it is known that all fit and all are on their device.
pub(crate) fn overwrite(
    targets: &StateDict,
    sources: &StateDict,
    matching: Matching,
) -> Result<Unmatched, Overwrite> {
    let misfits = compare(targets, sources);
    if !misfits.allow(matching) {
        return Err(Overwrite::Misfit(misfits.to_string()));
    }
    no_grad(|| {
        let mut copies = Vec::new();
        for (key, target) in targets {
            if let Some(source) = sources.get(key) {
                copies.push((target, source.detach().to_device(target.device())?));
            }
        }
        for (target, source) in copies {
            target.copy_(&source)?;
        }
        Ok(misfits.unmatched)
    })
}

fn compare(targets: &StateDict, sources: &StateDict) -> Misfits {
    let mut misfits = Misfits::default();
    for (key, target) in targets {
        let Some(source) = sources.get(key) else {
            misfits.unmatched.missing.push(key.clone());
            continue;
        };
        if source.shape() != target.shape() {
            misfits.shapes.push(format!("{key} {:?}, expected {:?}", source.shape(), target.shape()));
        }
        if source.dtype() != target.dtype() {
            misfits.dtypes.push(format!("{key} {}, expected {}", source.dtype(), target.dtype()));
        }
    }
    misfits.unmatched.extra = sources.keys().filter(|key| !targets.contains_key(*key)).cloned().collect();
    misfits
}
