//! `#[derive(Module)]`: walks the fields of a model, so that no layer can be forgotten. The only procedural macro of Ternion.

mod attributes;
mod expand;

use proc_macro::TokenStream;

/// Implements `Module` for a struct or enum by walking its fields.
///
/// Every field must be a `ModuleField`: a parameter, a module, a container of those, or plain data (numbers, strings, shapes, devices). A field of
/// any other type does not compile until it says what it is, so that a layer cannot go missing from `parameters()` without a word.
///
/// The key of a field in the state dict is its name, or its position in a tuple struct. A variant of an enum that holds one unnamed field
/// adds no key of its own.
///
/// On a field:
/// - `#[module(skip)]`: not part of the module. For plain data of foreign types.
/// - `#[module(rename = "fc.1")]`: another key, for weights that were saved under other names.
/// - `#[module(flatten)]`: no key of its own; the field's members appear as members of the whole.
///
/// Two fields with one key do not compile. What two flattened fields bring along is known only to the program that runs: there `state_dict`,
/// saving and loading are errors that name the key.
///
/// On the type:
/// - `#[module(crate = "path::to::nn")]`: where `Module` is to be found. By default `::ternion::nn` or `::ternion_nn`, whichever the
///   calling package depends on, under whatever name it does.
///
/// A type parameter that occurs in a field that is walked is bound by `ModuleField`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::module(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
