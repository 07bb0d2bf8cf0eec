//! Exit statuses, environment variables and files that several commands have in common.

use super::text::{HelpEntry, HelpText};

/// What most commands have in common.
pub(super) const COMMON: HelpText = HelpText {
    command: "",
    notes: "",
    examples: &[],
    exit_statuses: EXIT_STATUSES,
    environment: &[],
    files: &[],
};

const SUCCESS: HelpEntry = ("0", "success");
const FAILURE: HelpEntry = ("1", "failure; the message says why");
const USAGE_ERROR: HelpEntry = ("2", "usage error; nothing was changed");

/// Of most commands.
pub(super) const EXIT_STATUSES: &[HelpEntry] = &[SUCCESS, FAILURE, USAGE_ERROR];

/// Of a check whose result is its exit status.
pub(super) const CHECK_STATUSES: &[HelpEntry] =
    &[("0", "valid"), ("1", "not valid; all errors are listed"), USAGE_ERROR];

/// Of the check of all that a replica needs.
pub(super) const DOCTOR_STATUSES: &[HelpEntry] = &[
    ("0", "no serious finding; there may be warnings"),
    ("1", "at least one serious finding"),
    USAGE_ERROR,
];

/// Of the check of a fleet.
pub(super) const CANARY_STATUSES: &[HelpEntry] = &[
    ("0", "with --once: nothing is broken; otherwise: ended by SIGINT or SIGTERM"),
    ("1", "with --once: something is broken, or nothing could be checked"),
    USAGE_ERROR,
];

/// Of the check of a replica.
pub(super) const HEALTH_STATUSES: &[HelpEntry] =
    &[("0", "the replica is ready"), ("1", "it is not ready, or did not respond"), USAGE_ERROR];

/// Of commands that run until a signal ends them.
pub(super) const SERVICE_STATUSES: &[HelpEntry] = &[
    ("0", "ended by SIGINT or SIGTERM, with all responses sent"),
    ("1", "failure; the message says why"),
    USAGE_ERROR,
    ("130", "interrupted a second time before its end"),
];

/// Of commands that need a login.
pub(super) const ACCOUNT_STATUSES: &[HelpEntry] = &[
    SUCCESS,
    FAILURE,
    (
        "2",
        "usage error; nothing was changed: a wrong argument, or no server given while not logged in\n\
         to any",
    ),
];

/// Of commands that change one existing key.
pub(super) const KEY_STATUSES: &[HelpEntry] = &[
    SUCCESS,
    FAILURE,
    (
        "2",
        "usage error; nothing was changed: a wrong argument, no server given while not logged in to\n\
         any, a prefix that matches no key or several keys, or a revocation that was not confirmed",
    ),
];

/// Of all commands together.
pub(super) const ALL_STATUSES: &[HelpEntry] = &[
    SUCCESS,
    FAILURE,
    KEY_STATUSES[2],
    ("130", "ended by SIGINT (Ctrl-C); serve and demo: interrupted a second time"),
    ("143", "ended by SIGTERM; serve, demo, maintain --every and canary end with 0"),
];

pub(super) const COLOURS: &[HelpEntry] = &[(
    "NO_COLOR",
    "If set and not empty, output has no colours. Otherwise output on terminals has.",
)];

pub(super) const CONFIG_FILE: &[HelpEntry] =
    &[("GENE_REGISTRY_CONFIG", "The configuration file, if --config is not given.")];

pub(super) const CONFIG_KEYS: &[HelpEntry] = &[(
    "GENE_REGISTRY__SECTION__KEY",
    "A key of the configuration; it overrides the file. GENE_REGISTRY__LOG__LEVEL=debug sets \
     log.level.",
)];

pub(super) const DATABASE: &[HelpEntry] = &[
    ("DATABASE_URL", "The registry's database: upstream.url."),
    ("PGUSER, USER", "The user of the database, if its URL names none."),
];

pub(super) const OTHER_STORES: &[HelpEntry] = &[
    ("REDIS_URL", "The Redis server: redis.url."),
    ("CONTROL_DATABASE_URL", "The database that keys are written to: control.database_url."),
    ("USAGE_DATABASE_URL", "Where the use of keys is recorded: keys.usage_database_url."),
];

pub(super) const CANARY_KEY: &[HelpEntry] =
    &[("CANARY_API_KEY", "The API key to use, if --key-file is not given.")];

pub(super) const CERTIFICATES: &[HelpEntry] = &[(
    "SSL_CERT_FILE, SSL_CERT_DIR",
    "Certificate authorities to trust instead of the system's: a PEM file, and a folder of them.",
)];

pub(super) const CREDENTIALS_FOLDER: &[HelpEntry] =
    &[("XDG_CONFIG_HOME", "The folder of gene-registry/credentials.json; by default ~/.config.")];

pub(super) const TIME_ZONE: &[HelpEntry] =
    &[("TZ", "The time zone of times that are shown; by default the system's.")];

pub(super) const CONFIG_FILES: &[HelpEntry] = &[(
    "FILE of --config",
    "The configuration, as TOML. No file is read by default. The defaults, with every key \
     documented, are config/default.toml of the source.",
)];

pub(super) const CREDENTIALS: &[HelpEntry] = &[(
    "~/.config/gene-registry/credentials.json",
    "The user's logins: readable by nobody else, and replaced as a whole under the lock \
     credentials.lock beside it.",
)];
