//! The documents: the README's index lists each, links lead to existing headings, and the tests and
//! files that they name exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::assert_none;

const FOLDERS: [&str; 4] = ["", "docs", "config/compose", "config/kubernetes"];

struct Document {
    path: PathBuf,
    /// Without blocks of code.
    prose: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<Document> {
    let entries = FOLDERS.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let documents: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| Document { prose: prose(&fs::read_to_string(&path).unwrap()), path })
        .collect();
    assert!(documents.len() > 15, "the documents are not where they are expected");
    documents
}

fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

impl Document {
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap().display().to_string()
    }

    /// The targets of the links to other documents and headings.
    fn links(&self) -> impl Iterator<Item = &str> {
        let targets = self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.filter(|target| !target.starts_with("http"))
    }

    /// The names of tests: module and function, such as `limits::a_limit_of_zero_is_always_refused`.
    fn tests(&self) -> impl Iterator<Item = &str> {
        let is_path = |text: &str| {
            text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:…".contains(c))
        };
        self.code().filter(move |text| {
            is_path(text) && text.contains("::") && !text.starts_with("gene_registry::")
        })
    }

    /// The names of files in `src/` and `tests/`.
    fn files(&self) -> impl Iterator<Item = &str> {
        let words = self.code().filter_map(|text| text.split_whitespace().next());
        let is_source = |word: &&str| word.starts_with("src/") || word.starts_with("tests/");
        words.filter(move |word| is_source(word) && !word.contains(['<', '*']))
    }

    fn code(&self) -> impl Iterator<Item = &str> {
        self.prose.split('`').skip(1).step_by(2)
    }
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn leads_somewhere(from: &Document, target: &str) -> bool {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => from.path.clone(),
        _ => from.path.with_file_name("").join(file),
    };
    let headings = || {
        let text = prose(&fs::read_to_string(&path).unwrap_or_default());
        let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
        headings.collect::<Vec<_>>()
    };
    path.exists() && (fragment.is_empty() || headings().iter().any(|anchor| anchor == fragment))
}

/// Whether a module of the behaviour tests, or a test in one, has this name. An ellipsis stands for
/// the end of the name of a test.
fn is_test(name: &str) -> bool {
    let exists = |module: &str| {
        let path = root().join("tests/api").join(module.replace("::", "/"));
        [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|path| path.exists())
    };
    if exists(name).is_some() {
        return true;
    }
    let Some((module, function)) = name.rsplit_once("::") else { return false };
    let declaration = match function.strip_suffix('…') {
        Some(beginning) => format!("fn {beginning}"),
        None => format!("fn {function}("),
    };
    exists(module).is_some_and(|path| fs::read_to_string(path).unwrap().contains(&declaration))
}

#[test]
fn the_readme_lists_every_document() {
    let documents = documents();
    let index = fs::read_to_string(root().join("README.md")).unwrap();
    let missing = documents.iter().map(Document::name).filter(|name| name != "README.md");
    let missing: Vec<String> =
        missing.filter(|name| !index.contains(&format!("]({name}"))).collect();
    assert_none(&missing, "README.md links to every document");
}

#[test]
fn links_lead_to_existing_headings() {
    let mut faults = Vec::new();
    for document in documents() {
        let broken = document.links().filter(|target| !leads_somewhere(&document, target));
        faults.extend(broken.map(|target| format!("{}: {target}", document.name())));
    }
    assert_none(&faults, "the target of a link exists");
}

#[test]
fn the_tests_and_files_that_documents_name_exist() {
    let mut faults = Vec::new();
    for document in documents() {
        let tests = document.tests().filter(|name| !is_test(name));
        let files = document.files().filter(|file| !root().join(file).exists());
        faults.extend(tests.chain(files).map(|name| format!("{}: {name}", document.name())));
    }
    assert_none(&faults, "correct the name");
}

#[test]
fn the_rules_for_documents_find_violations() {
    let path = root().join("docs/api.md");
    let text = "# One: `two`\n[a](#one-two) [b](#three) [c](none.md) [d](keys.md#log-in)\n\
                `limits::no_test` `src/none.rs x` `limits` ```\n[e](code)\n```";
    let document = Document { path, prose: prose(text) };
    assert_eq!(
        document.links().collect::<Vec<_>>(),
        ["#one-two", "#three", "none.md", "keys.md#log-in"]
    );
    assert_eq!(document.tests().collect::<Vec<_>>(), ["limits::no_test"]);
    assert_eq!(document.files().collect::<Vec<_>>(), ["src/none.rs"]);
    assert_eq!(anchor("# One: `two`"), "one-two");
    assert!(leads_somewhere(&document, "#errors") && leads_somewhere(&document, "keys.md#log-in"));
    assert!(!leads_somewhere(&document, "#three") && !leads_somewhere(&document, "none.md"));
    assert!(is_test("limits::a_limit_of_zero_is_always_refused") && is_test("limits_batches"));
    assert!(is_test("currency::slow_log::a_slow_log_…") && !is_test("limits::no_test"));
}
