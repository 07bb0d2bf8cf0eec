//! Finds the blocks of commands and of SQL in the documents.

use std::path::{Path, PathBuf};

/// A block of commands for a shell, or of SQL.
pub(super) struct Block {
    /// The document's path in the repository.
    pub(super) document: String,
    /// The number of the block's first line.
    pub(super) line: usize,
    /// The SQL, for which the only command is psql.
    pub(super) sql: Option<String>,
    steps: Vec<Step>,
}

struct Step {
    /// A line for a shell; continued lines are one.
    command: String,
    /// Whether the output that is shown is an error of the API.
    is_refused: bool,
}

impl Block {
    /// The commands, without comments of their own.
    pub(super) fn commands(&self) -> Vec<String> {
        let commands = self.steps.iter().map(|step| step.command.trim().to_owned());
        commands.filter(|command| !command.is_empty() && !command.starts_with('#')).collect()
    }

    /// A script of the commands that `is_run` accepts; empty without any.
    pub(super) fn script(&self, is_run: impl Fn(&str) -> bool) -> String {
        let mut script = String::new();
        for step in &self.steps {
            let command = step.command.trim();
            if command.is_empty() || command.starts_with('#') || !is_run(command) {
                continue;
            }
            if step.is_refused {
                // What is to be refused may still be accepted for a moment.
                script += &format!("until ! {{ {command}\n}}; do sleep 0.1; done\n");
            } else {
                script += &format!("{}\n", step.command);
            }
        }
        script
    }
}

/// The blocks of all documents.
pub(super) fn blocks() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<PathBuf> = [root.to_owned(), root.join("docs")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.sort();
    let of_document = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        blocks_of(&name, &std::fs::read_to_string(path).unwrap())
    };
    documents.iter().flat_map(of_document).collect()
}

fn blocks_of(document: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let language = line.trim_start().strip_prefix("```");
        let Some(language) = language.filter(|language| !language.is_empty()) else { continue };
        let body = lines.by_ref().map(|(_, line)| line);
        let body: Vec<&str> = body.take_while(|line| line.trim() != "```").collect();
        let steps = match language {
            "sh" | "bash" => commands(&body, Some),
            "console" => commands(&body, |line| line.trim_start().strip_prefix("$ ")),
            "sql" => vec![psql(&body.join("\n"))],
            _ => continue,
        };
        let sql = (language == "sql").then(|| body.join("\n"));
        blocks.push(Block { document: document.to_owned(), line: index + 2, sql, steps });
    }
    blocks
}

fn psql(sql: &str) -> Step {
    let psql = r#"psql "$DATABASE_URL" --quiet --set ON_ERROR_STOP=1"#;
    Step { command: format!("{psql} <<'END'\n{sql}\nEND"), is_refused: false }
}

/// The commands of a block: lines that `begins` accepts, and what continues them. Other lines are
/// output.
fn commands<'a>(body: &[&'a str], begins: impl Fn(&'a str) -> Option<&'a str>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in body {
        if let Some(last) = steps.last_mut()
            && last.command.ends_with('\\')
        {
            last.command = format!("{}\n{line}", last.command);
        } else if let Some(command) = begins(line) {
            steps.push(Step { command: command.to_owned(), is_refused: false });
        } else if let Some(last) = steps.last_mut() {
            last.is_refused |= line.contains("\"error\":");
        }
    }
    steps
}

#[test]
fn blocks_of_commands_are_found() {
    let text = "# Title\n\n```sh\nexport A=1\ncurl -v \\\n  http://a   # why\n```\n```rust\nlet a;\n\
                ```\n1. item\n\n   ```console\n   $ curl http://b\n   {\"error\":\"x\"}\n   $ ls\n   ```\n\
                ```sql\nSELECT 1;\nSELECT 2;\n```\n";
    let blocks = blocks_of("a.md", text);
    let scripts: Vec<_> = blocks.iter().map(|block| block.script(|_| true)).collect();
    let refused = "until ! { curl http://b\n}; do sleep 0.1; done\nls\n";
    let sql = "psql \"$DATABASE_URL\" --quiet --set ON_ERROR_STOP=1 <<'END'\n\
               SELECT 1;\nSELECT 2;\nEND\n";
    assert_eq!(scripts, ["export A=1\ncurl -v \\\n  http://a   # why\n", refused, sql]);
    assert_eq!(blocks.iter().map(|block| block.line).collect::<Vec<_>>(), [4, 14, 19]);
    assert_eq!(blocks[2].sql.as_deref(), Some("SELECT 1;\nSELECT 2;"));
    assert_eq!(blocks[0].script(|command| command.starts_with("ls")), "");
}
