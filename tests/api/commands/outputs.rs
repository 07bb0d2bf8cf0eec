//! Commands whose output cannot be written: none panics, and none loses a secret silently.

use std::os::fd::OwnedFd;

use gene_registry::keys::ApiKey;

use super::cli_user::CliUser;
use super::{CommandResult, TIMEOUT, gene_registry, run};
use crate::support::control::{new_token, with_control};
use crate::support::database::Database;
use crate::support::free_port;
use crate::support::pipes::{closed_pipe, full_device};
use crate::support::postgres::PostgresServer;
use crate::support::process::Launch;
use crate::support::replica::{READER, Replica, config, long_timeouts, migrated, sample};
use crate::support::scratch_folder;

/// A user with all that commands need: a login, a replica, a database with the schema.
struct OutputSetup {
    database: Database<'static>,
    replica: Replica,
    cli_user: CliUser,
    token: String,
}

impl OutputSetup {
    async fn start() -> Self {
        let database = sample(PostgresServer::shared().await).await;
        let mut config = config(&database.url_as(READER), None);
        long_timeouts(&mut config);
        with_control(&mut config, &database);
        let token = new_token(&mut config, "ana");
        let replica = Replica::start(&config).await;
        let setup = Self { database, replica, cli_user: CliUser::new(), token };
        run(setup.login()).await.ok();
        setup
    }

    /// A command of a logged-in user, with the database and the replica's probes configured.
    fn command(&self, args: &[&str]) -> Launch {
        let ops = self.replica.ops.strip_prefix("http://").unwrap();
        let command = self.cli_user.command(args).env("DATABASE_URL", self.database.url());
        command.env("GENE_REGISTRY__OPS__BIND", ops)
    }

    fn login(&self) -> Launch {
        let server = self.replica.control.as_deref().unwrap();
        let login = ["login", "--server", server, "--token-stdin"];
        self.cli_user.command_with_input(&login, &self.token)
    }

    /// Commands that print something and can be repeated, in this order.
    fn commands(&self) -> Vec<(&'static str, Launch)> {
        let folder = scratch_folder("man");
        let man = ["man", "--dir", folder.to_str().unwrap()];
        let mut commands = vec![("login", self.login()), ("man --dir", self.command(&man))];
        for line in [
            "--help",
            "api-key create --help",
            "--version",
            "no-such-command",
            "openapi",
            "openapi --format yaml",
            "config check",
            "config print",
            "completions bash",
            "man",
            "healthcheck",
            "migrate",
            "seed",
            "maintain",
            "whoami",
            "whoami --json",
            "api-key list",
            "api-key list --json",
            "api-key list --direct --all",
            "api-key create --name n",
            "api-key create --name n --json",
            "api-key create --name n --direct --owner o",
            "api-key update --prefix gr_00000000 --name n",
            "api-key revoke --prefix gr_00000000",
            "api-key rotate --prefix gr_00000000",
            "token new --user ana",
            "setup --print-sql",
            "migrate --only roles,change-log",
            "logout --all",
            "logout",
            "serve",
        ] {
            let words: Vec<_> = line.split(' ').collect();
            // The address is not available, so `serve` ends with a message.
            let command = self.command(&words).env("GENE_REGISTRY__SERVER__BIND", "192.0.2.1:1");
            commands.push((line, command));
        }
        commands
    }
}

/// Every command that creates a secret that is shown once.
fn makes_a_secret(line: &str) -> bool {
    ["api-key create --name", "token new", "setup"].iter().any(|begin| line.starts_with(begin))
}

