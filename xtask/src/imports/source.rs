//! One crate's source as a tree of modules: the file of each module, the names that it defines or
//! imports, and the paths that its code mentions. Code that is compiled only for tests is ignored.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};

/// The segments of a path as written, including `crate`, `self` and `super`.
pub type Segments = Vec<String>;

/// What a name means in a module.
#[derive(Debug)]
pub enum Name {
    /// An item of the module.
    Item,
    /// An import under this name.
    Import(Segments),
}

/// A module: a file, or a block within one.
#[derive(Debug)]
pub struct Module {
    /// An index into [`Source::files`].
    pub file: usize,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    pub names: BTreeMap<String, Name>,
    /// Glob imports.
    pub globs: Vec<Segments>,
    /// Every path of several segments that the module's code mentions, including its private
    /// imports.
    pub paths: Vec<Segments>,
    /// Its re-exports, by name. A re-export by itself needs nothing of the other file: it counts as
    /// an import only if the name is among [`Module::mentions`].
    pub reexports: Vec<(String, Segments)>,
    pub mentions: BTreeSet<String>,
}

/// The modules of one crate, the root first.
#[derive(Debug, Default)]
pub struct Source {
    /// Paths relative to the folder of the crate's root file, in order of first mention.
    pub files: Vec<PathBuf>,
    pub modules: Vec<Module>,
}

impl Source {
    /// Reads the crate whose root is `root_file`, by following its `mod` declarations.
    ///
    /// # Errors
    /// A file is missing or is not Rust.
    pub fn read(root_file: &Path) -> Result<Source, String> {
        let folder = root_file.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut source = Source::default();
        let name = PathBuf::from(root_file.file_name().unwrap_or_default());
        source.read_file(&folder, name, Path::new(""), None)?;
        Ok(source)
    }

    /// Adds the module in `file`; its children's files are in `children_folder`.
    fn read_file(
        &mut self,
        root: &Path,
        file: PathBuf,
        children_folder: &Path,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let path = root.join(&file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        self.files.push(file);
        self.add_module(root, &parsed.items, self.files.len() - 1, children_folder, parent)
    }

    fn add_module(
        &mut self,
        root: &Path,
        items: &[syn::Item],
        file: usize,
        children_folder: &Path,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let index = self.modules.len();
        let mut reader = Reader::default();
        items.iter().for_each(|item| reader.visit_item(item));
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            names: reader.names,
            globs: reader.globs,
            paths: reader.paths,
            reexports: reader.reexports,
            mentions: reader.mentions,
        });
        for module in items.iter().filter_map(child_module) {
            let name = module.ident.unraw().to_string();
            let folder = children_folder.join(&name);
            let child = match &module.content {
                Some((_, items)) => self.add_module(root, items, file, &folder, Some(index))?,
                None => {
                    let flat = folder.with_extension("rs");
                    let child = if root.join(&flat).exists() { flat } else { folder.join("mod.rs") };
                    self.read_file(root, child, &folder, Some(index))?
                }
            };
            self.modules[index].children.insert(name, child);
        }
        // `#[macro_export]` defines a macro's name in the root, wherever its definition is.
        for macro_name in items.iter().filter_map(exported_macro) {
            self.modules[0].children.insert(macro_name, index);
        }
        Ok(index)
    }
}

fn child_module(item: &syn::Item) -> Option<&syn::ItemMod> {
    match item {
        syn::Item::Mod(module) if !is_for_tests(&module.attrs) => Some(module),
        _ => None,
    }
}

fn exported_macro(item: &syn::Item) -> Option<String> {
    let syn::Item::Macro(item) = item else { return None };
    let is_exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
    item.ident.as_ref().filter(|_| is_exported).map(syn::Ident::to_string)
}

/// Returns whether an item exists only when tests are compiled.
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let cfg = attribute.path().is_ident("cfg").then(|| attribute.parse_args::<syn::Meta>());
        attribute.path().is_ident("test") || matches!(cfg, Some(Ok(predicate)) if needs_test(&predicate))
    })
}

