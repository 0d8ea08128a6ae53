//! Parsing of the attribute `#[module(..)]` of a type or a field.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, DeriveInput, Error, Field, Ident, LitStr, Path, Result};

/// How a field is visited.
pub enum FieldRole {
    /// As a member with this key; `None` stands for the field's name.
    Member(Option<LitStr>),
    /// The members of the field become members of the enclosing module.
    Flatten,
    /// The field is not visited.
    Skip,
}

/// Returns the path of the crate or module that contains `Module`.
pub fn library_path(input: &DeriveInput) -> Result<TokenStream> {
    let mut path: Option<Path> = None;
    for attribute in module_attributes(&input.attrs) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                path = Some(meta.value()?.parse::<LitStr>()?.parse()?);
                return Ok(());
            }
            Err(meta.error("expected `crate = \"path\"`; skip, rename and flatten belong on a field"))
        })?;
    }
    match path {
        Some(path) => Ok(quote!(#path)),
        None => find_library(),
    }
}

/// Finds the facade or the crate of layers, by its name in the calling package.
///
/// Both declare `extern crate self`, so that their absolute names are also valid within themselves.
fn find_library() -> Result<TokenStream> {
    let name = |package: &str, this_crate: &str| {
        crate_name(package).ok().map(|crate_found| match crate_found {
            FoundCrate::Itself => Ident::new(this_crate, Span::call_site()),
            FoundCrate::Name(name) => Ident::new(&name, Span::call_site()),
        })
    };
    if let Some(layers) = name("ternion-nn", "ternion_nn") {
        return Ok(quote!(::#layers));
    }
    if let Some(facade) = name("ternion", "ternion") {
        return Ok(quote!(::#facade::nn));
    }
    Err(Error::new(
        Span::call_site(),
        "derive(Module): this package depends on neither `ternion` nor `ternion-nn`; name the path with #[module(crate = \"..\")]",
    ))
}

/// Returns how `field` is visited.
pub fn field_role(field: &Field) -> Result<FieldRole> {
    let mut role = FieldRole::Member(None);
    let mut is_set = false;
    for attribute in module_attributes(&field.attrs) {
        attribute.parse_nested_meta(|meta| {
            if std::mem::replace(&mut is_set, true) {
                return Err(meta.error("a field is skipped, renamed or flattened: one of the three"));
            }
            role = if meta.path.is_ident("skip") {
                FieldRole::Skip
            } else if meta.path.is_ident("flatten") {
                FieldRole::Flatten
            } else if meta.path.is_ident("rename") {
                FieldRole::Member(Some(parse_key(meta.value()?.parse()?)?))
            } else {
                return Err(meta.error("expected `skip`, `rename = \"key\"` or `flatten`"));
            };
            Ok(())
        })?;
    }
    Ok(role)
}

/// Returns `text` if it is a valid key: parts separated by dots, none of them empty.
fn parse_key(text: LitStr) -> Result<LitStr> {
    if text.value().split('.').any(str::is_empty) {
        return Err(Error::new(text.span(), "a key is one or more names with dots between them"));
    }
    Ok(text)
}

fn module_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("module"))
}