/// Commands that fail whatever their output is, or write to standard error only.
fn writes_to_stderr_alone(line: &str) -> bool {
    ["login", "man --dir", "no-such-command", "maintain", "logout", "logout --all", "serve"]
        .contains(&line)
        || line.contains("--prefix")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_panics_when_standard_output_is_full() {
    let setup = OutputSetup::start().await;
    for (line, command) in setup.commands() {
        let ended = run(command.stdout_to(full_device())).await;
        assert!([0, 1, 2].contains(&ended.code), "{line}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{line}: {ended:?}");
        if !writes_to_stderr_alone(line) {
            assert_eq!(ended.code, 1, "{line}: {ended:?}");
            assert!(ended.stderr.contains("No space left on device"), "{line}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_no_error_unless_a_secret_is_lost() {
    let setup = OutputSetup::start().await;
    for (line, command) in setup.commands() {
        let ended = run(command.stdout_to(closed_pipe())).await;
        assert!([0, 1, 2].contains(&ended.code), "{line}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{line}: {ended:?}");
        if makes_a_secret(line) {
            assert_eq!(ended.code, 1, "{line}: {ended:?}");
            assert!(ended.stderr.contains("Broken pipe"), "{line}: {ended:?}");
        } else if !writes_to_stderr_alone(line) {
            assert_eq!(ended.code, 0, "{line}: {ended:?}");
            assert!(!ended.stderr.contains("Broken pipe"), "{line}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_panics_when_standard_error_cannot_be_written() {
    let setup = OutputSetup::start().await;
    let targets: [fn() -> OwnedFd; 2] = [full_device, closed_pipe];
    for target in targets {
        for (line, command) in setup.commands() {
            let expected = match line {
                "no-such-command" => 2,
                // They print necessary information to standard error too.
                "token new --user ana" | "setup --print-sql" | "serve" => 1,
                _ if line.contains("--prefix") => 2,
                _ => 0,
            };
            let ended = run(command.stderr_to(target())).await;
            // Logged out of everything, there is no server to log out from.
            let is_expected = ended.code == expected || (line == "logout" && ended.code == 2);
            assert!(is_expected, "{line}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_panics_when_its_outputs_are_closed() {
    let setup = OutputSetup::start().await;
    for line in ["config print", "api-key list", "no-such-command", "token new --user ana"] {
        let words: Vec<_> = line.split(' ').collect();
        let script = r#"exec "$@" >&- 2>&-"#;
        let program = env!("CARGO_BIN_EXE_gene-registry");
        let launch = Launch::new("closed", "sh").args(["-c", script, "sh", program]).args(words);
        let ended = run(setup.cli_user.in_environment(launch)).await;
        assert!([0, 1, 2].contains(&ended.code), "{line}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_could_not_be_written_can_be_found_and_revoked() {
    let setup = OutputSetup::start().await;
    let create = ["api-key", "create", "--name", "lost"];
    for (target, why) in [(full_device(), "No space left"), (closed_pipe(), "Broken pipe")] {
        let ended = run(setup.command(&create).stdout_to(target)).await.failed(1, &[]);
        assert!(ended.stderr.contains(why), "{ended:?}");
        let (_, advice) = ended.stderr.split_once("gene-registry api-key revoke").unwrap();
        let prefix = advice.split_whitespace().nth(1).unwrap();
        let revoke = ["api-key", "revoke", "--prefix", prefix];
        run(setup.command(&revoke)).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_if_its_keys_cannot_be_written_and_ignores_later_closing() {
    let addresses = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let demo = || {
        gene_registry(["demo"])
            .env("GENE_REGISTRY__SERVER__BIND", &addresses[0])
            .env("GENE_REGISTRY__OPS__BIND", &addresses[1])
            .env("GENE_REGISTRY__CONTROL__BIND", &addresses[2])
    };
    let ended = run(demo().stdout_to(full_device())).await.failed(1, &[]);
    assert!(ended.stderr.contains("No space left on device"), "{ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");

    let process = demo().stdout_to(closed_pipe()).stderr_to(full_device()).start();
    crate::support::wait::until(TIMEOUT, "the demo responds", || async {
        assert!(process.is_running(), "{}", process.report());
        reqwest::get(format!("http://{}/readyz", addresses[1])).await.ok()
    })
    .await;
    process.signal(crate::support::process::Signal::Term);
    assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
}

async fn count(database: &Database<'_>, table: &str) -> i64 {
    let sql = format!("select count(*) from registry.{table}");
    database.connect().await.query_one(&sql, &[]).await.unwrap().get(0)
}

fn seed(database: &Database<'_>) -> Launch {
    gene_registry(["seed"]).env("DATABASE_URL", database.url())
}

async fn seeds(database: &Database<'_>) -> CommandResult {
    run(seed(database)).await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_leaves_the_registry_empty_when_its_key_cannot_be_written() {
    let database = migrated(PostgresServer::shared().await).await;
    for (target, why) in [(full_device(), "No space left"), (closed_pipe(), "Broken pipe")] {
        let ended = run(seed(&database).stdout_to(target)).await.failed(1, &[]);
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert_eq!((count(&database, "gene").await, count(&database, "api_key").await), (0, 0));
    }
    let key = seeds(&database).await.stdout.trim_end().to_owned();
    assert!(key.parse::<ApiKey>().is_ok(), "{key}");
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    let replica = Replica::start(&config).await;
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_standard_output_is_an_error_and_no_key_is_lost() {
    let database = migrated(PostgresServer::shared().await).await;
    for line in ["seed", "openapi", "config print", "token new --user ana"] {
        let program = env!("CARGO_BIN_EXE_gene-registry");
        let launch = Launch::new("closed", "sh").args(["-c", r#"exec "$@" >&-"#, "sh", program]);
        let launch = launch.args(line.split(' ')).env("DATABASE_URL", database.url());
        let ended = run(launch).await.failed(1, &[]);
        assert!(ended.stderr.contains("standard output: it is closed"), "{line}: {ended:?}");
    }
    assert_eq!((count(&database, "gene").await, count(&database, "api_key").await), (0, 0));
    // Discarding the output on purpose is no error.
    let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
    run(gene_registry(["openapi"]).stdout_to(null)).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_says_that_the_key_does_not_work_when_it_could_not_fill_the_registry() {
    let database = migrated(PostgresServer::shared().await).await;
    let refuse = "create function registry.refuse() returns trigger language plpgsql
        as $$ begin raise exception 'refused'; end $$;
        create trigger refuse before insert on registry.arena_evaluation
        execute function registry.refuse()";
    database.connect().await.batch_execute(refuse).await.unwrap();
    let ended = run(seed(&database)).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.trim_end().parse::<ApiKey>().is_ok(), "{ended:?}");
    assert!(ended.stderr.contains("the key does not work"), "{ended:?}");
    assert_eq!((count(&database, "gene").await, count(&database, "api_key").await), (0, 0));
}
