//! The texts of the program itself and of the commands for operators.

use super::entries::{
    ALL_STATUSES, CANARY_KEY, CANARY_STATUSES, CERTIFICATES, CHECK_STATUSES, COLOURS, COMMON,
    CONFIG_FILE, CONFIG_FILES, CONFIG_KEYS, CREDENTIALS, CREDENTIALS_FOLDER, DATABASE,
    DOCTOR_STATUSES, HEALTH_STATUSES, OTHER_STORES, SERVICE_STATUSES, TIME_ZONE,
};
use super::text::{HelpEntry, HelpText};

/// The variables of a command that reads the configuration and uses the database.
const DATABASE_COMMAND: &[&[HelpEntry]] =
    &[CONFIG_FILE, CONFIG_KEYS, DATABASE, CERTIFICATES, COLOURS];

pub(super) const TEXTS: &[HelpText] = &[
    HelpText {
        command: "",
        notes: "Colours are used on terminals only, and never if NO_COLOR is set and not empty.",
        examples: &[
            ("gene-registry demo", "Try the service, with nothing else installed"),
            ("gene-registry serve --config registry.toml", "Run a replica"),
            ("gene-registry api-key create --help", "Show the help of a command"),
        ],
        exit_statuses: ALL_STATUSES,
        environment: &[
            CONFIG_FILE,
            CONFIG_KEYS,
            DATABASE,
            OTHER_STORES,
            CERTIFICATES,
            CREDENTIALS_FOLDER,
            TIME_ZONE,
            COLOURS,
        ],
        files: &[CONFIG_FILES, CREDENTIALS],
    },
    HelpText {
        command: "serve",
        notes: "\
The configuration is the file, with the environment over it. Without a Redis URL, the replica caches
and counts alone. SIGINT and SIGTERM end it: it reports that it is not ready, completes the requests
in progress, and exits.",
        examples: &[
            (
                "gene-registry serve --config registry.toml --ready-file /run/registry.json",
                "Serve, and write the addresses to a file once it listens",
            ),
            (
                "DATABASE_URL=postgres://gene_registry_reader:PASSWORD@localhost/registry gene-registry serve",
                "Serve without a file",
            ),
        ],
        exit_statuses: SERVICE_STATUSES,
        environment: &[CONFIG_FILE, CONFIG_KEYS, DATABASE, OTHER_STORES, CERTIFICATES, COLOURS],
        files: &[
            CONFIG_FILES,
            &[
                (
                    "PATH of --ready-file",
                    "Written once the replica listens: JSON with base_url, ops_url and control_url.",
                ),
                (
                    "server.tls.cert_file, server.tls.key_file",
                    "The certificate and the key of the public listener, reloaded when they change.",
                ),
            ],
        ],
    },
    HelpText {
        command: "demo",
        notes: "\
Like serve, the demo reads GENE_REGISTRY__SECTION__KEY from the environment. It uses neither a
configuration file nor database settings, and lists those that are set. If a default address is in
use, it takes a free port; if an address that you chose is in use, it fails.",
        examples: &[
            ("gene-registry demo", "Run the demo; it prints keys and requests to try"),
            ("gene-registry demo --bind 127.0.0.1:9000", "Listen on another address"),
        ],
        exit_statuses: SERVICE_STATUSES,
        environment: &[CONFIG_KEYS, COLOURS],
        ..COMMON
    },
    HelpText {
        command: "setup",
        notes: "\
The SQL creates the roles of the service, a role that owns the new database, and the database. A
superuser runs it once, with psql; it changes nothing if a role or the database exists. It has only
hashes of the passwords. The passwords are written to standard error once, as settings for a shell;
random ones, unless --password-file names files.",
        examples: &[
            (
                "gene-registry setup --print-sql 2> registry.env | sudo -u postgres psql",
                "Prepare the server of this machine, and keep the settings",
            ),
            (
                "gene-registry setup --print-sql --password-file gene_registry_reader=reader.txt",
                "Choose a password",
            ),
        ],
        environment: &[COLOURS],
        files: &[&[("FILE of --password-file", "Its first line is the password of the role.")]],
        ..COMMON
    },
    HelpText {
        command: "migrate",
        notes: "\
Run it as the owner of the database. It may run at any time and in several processes at once: it holds
a lock, and does nothing if the schema is up to date.

For a registry with tables and views of its own, --only roles,change-log creates what the service needs
beside them: the reader's role, with SELECT on the views, and in the schema registry the change log. It
changes nothing else and may be repeated; docs/upstream.md of the source is the guide.",
        examples: &[
            (
                "DATABASE_URL=postgres://owner:PASSWORD@localhost/registry gene-registry migrate",
                "Create the schema, or bring it up to date",
            ),
            (
                "gene-registry migrate --only roles,change-log",
                "Prepare a registry that has views of its own",
            ),
        ],
        environment: DATABASE_COMMAND,
        files: &[CONFIG_FILES],
        ..COMMON
    },
    HelpText {
        command: "seed",
        notes: "\
Creates one API key of 5,000 requests a minute and prints it, alone on standard output; with --key-file,
prints none. A registry that has genes is not changed.",
        examples: &[
            ("KEY=$(gene-registry seed)", "Load the sample registry, and keep the key"),
            ("gene-registry seed --genes 100000 --seed 7", "Load generated genes"),
            ("gene-registry seed --key-file key.txt", "Use a key that exists"),
        ],
        environment: DATABASE_COMMAND,
        files: &[CONFIG_FILES, &[("F of --key-file", "The API key to use. It is not changed.")]],
        ..COMMON
    },
    HelpText {
        command: "maintain",
        notes: "\
It is for the default schema only. With --every, a round that fails is logged and the next one tries
again; SIGINT and SIGTERM end it. A wrong configuration ends it with status 1.",
        examples: &[
            ("gene-registry maintain", "Run one round, from a timer"),
            ("gene-registry maintain --every 60s", "Run a round every minute"),
        ],
        environment: DATABASE_COMMAND,
        files: &[CONFIG_FILES],
        ..COMMON
    },
    HelpText {
        command: "openapi",
        notes: "It needs neither a database nor a running replica.",
        examples: &[
            ("gene-registry openapi > openapi.json", "Write the document for a generator of clients"),
            ("gene-registry openapi --format yaml --version 3.1", "Print it as OpenAPI 3.1, in YAML"),
        ],
        environment: &[COLOURS],
        ..COMMON
    },
    HelpText {
        command: "config",
        examples: &[
            ("gene-registry config check --config registry.toml", "Check a file before deploying it"),
            ("gene-registry config print", "Show the values in effect"),
        ],
        exit_statuses: CHECK_STATUSES,
        environment: &[CONFIG_FILE, CONFIG_KEYS, DATABASE, OTHER_STORES, COLOURS],
        files: &[CONFIG_FILES],
        ..COMMON
    },
    HelpText {
        command: "config check",
        notes: "\
It checks what serve checks before it starts, including the files that the configuration names. It
connects to nothing.",
        examples: &[(
            "gene-registry config check --config registry.toml",
            "Check a file before deploying it",
        )],
        exit_statuses: CHECK_STATUSES,
        environment: &[CONFIG_FILE, CONFIG_KEYS, DATABASE, OTHER_STORES, COLOURS],
        files: &[CONFIG_FILES],
    },
    HelpText {
        command: "config print",
        notes: "Each line is a key, its value, and where the value is from.",
        examples: &[
            ("gene-registry config print", "Show all values in effect"),
            (
                "gene-registry config print --config registry.toml | grep -v '# default'",
                "Show only values that are set",
            ),
        ],
        environment: &[CONFIG_FILE, CONFIG_KEYS, DATABASE, OTHER_STORES, COLOURS],
        files: &[CONFIG_FILES],
        ..COMMON
    },
    HelpText {
        command: "doctor",
        notes: "\
It connects as serve would, and prints one finding a line with its remedy: serious ones first, then
warnings, then the checks that found nothing. It changes nothing but one key of its own on each
Redis server, which it deletes; where it may not, the key expires after ten seconds. config check is the
part of it that needs no connection.",
        examples: &[
            ("gene-registry doctor --config registry.toml", "Check before the first start"),
            (
                "gene-registry doctor --json | jq -r '.[] | select(.severity == \"serious\").remedy'",
                "Print the remedies of serious findings only",
            ),
        ],
        exit_statuses: DOCTOR_STATUSES,
        environment: &[CONFIG_FILE, CONFIG_KEYS, DATABASE, OTHER_STORES, CERTIFICATES, COLOURS],
        files: &[CONFIG_FILES],
    },
    HelpText {
        command: "canary",
        notes: "\
It sends requests like any client and needs no access to Postgres or Redis. In each round it uses up the
limit of its key, which needs 18 requests a minute for each replica, and one more. With --server, once an
hour, it creates a key named canary at that control listener, revokes it, and measures how long replicas
still accept it. docs/canary.md of the source describes the checks.",
        examples: &[
            (
                "gene-registry canary --once --key-file canary.key --url http://10.0.0.1:8080 --url http://10.0.0.2:8080",
                "Check two replicas once",
            ),
            (
                "gene-registry canary --key-file canary.key --url http://api:8080 --each-address",
                "Check all replicas behind a name, every minute",
            ),
        ],
        exit_statuses: CANARY_STATUSES,
        environment: &[CANARY_KEY, CONFIG_FILE, CONFIG_KEYS, CREDENTIALS_FOLDER, CERTIFICATES, COLOURS],
        files: &[CONFIG_FILES, CREDENTIALS, &[("FILE of --key-file", "The API key to use.")]],
    },
    HelpText {
        command: "healthcheck",
        notes: "\
Requests /readyz of the operations listener (ops.bind) on this machine, and waits two seconds at most.",
        examples: &[
            ("gene-registry healthcheck", "Check the replica, as a container probe does"),
            (
                "GENE_REGISTRY__OPS__BIND=127.0.0.1:9465 gene-registry healthcheck",
                "Check a replica on another port",
            ),
        ],
        exit_statuses: HEALTH_STATUSES,
        environment: &[CONFIG_FILE, CONFIG_KEYS, COLOURS],
        files: &[CONFIG_FILES],
    },
    HelpText {
        command: "completions",
        examples: &[
            (
                "mkdir -p ~/.local/share/bash-completion/completions && gene-registry completions bash \
                 > ~/.local/share/bash-completion/completions/gene-registry",
                "Complete in bash",
            ),
            (
                "mkdir -p ~/.zfunc && gene-registry completions zsh > ~/.zfunc/_gene-registry",
                "Complete in zsh, where ~/.zfunc is in fpath",
            ),
            (
                "mkdir -p ~/.config/fish/completions && gene-registry completions fish \
                 > ~/.config/fish/completions/gene-registry.fish",
                "Complete in fish",
            ),
        ],
        environment: &[COLOURS],
        files: &[&[
            ("~/.local/share/bash-completion/completions", "bash reads completions here."),
            ("A folder of fpath", "zsh reads completions here, before compinit runs."),
            ("~/.config/fish/completions", "fish reads completions here."),
        ]],
        ..COMMON
    },
    HelpText {
        command: "man",
        examples: &[
            ("gene-registry man | man -l -", "Read the main page"),
            ("gene-registry man --dir ~/.local/share/man/man1", "Install the pages of all commands"),
        ],
        environment: &[COLOURS],
        files: &[&[("DIR of --dir", "Where gene-registry.1 and a page for each command are written.")]],
        ..COMMON
    },
];
