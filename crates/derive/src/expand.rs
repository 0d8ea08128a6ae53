//! Generates `impl Module` from the definition of a type.

use crate::attributes::{FieldRole, field_role, library_path};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DataStruct, DeriveInput, Error, Field, Fields, Generics, Member, Result, Variant};

/// Returns the implementation for `input`.
pub fn module(input: &DeriveInput) -> Result<TokenStream> {
    let library = library_path(input)?;
    let body = match &input.data {
        Data::Struct(data) => struct_body(data, &library)?,
        Data::Enum(data) => enum_body(data, &library)?,
        Data::Union(_) => {
            return Err(Error::new(input.span(), "derive(Module): a union has no fields that can be walked"));
        }
    };
    let generics = with_bounds(input, &library)?;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    let kind = name.to_string();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #library::Module for #name #type_generics #where_clause {
            fn visit(&self, visitor: &mut #library::Visitor<'_>) {
                visitor.layer(#kind, self);
                #body
            }
        }
    })
}

fn struct_body(data: &DataStruct, library: &TokenStream) -> Result<TokenStream> {
    check_distinct_keys(&data.fields)?;
    let visits = members(&data.fields).map(|(member, field)| {
        visit_field(field, &key_of(&member), &quote_spanned!(field.ty.span()=> &self.#member), library)
    });
    visits.collect()
}

fn enum_body(data: &DataEnum, library: &TokenStream) -> Result<TokenStream> {
    if data.variants.is_empty() {
        return Ok(quote!(match *self {}));
    }
    let arms = data.variants.iter().map(|variant| match_arm(variant, library)).collect::<Result<Vec<_>>>()?;
    Ok(quote!(match self { #(#arms)* }))
}

fn match_arm(variant: &Variant, library: &TokenStream) -> Result<TokenStream> {
    check_distinct_keys(&variant.fields)?;
    let name = &variant.ident;
    let newtype = matches!(&variant.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1);
    let (mut patterns, mut visits) = (TokenStream::new(), TokenStream::new());
    for (position, (member, field)) in members(&variant.fields).enumerate() {
        let binding = format_ident!("field_{position}", span = field.ty.span());
        match field_role(field)? {
            FieldRole::Skip => continue,
            FieldRole::Member(None) if newtype => {
                visits.extend(visit_flat(field, &quote!(#binding), library))
            }
            _ => visits.extend(visit_field(field, &key_of(&member), &quote!(#binding), library)?),
        }
        patterns.extend(quote!(#member: #binding,));
    }
    Ok(quote!(Self::#name { #patterns .. } => { #visits }))
}

/// Rejects two fields with the same key, which would be one entry in the state dict. The keys
/// within flattened fields are not known here; duplicates among them are errors at run time.
fn check_distinct_keys(fields: &Fields) -> Result<()> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (member, field) in members(fields) {
        let name = key_of(&member);
        let (key, span) = match field_role(field)? {
            FieldRole::Skip | FieldRole::Flatten => continue,
            FieldRole::Member(Some(renamed)) => (renamed.value(), renamed.span()),
            FieldRole::Member(None) => (name.clone(), member.span()),
        };
        if let Some(other) = seen.insert(key.clone(), name.clone()) {
            let message = format!(
                "derive(Module): fields `{other}` and `{name}` have the same key `{key}`: one would overwrite the other in the state dict"
            );
            return Err(Error::new(span, message));
        }
    }
    Ok(())
}

/// Returns the code that visits one field through the reference `value`.
fn visit_field(field: &Field, name: &str, value: &TokenStream, library: &TokenStream) -> Result<TokenStream> {
    let key = match field_role(field)? {
        FieldRole::Skip => return Ok(TokenStream::new()),
        FieldRole::Flatten => return Ok(visit_flat(field, value, library)),
        FieldRole::Member(Some(renamed)) => renamed.value(),
        FieldRole::Member(None) => name.to_owned(),
    };
    // With the span of the type, the error for a field that is not a module points to that field.
    Ok(quote_spanned!(field.ty.span()=> visitor.field(#key, #value);))
}

fn visit_flat(field: &Field, value: &TokenStream, library: &TokenStream) -> TokenStream {
    quote_spanned!(field.ty.span()=> #library::ModuleField::visit_field(#value, visitor);)
}

fn members(fields: &Fields) -> impl Iterator<Item = (Member, &Field)> {
    fields.members().zip(fields.iter())
}

/// Returns a field's name without `r#`, or its index.
fn key_of(member: &Member) -> String {
    match member {
        Member::Named(name) => syn::ext::IdentExt::unraw(name).to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

/// Returns the generics of the type. Type parameters that occur in visited fields are bounded by
/// `ModuleField`.
///
/// The bound is on the parameter, not on the field's type: a type that contains boxes of itself
/// would otherwise require itself without end.
fn with_bounds(input: &DeriveInput, library: &TokenStream) -> Result<Generics> {
    let mut generics = input.generics.clone();
    let mut used = BTreeSet::new();
    for field in all_fields(&input.data) {
        if !matches!(field_role(field)?, FieldRole::Skip) {
            collect_identifiers(field.ty.to_token_stream(), &mut used);
        }
    }
    for parameter in generics.type_params_mut() {
        if used.contains(&parameter.ident) {
            parameter.bounds.push(syn::parse_quote!(#library::ModuleField));
        }
    }
    Ok(generics)
}

fn all_fields(data: &Data) -> Vec<&Field> {
    match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| variant.fields.iter()).collect(),
        Data::Union(_) => Vec::new(),
    }
}

/// Collects every identifier in a type, at any depth.
fn collect_identifiers(tokens: TokenStream, names: &mut BTreeSet<Ident>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                names.insert(name);
            }
            TokenTree::Group(group) => collect_identifiers(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn error_message(input: &DeriveInput) -> Option<String> {
        module(input).err().map(|error| error.to_string())
    }

    #[test]
    fn fields_with_the_same_key_do_not_compile() {
        let renamed: [DeriveInput; 3] = [
            parse_quote! {
                #[module(crate = "nn")]
                struct Net { #[module(rename = "fc")] first: Linear, #[module(rename = "fc")] second: Linear }
            },
            parse_quote! {
                #[module(crate = "nn")]
                struct Net { first: Linear, #[module(rename = "first")] second: Linear }
            },
            parse_quote! {
                #[module(crate = "nn")]
                enum Net { One { first: Linear, #[module(rename = "first")] second: Linear } }
            },
        ];
        for (input, key) in renamed.iter().zip(["fc", "first", "first"]) {
            let message = error_message(input).expect("two fields under one key");
            let expected = format!("derive(Module): fields `first` and `second` have the same key `{key}`: ");
            assert!(message.starts_with(&expected), "{message}");
        }
    }

    #[test]
    fn skipped_fields_and_different_variants_may_share_a_name() {
        let fine: [DeriveInput; 2] = [
            parse_quote! {
                #[module(crate = "nn")]
                struct Net { #[module(skip)] first: u8, #[module(rename = "first")] second: Linear }
            },
            parse_quote! {
                #[module(crate = "nn")]
                enum Net { One { layer: Linear }, Other { layer: Linear } }
            },
        ];
        for input in fine {
            assert_eq!(error_message(&input), None);
        }
    }
}
