//! The blocks of commands and SQL in README.md and docs: each command works as it is written, or is
//! listed in [`NOT_RUN`] with the reason why a test cannot run it.
//!
//! A block is a fence marked `sh`, `console` or `sql`. All blocks of a document that has SQL share a new
//! database. A block runs in bash, in a folder that has all that the
//! repository has, as a user who is logged in, beside a replica over the sample registry. `curl`
//! fails for an error, unless the output that is shown after it has one. Hosts, ports, databases and
//! keys of the documents are replaced by those of the test: see [`Setup::replaced`].

mod blocks;
pub(crate) mod existing_registry;
mod setup;
mod watched_tables;

use std::collections::{BTreeSet, HashMap};

use blocks::{Block, blocks};
use setup::Setup;

/// Commands that no test can run by their beginnings, and the reasons.
const NOT_RUN: [(&str, &str); 23] = [
    (". ./registry.env", "gene-registry setup writes that file"),
    ("find orval", "it changes generated code; tests/sdk/run --all runs it"),
    ("gene-registry canary", "it runs until it is interrupted; commands::canary runs it"),
    ("gene-registry login --server https://CONTROL", "it needs a token; commands::canary logs in"),
    ("gene-registry setup", "it needs a server without these roles; tests/guides/run runs it"),
    ("sudo apt-get", "it changes the system; tests/guides/run runs it"),
    ("apt-get install", "it changes the system; tests/package/run runs it"),
    ("install -m", "it changes the system; tests/package/run does the same"),
    ("editor ", "it asks somebody; tests/package/run writes the file"),
    ("systemctl ", "it changes the system; tests/package/run runs it"),
    ("tests/", "it runs this test"),
    ("bench/", "it needs two quiet cores, for long"),
    ("cargo bench", "it needs two quiet cores, for long"),
    ("cargo install", "it builds a release"),
    ("cargo test", "it builds and runs the tests"),
    ("config/release/build", "it builds a release; tests/release/run tries it"),
    ("config/debian/build", "it needs cargo-deb; tests/package/run runs it"),
    ("docker ", "it needs a container engine; tests/containers/run does the same"),
    ("examples/monitor.mjs", "it runs until it is interrupted; tests/sdk/run runs it"),
    ("npm install", "it takes packages from the network; tests/sdk/run does it"),
    ("npx ", "it needs packages from the network; tests/sdk/run does it"),
    ("openapi-python-client", "it is a package from the network; tests/sdk/run does it"),
    ("pip install", "it takes packages from the network; tests/sdk/run does it"),
];

fn is_run(command: &str) -> bool {
    let command = without_variables(command);
    !NOT_RUN.iter().any(|(start, _)| command.starts_with(start))
}

/// A command without the variables that are set for it.
fn without_variables(command: &str) -> &str {
    let is_variable = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    match command.split_once(' ') {
        Some((word, rest)) if is_variable(word) => without_variables(rest),
        _ => command,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_documents_works() {
    let setup = Setup::start().await;
    let (mut run, mut faults) = (0, Vec::new());
    let with_sql: BTreeSet<String> =
        blocks().into_iter().filter(|b| b.sql.is_some()).map(|b| b.document).collect();
    let mut databases = HashMap::new();
    for document in with_sql {
        databases.insert(document, setup.create_database().await);
    }
    for block in blocks() {
        let script = block.script(is_run);
        if script.is_empty() {
            continue;
        }
        run += 1;
        if let Err(report) = setup.run(&script, databases.get(&block.document)).await {
            faults.push(format!("{}:{}:\n{script}\n{report}", block.document, block.line));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n--------\n"));
    assert!(run >= 5, "only {run} blocks were found");
}

#[test]
fn commands_that_are_not_run_are_documented() {
    let commands: Vec<String> = blocks().iter().flat_map(Block::commands).collect();
    for (start, reason) in NOT_RUN {
        assert!(
            commands.iter().any(|command| without_variables(command).starts_with(start)),
            "no document has '{start}' ({reason}): remove it from NOT_RUN"
        );
    }
}
