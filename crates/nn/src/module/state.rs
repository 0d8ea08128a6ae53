//! The state of a module as a dictionary of tensors: saving, checking and loading it.

use super::{Member, Module, visit_members};
use std::collections::{BTreeMap, HashMap};
use ternion_core::error::Text;
use ternion_core::{Error, Result, Tensor, no_grad, text};

/// Tensors by their keys, as in PyTorch's `state_dict()`.
pub type StateDict = BTreeMap<String, Tensor>;

/// Which keys are required when a state is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Exactly those of the module.
    #[default]
    Exact,
    /// Any. Tensors of the module without an entry keep their values, and unexpected entries are
    /// ignored. All other entries must fit.
    Partial,
}

/// Keys without a counterpart, from loading a state with [`Matching::Partial`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Keys of the module that were not loaded.
    pub missing: Vec<String>,
    /// Loaded keys that the module does not have.
    pub unexpected: Vec<String>,
}

/// All reasons why a state cannot be loaded.
#[derive(Default)]
struct Mismatches {
    unmatched: Unmatched,
    shapes: Vec<Text>,
    dtypes: Vec<Text>,
}

impl Mismatches {
    fn allow(&self, matching: Matching) -> bool {
        let keys = self.unmatched.missing.is_empty() && self.unmatched.unexpected.is_empty();
        self.shapes.is_empty() && self.dtypes.is_empty() && (keys || matching == Matching::Partial)
    }
}

impl From<Mismatches> for Text {
    fn from(mismatches: Mismatches) -> Text {
        let keys = |keys: Vec<String>| keys.into_iter().map(Text::from).collect();
        let kinds: [(&str, Vec<Text>); 4] = [
            ("; missing: ", keys(mismatches.unmatched.missing)),
            ("; extra: ", keys(mismatches.unmatched.unexpected)),
            ("; wrong shape: ", mismatches.shapes),
            ("; wrong dtype: ", mismatches.dtypes),
        ];
        let mut text = Text::from("the state does not fit");
        for (kind, keys) in kinds.into_iter().filter(|(_, keys)| !keys.is_empty()) {
            text.push(kind);
            text.push(Text::joined(keys, ", "));
        }
        text
    }
}

/// Returns parameters and state by key, detached and without copying them.
///
/// Returns an error with the op name `op` if two tensors have the same key (the dictionary would
/// keep only one), or if a part of a key is empty.
pub(crate) fn named_tensors<M: Module + ?Sized>(op: &'static str, module: &M) -> Result<StateDict> {
    let (mut tensors, mut addresses) = (StateDict::new(), HashMap::new());
    let mut error_message = None;
    visit_members(module, &mut |key, member| {
        let (tensor, address) = match member {
            Member::Param(param) => (param.tensor().detach(), param.address()),
            Member::State(state) => (state.tensor(), state.address()),
            Member::Mode(_) | Member::Layer { .. } => return,
        };
        if addresses.insert(key.to_owned(), address).is_some_and(|other| other != address) {
            error_message.get_or_insert(format!(
                "two tensors of the module have the key {key}: rename a field (#[module(rename = \"..\")]), or flatten one less"
            ));
        } else if !key.is_empty() && key.split('.').any(str::is_empty) {
            error_message.get_or_insert(format!(
                "the key {key} has an empty part: a name in a map of modules must not be empty"
            ));
        }
        tensors.insert(key.to_owned(), tensor);
    });
    error_message.map_or(Ok(tensors), |detail| Err(Error::invalid(op, detail)))
}

pub(crate) fn copy_state_dict<M: Module + ?Sized>(module: &M) -> Result<StateDict> {
    let tensors = named_tensors("state_dict", module)?;
    no_grad(|| tensors.into_iter().map(|(key, tensor)| Ok((key, tensor.copy()?))).collect())
}

pub(crate) fn load<M: Module + ?Sized>(
    module: &M,
    dict: &StateDict,
    matching: Matching,
) -> Result<Unmatched> {
    overwrite(&named_tensors("load_state_dict", module)?, dict, matching).map_err(|error| match error {
        LoadError::Mismatch(detail) => Error::invalid("load_state_dict", detail),
        LoadError::Failed(error) => error,
    })
}

/// Why a state was not loaded. Nothing has been changed, unless a device fails during the copies.
pub(crate) enum LoadError {
    /// Keys, shapes or dtypes do not fit.
    Mismatch(Text),
    /// A device failed.
    Failed(Error),
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        LoadError::Failed(error)
    }
}

/// Copies `sources` to `targets`, cast between floating dtypes, after all have been checked and
/// moved to the device of their target.
pub(crate) fn overwrite(
    targets: &StateDict,
    sources: &StateDict,
    matching: Matching,
) -> Result<Unmatched, LoadError> {
    let mismatches = compare(targets, sources);
    if !mismatches.allow(matching) {
        return Err(LoadError::Mismatch(mismatches.into()));
    }
    no_grad(|| {
        let mut copies = Vec::new();
        for (key, target) in targets {
            if let Some(source) = sources.get(key) {
                let source = source.detach().to_device(target.device())?;
                copies.push((target, source.to_dtype(target.dtype())?));
            }
        }
        for (target, source) in copies {
            target.copy_(&source)?;
        }
        Ok(mismatches.unmatched)
    })
}

/// A buffer of batch norms that is missing in files of PyTorch before 0.4.1 and of other
/// frameworks. If it is missing it keeps its value, as in PyTorch.
const NUM_BATCHES_TRACKED: &str = "num_batches_tracked";

/// Whether this key may be missing.
fn is_optional(key: &str) -> bool {
    key.rsplit('.').next() == Some(NUM_BATCHES_TRACKED)
}

fn compare(targets: &StateDict, sources: &StateDict) -> Mismatches {
    let mut mismatches = Mismatches::default();
    for (key, target) in targets {
        let Some(source) = sources.get(key) else {
            if !is_optional(key) {
                mismatches.unmatched.missing.push(key.clone());
            }
            continue;
        };
        if source.shape() != target.shape() {
            mismatches.shapes.push(text![key, " ", source.shape(), ", expected ", target.shape()]);
        }
        // PyTorch also casts integers and bool. Here that is an error, because the cast would hide
        // that the file belongs to another model.
        let both_float = source.dtype().is_float() && target.dtype().is_float();
        if source.dtype() != target.dtype() && !both_float {
            mismatches.dtypes.push(text![key, " ", source.dtype(), ", expected ", target.dtype()]);
        }
    }
    mismatches.unmatched.unexpected = unexpected_keys(targets, sources.keys());
    mismatches
}

/// For a module without tensors: returns `keys` as unmatched, or as an error if they must match.
pub(crate) fn match_without_tensors<'k>(
    keys: impl Iterator<Item = &'k String>,
    matching: Matching,
) -> Result<Unmatched, LoadError> {
    let unmatched = Unmatched { unexpected: unexpected_keys(&StateDict::new(), keys), ..Default::default() };
    let mismatches = Mismatches { unmatched, ..Default::default() };
    if mismatches.allow(matching) {
        return Ok(mismatches.unmatched);
    }
    Err(LoadError::Mismatch(mismatches.into()))
}

fn unexpected_keys<'k>(targets: &StateDict, keys: impl Iterator<Item = &'k String>) -> Vec<String> {
    keys.filter(|key| !targets.contains_key(*key)).cloned().collect()
}
