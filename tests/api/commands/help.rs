//! Help, completions, man pages, colours, and the messages about wrong arguments.

use std::process::Command;

use gene_registry::keys::ApiKey;

use super::cli_user::CliUser;
use crate::support::scratch_folder;

const COMMANDS: [&[&str]; 9] = [
    &["login"],
    &["logout"],
    &["whoami"],
    &["api-key", "create"],
    &["api-key", "list"],
    &["api-key", "revoke"],
    &["api-key", "rotate"],
    &["completions"],
    &["man"],
];

#[tokio::test(flavor = "multi_thread")]
async fn help_has_examples_and_names_the_exit_statuses() {
    let cli_user = CliUser::new();
    for command in COMMANDS {
        let help = cli_user.run(&[command, &["--help"]].concat()).await.ok();
        let example = format!("\n  gene-registry {}", command.join(" "));
        assert!(help.stdout.contains("Examples:"), "{help:?}");
        assert!(help.stdout.contains(&example) || command == ["api-key", "create"], "{help:?}");
        assert!(!help.stdout.contains('\u{1b}'), "no colours without a terminal");
    }
    let help = cli_user.run(&["--help"]).await.ok().stdout;
    for line in ["Exit status:", "  0  ", "  1  ", "  2  "] {
        assert!(help.contains(line), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_accept_their_completion_scripts() {
    let cli_user = CliUser::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = cli_user.run(&["completions", shell]).await.ok().stdout;
        for word in ["api-key", "rotate", "--prefix", "login", "--token-stdin"] {
            let word = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    // The completions that a shell would offer; bash is available everywhere.
    let script = cli_user.run(&["completions", "bash"]).await.ok().stdout;
    let file = scratch_folder("completions").join("bash");
    std::fs::write(&file, script).unwrap();
    let offered = r#"
        source "$1"
        COMP_WORDS=(gene-registry api-key r) COMP_CWORD=2
        function=$(complete -p gene-registry | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" gene-registry r api-key
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output =
        Command::new("bash").args(["--norc", "-c", offered, "bash"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "revoke\nrotate\n", "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn man_pages_are_written_for_all_commands() {
    let cli_user = CliUser::new();
    let folder = cli_user.folder.join("new/man1");
    cli_user.run(&["man", "--dir", folder.to_str().unwrap()]).await.ok();
    for command in COMMANDS {
        let page = folder.join(format!("gene-registry-{}.1", command.join("-")));
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?} {error}"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains("Examples:"), "{text}");
    }
    let first = cli_user.run(&["man"]).await.ok().stdout;
    assert_eq!(first, std::fs::read_to_string(folder.join("gene-registry.1")).unwrap());
    assert!(first.contains("Exit status:"), "{first}");

    cli_user.run(&["man", "--dir", "/dev/null/x"]).await.failed(1, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn misplaced_keys_and_tokens_are_not_printed() {
    let cli_user = CliUser::new();
    let key = ApiKey::generate().unwrap();
    let secret = &key.expose()[12..];
    let token = format!("grt_{}", &secret[..20]);
    let foreign = format!("{secret}{secret}");
    for typed in [key.expose(), token.as_str(), foreign.as_str()] {
        let rest = &typed[typed.len() - 12..];
        for args in [
            &["login", typed][..],
            &["login", "--token", typed],
            &["login", "--server", typed],
            &["logout", typed],
            &["whoami", typed],
            &["api-key", typed],
            &["api-key", "revoke", typed],
            &["api-key", "revoke", "--prefix", typed],
            &["api-key", "rotate", "--prefix", typed],
            &["api-key", "create", "--name", "x", "--expires", typed],
            &["api-key", "create", "--name", "x", "--rate-limit", typed],
            &["completions", typed],
        ] {
            cli_user.run(args).await.failed(2, &[rest]);
        }
    }
    let said = cli_user.run(&["api-key", "revoke", "gr_aB3dEf7h"]).await.failed(2, &[]).stderr;
    assert!(said.contains("'gr_aB3dEf7h'"), "an argument that is no secret is repeated: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_appear_only_on_terminals_that_allow_them() {
    let cli_user = CliUser::new();
    let colourful = cli_user.at_terminal(&["login", "--nonsense"]).await.wait_for_end().await.1;
    assert!(colourful.contains("\u{1b}["), "{colourful:?}");
    let plain = cli_user.at_plain_terminal(&["login", "--nonsense"]).await.wait_for_end().await.1;
    assert!(!plain.contains('\u{1b}') && plain.contains("--nonsense"), "{plain:?}");
    let ended = cli_user.run(&["login", "--nonsense"]).await.failed(2, &[]);
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:?}");
}