/// Returns whether a predicate of `cfg` is false wherever `test` is false.
fn needs_test(predicate: &syn::Meta) -> bool {
    let syn::Meta::List(list) = predicate else { return predicate.path().is_ident("test") };
    let separated = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let Ok(parts) = list.parse_args_with(separated) else { return false };
    match () {
        () if list.path.is_ident("all") => parts.iter().any(needs_test),
        () if list.path.is_ident("any") => parts.iter().all(needs_test),
        () => false,
    }
}

/// Collects names and paths of one module; the modules within it are read separately.
#[derive(Default)]
struct Reader {
    names: BTreeMap<String, Name>,
    globs: Vec<Segments>,
    paths: Vec<Segments>,
    reexports: Vec<(String, Segments)>,
    mentions: BTreeSet<String>,
    /// Whether the import that is being read is a re-export.
    is_public: bool,
    /// The number of blocks and items around the visited node: names within functions do not belong
    /// to the module.
    depth: usize,
}

impl Reader {
    fn define(&mut self, name: &syn::Ident) {
        if self.depth == 0 {
            self.names.insert(name.unraw().to_string(), Name::Item);
        }
    }

    fn import(&mut self, prefix: &Segments, tree: &syn::UseTree) {
        let with = |name: &syn::Ident| {
            let mut path = prefix.clone();
            path.push(name.unraw().to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(prefix, tree)),
            syn::UseTree::Glob(_) => {
                self.globs.push(prefix.clone());
                self.paths.extend((!self.is_public).then(|| prefix.clone()));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.import_as(prefix.last().cloned(), prefix.clone());
            }
            syn::UseTree::Name(name) => {
                self.import_as(Some(name.ident.unraw().to_string()), with(&name.ident))
            }
            syn::UseTree::Rename(rename) if rename.ident == "self" => {
                self.import_as(Some(rename.rename.unraw().to_string()), prefix.clone());
            }
            syn::UseTree::Rename(rename) => {
                self.import_as(Some(rename.rename.unraw().to_string()), with(&rename.ident));
            }
        }
    }

    fn import_as(&mut self, name: Option<String>, path: Segments) {
        let Some(name) = name else { return };
        self.names.entry(name.clone()).or_insert(Name::Import(path.clone()));
        match self.is_public {
            true => self.reexports.push((name, path)),
            false => self.paths.push(path),
        }
    }

    /// Collects the paths in the tokens of a macro call: identifiers joined by `::`, wherever they
    /// are.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                // `$crate` of a macro's definition
                TokenTree::Punct(punct) if punct.as_char() == '$' => {}
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.unraw().to_string());
                    colons = 0;
                }
                TokenTree::Ident(name) => {
                    self.end_path(&mut path);
                    path.push(name.unraw().to_string());
                    colons = 0;
                }
                other => {
                    self.end_path(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Segments) {
        self.mention(std::mem::take(path));
    }

    fn mention(&mut self, mut path: Segments) {
        match path.len() {
            0 => {}
            1 => self.mentions.extend(path.pop()),
            _ => {
                self.mentions.insert(path[0].clone());
                self.paths.push(path);
            }
        }
    }
}

/// Macros whose tokens are code of the crate that will call them, not of this one.
const QUOTING: [&str; 4] = ["quote", "quote_spanned", "parse_quote", "parse_quote_spanned"];

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, name) = attributes_and_name(item);
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.define(name);
        }
        match item {
            syn::Item::Mod(_) => {}
            syn::Item::Use(item) => {
                self.is_public = !matches!(item.vis, syn::Visibility::Inherited);
                self.import(&Segments::new(), &item.tree);
            }
            _ => {
                self.depth += 1;
                visit::visit_item(self, item);
                self.depth -= 1;
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[syn::Attribute] = match item {
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        let attributes: &[syn::Attribute] = match expression {
            syn::Expr::Block(block) => &block.attrs,
            syn::Expr::If(condition) => &condition.attrs,
            syn::Expr::Call(call) => &call.attrs,
            syn::Expr::MethodCall(call) => &call.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention(path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        let name = called.path.segments.last().map(|segment| segment.ident.to_string());
        if !name.is_some_and(|name| QUOTING.contains(&name.as_str())) {
            self.read_tokens(called.tokens.clone());
        }
    }
}

fn attributes_and_name(item: &syn::Item) -> (&[syn::Attribute], Option<&syn::Ident>) {
    use syn::Item;
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::ExternCrate(item) => (&item.attrs, None),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::TraitAlias(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}
