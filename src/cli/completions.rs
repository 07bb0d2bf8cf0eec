//! `gene-registry completions`

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::show::print;
use super::{Cli, Outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gene-registry completions bash > ~/.local/share/bash-completion/completions/gene-registry
  gene-registry completions zsh > ~/.zfunc/_gene-registry        # in a folder of fpath
  gene-registry completions fish > ~/.config/fish/completions/gene-registry.fish")]
pub(super) struct Completions {
    /// The shell to write them for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Outcome {
        let mut text = Vec::new();
        let mut command = Cli::command();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut text);
        let mut text = String::from_utf8(text)?;
        if self.shell == Shell::Bash {
            // The generator names a program with a hyphen in two ways, of which one is never met.
            text = text.replace("gene__subcmd__registry", "gene__registry");
        }
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
