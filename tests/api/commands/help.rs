//! Help, completions, man pages, colours, and the messages about wrong arguments.

use std::process::Command;

use gene_registry::keys::ApiKey;

use super::cli_user::CliUser;
use super::run;
use crate::support::process::Launch;
use crate::support::scratch_folder;

/// The words of every command after `gene-registry`, nested ones too; the first has none.
async fn commands(cli_user: &CliUser) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    for number in 0.. {
        let Some(command) = commands.get(number).cloned() else { break };
        let help = help(cli_user, &command).await;
        let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" {
                commands.push([&command[..], &[name.to_owned()]].concat());
            }
        }
    }
    commands
}

async fn help(cli_user: &CliUser, command: &[String]) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    cli_user.run(&words).await.ok().stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn help_has_examples_and_names_the_exit_statuses() {
    let cli_user = CliUser::new();
    let commands = commands(&cli_user).await;
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let help = help(&cli_user, &command).await;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
        let call = format!("gene-registry {}", command.join(" "));
        assert!(examples.contains(call.trim_end()), "{help}");
        assert!(!help.contains('\u{1b}'), "no colours without a terminal");
    }
    let help = help(&cli_user, &[]).await;
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
async fn the_examples_of_completions_work_in_a_new_home() {
    let cli_user = CliUser::new();
    let help = help(&cli_user, &["completions".to_owned()]).await;
    let lines = help.lines().map(str::trim);
    let examples: Vec<_> = lines.filter(|line| line.contains(" > ~/")).collect();
    assert_eq!(examples.len(), 3, "{help}");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_gene-registry")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for example in examples {
        let launch = Launch::new("example", "sh").args(["-c", example]).env("PATH", &path);
        run(cli_user.in_environment(launch)).await.ok();
        let (_, file) = example.rsplit_once("> ~/").unwrap();
        assert_ne!(std::fs::read(cli_user.folder.join(file)).unwrap(), b"", "{example}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn man_pages_of_all_commands_have_all_sections_and_no_faults() {
    const SECTIONS: [&str; 8] = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "EXIT STATUS",
        "ENVIRONMENT",
        "EXAMPLES",
        "SEE ALSO",
    ];
    /// They use no file.
    const WITHOUT_FILES: [&str; 4] = ["demo", "openapi", "token", "token new"];
    let cli_user = CliUser::new();
    let folder = cli_user.folder.join("new/man1");
    cli_user.run(&["man", "--dir", folder.to_str().unwrap()]).await.ok();
    let commands = commands(&cli_user).await;
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), commands.len());
    for command in commands {
        let name = [&["gene-registry".to_owned()], &command[..]].concat().join("-");
        let page = folder.join(format!("{name}.1"));
        let options = ["-man", "-ww", "-Tutf8", "-P-cbou"];
        let output = Command::new("groff").args(options).arg(&page).output();
        let output = output.expect("groff, of the package groff-base");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}");
        let headings: Vec<&str> =
            text.lines().filter(|line| line.starts_with(char::is_uppercase)).collect();
        for section in SECTIONS {
            assert!(headings.contains(&section), "{name}: {section}\n{text}");
        }
        let has_files = !WITHOUT_FILES.contains(&command.join(" ").as_str());
        assert_eq!(headings.contains(&"FILES"), has_files, "{name}\n{text}");
        let (_, examples) = text.split_once("\nEXAMPLES\n").unwrap();
        let call = format!("gene-registry {}", command.join(" "));
        assert!(examples.contains(call.trim_end()), "{text}");
    }
    let first = cli_user.run(&["man"]).await.ok().stdout;
    assert_eq!(first, std::fs::read_to_string(folder.join("gene-registry.1")).unwrap());

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
