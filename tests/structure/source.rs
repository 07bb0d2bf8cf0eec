//! What the rules need to know about a source file: its module, imports, functions and types. Test
//! code is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree};

/// Whether a `use` names something for this file only, or re-exports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Private,
    Exported,
}

/// A path that the file refers to, starting at the crate root.
#[derive(Debug, Clone)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    /// The name that a `use` binds it to in this file.
    pub(crate) name: Option<String>,
    pub(crate) visibility: Visibility,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: usize,
    pub(crate) parameters: usize,
    /// A trait or the document requires the signature: the number of parameters is not a choice.
    pub(crate) has_required_signature: bool,
}

#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
    pub(crate) uses: Vec<NamedPath>,
    pub(crate) functions: Vec<Function>,
    pub(crate) types: Vec<String>,
    test_modules: Vec<Vec<String>>,
}

/// The product's files in `src/`.
pub(crate) fn sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = BTreeSet::new();
    collect(&root.join("src"), &mut paths);
    let mut files: Vec<SourceFile> = paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let path = path.strip_prefix(root).unwrap().to_str().unwrap();
            SourceFile::parse(path, &text)
        })
        .filter(|file| file.path != "src/main.rs" && !file.path.ends_with("_tests.rs"))
        .collect();
    let tests: Vec<_> = files.iter().flat_map(|file| file.test_modules.clone()).collect();
    files.retain(|file| !tests.iter().any(|test| file.module.starts_with(test)));
    assert!(files.len() > 100, "src/ is not where it is expected");
    files
}

fn collect(folder: &Path, paths: &mut BTreeSet<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.insert(path);
        }
    }
}

impl SourceFile {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let module = path.trim_start_matches("src/").trim_end_matches(".rs").split('/');
        let module = module.map(str::to_owned).filter(|name| name != "mod" && name != "lib");
        let mut file = Self {
            path: path.to_owned(),
            module: module.collect(),
            text: text.to_owned(),
            uses: Vec::new(),
            functions: Vec::new(),
            types: Vec::new(),
            test_modules: Vec::new(),
        };
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        file.visit_file(&syntax);
        file
    }

    fn add_path(&mut self, segments: &[String], name: Option<String>, visibility: Visibility) {
        let mut absolute = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super") => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            _ => self.module.clone(),
        };
        let self_keywords = ["crate", "super", "self"];
        absolute.extend(
            segments.iter().skip_while(|name| self_keywords.contains(&name.as_str())).cloned(),
        );
        let supers = segments.iter().filter(|name| *name == "super").count();
        // The match above has handled the first `super`.
        for _ in 1..supers {
            let parent = self.module.len().saturating_sub(2);
            absolute.remove(parent);
        }
        self.uses.push(NamedPath { segments: absolute, name, visibility });
    }

    fn add_use(&mut self, tree: &UseTree, before: &[String], visibility: Visibility) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_use(&path.tree, &with(&path.ident), visibility),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(tree, before, visibility));
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.add_path(before, before.last().cloned(), visibility);
            }
            UseTree::Name(name) => {
                self.add_path(&with(&name.ident), Some(name.ident.to_string()), visibility);
            }
            UseTree::Rename(name) => {
                self.add_path(&with(&name.ident), Some(name.rename.to_string()), visibility);
            }
            _ => self.add_path(before, None, visibility),
        }
    }

    fn add_function(&mut self, signature: &syn::Signature, body: &syn::Block, is_required: bool) {
        let lines =
            body.brace_token.span.close().end().line - signature.fn_token.span.start().line + 1;
        self.functions.push(Function {
            name: signature.ident.to_string(),
            lines,
            parameters: signature.inputs.len() - usize::from(signature.receiver().is_some()),
            has_required_signature: is_required,
        });
    }

    /// Adds the paths inside a macro call, which `syn` does not parse.
    fn add_tokens(&mut self, tokens: &TokenStream) {
        let text = tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            if word.starts_with("crate::") || word.starts_with("super::") {
                let segments: Vec<String> = word.split("::").map(str::to_owned).collect();
                self.add_path(&segments, None, Visibility::Private);
            }
        }
    }
}

/// Whether this is an `impl` of API operations, which have one parameter for each in the document.
fn is_api(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("OpenApi"))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        let words = list.map(|list| list.tokens.to_string()).unwrap_or_default();
        let mut words = words.split(|c: char| !c.is_alphanumeric());
        attribute.path().is_ident("cfg") && words.any(|word| word == "test")
    })
}

impl<'ast> Visit<'ast> for SourceFile {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {
                let name = module.ident.to_string();
                self.test_modules.push([self.module.clone(), vec![name]].concat());
                return;
            }
            Item::Fn(function) if is_test(&function.attrs) => return,
            Item::Use(used) if is_test(&used.attrs) => return,
            Item::Use(used) => {
                let visibility = match used.vis {
                    syn::Visibility::Inherited => Visibility::Private,
                    _ => Visibility::Exported,
                };
                // A path that begins with the name of another crate resolves to no file here.
                self.add_use(&used.tree, &[], visibility);
                return;
            }
            Item::Fn(function) => self.add_function(&function.sig, &function.block, false),
            Item::Struct(item) => self.types.push(item.ident.to_string()),
            Item::Enum(item) => self.types.push(item.ident.to_string()),
            Item::Trait(item) => self.types.push(item.ident.to_string()),
            Item::Type(item) => self.types.push(item.ident.to_string()),
            Item::Impl(item) => {
                for part in &item.items {
                    if let ImplItem::Fn(function) = part {
                        let is_required = item.trait_.is_some() || is_api(&item.attrs);
                        self.add_function(&function.sig, &function.block, is_required);
                    }
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let self_keywords = ["crate", "super", "self"];
        if segments.len() > 1 && self_keywords.contains(&segments[0].as_str()) {
            self.add_path(&segments, None, Visibility::Private);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.add_tokens(&mac.tokens);
        visit::visit_macro(self, mac);
    }
}
