//! `#[derive(Module)]`: visits the fields of a model, so that no layer can be forgotten. The only
//! procedural macro of Ternion.

mod attributes;
mod expand;

use proc_macro::TokenStream;

/// Implements `Module` for a struct or enum by visiting its fields.
///
/// Every field must be a `ModuleField`: a parameter, a module, a container of those, or plain data
/// (numbers, strings, shapes, devices). A field of any other type does not compile without an
/// attribute, so that a layer cannot be missing from `parameters()` unnoticed.
///
/// The key of a field in the state dict is its name, or its index in a tuple struct. A variant of
/// an enum with one unnamed field does not add a key.
///
/// On a field:
/// - `#[module(skip)]`: excludes the field from the module. For plain data of types from other
///   crates.
/// - `#[module(rename = "fc.1")]`: uses another key, for weights that were saved under other names.
/// - `#[module(flatten)]`: adds no key; the members of the field become members of the whole.
///
/// Two fields with the same key do not compile. The keys within flattened fields are known only at
/// run time: if two of them are the same, `state_dict`, saving and loading return an error that
/// names the key.
///
/// On the type:
/// - `#[module(crate = "path::to::nn")]`: the path of `Module`. By default `::ternion::nn` or
///   `::ternion_nn`, depending on which crate the calling package depends on, also if it is
///   renamed.
///
/// A type parameter that occurs in a visited field is bounded by `ModuleField`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::module(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
