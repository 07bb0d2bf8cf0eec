//! The texts of the commands about logins and API keys.

use super::entries::{
    ACCOUNT_STATUSES, CERTIFICATES, COLOURS, COMMON, CONFIG_FILE, CONFIG_FILES, CONFIG_KEYS,
    CREDENTIALS, CREDENTIALS_FOLDER, DATABASE, KEY_STATUSES, TIME_ZONE,
};
use super::text::{HelpEntry, HelpText};

/// The variables of a command that uses a login.
const ACCOUNT_COMMAND: &[&[HelpEntry]] = &[CERTIFICATES, CREDENTIALS_FOLDER, TIME_ZONE, COLOURS];

/// The variables of a command that manages keys: by a login, or in the database.
const KEY_COMMAND: &[&[HelpEntry]] =
    &[CONFIG_FILE, CONFIG_KEYS, DATABASE, CERTIFICATES, CREDENTIALS_FOLDER, TIME_ZONE, COLOURS];

pub(super) const TEXTS: &[HelpText] = &[
    HelpText {
        command: "login",
        notes: "\
With an OpenID issuer, the command shows a page and a code: open the page in any browser, on any
device, and confirm. With tokens, it asks for a token or reads it from standard input; never give a
token as an argument, where others can see it. Credentials are kept in
gene-registry/credentials.json in your configuration folder, readable only by you.",
        examples: &[
            (
                "gene-registry login --server https://registry.example.org:8081",
                "Log in to a server for the first time",
            ),
            ("gene-registry login", "Log in to the server last logged in to"),
            ("gene-registry login --token-stdin < token.txt", "Log in in a script"),
        ],
        exit_statuses: ACCOUNT_STATUSES,
        environment: ACCOUNT_COMMAND,
        files: &[CREDENTIALS],
    },
    HelpText {
        command: "logout",
        notes: "\
If an issuer gave a refresh token, it is revoked there too, if the issuer can be reached and supports
revocation. A token that an operator created stays valid: ask the operator to remove it.",
        examples: &[
            ("gene-registry logout", "Log out from the server last logged in to"),
            (
                "gene-registry logout --server https://registry.example.org:8081",
                "Log out from another server",
            ),
            ("gene-registry logout --all", "Log out from all servers"),
        ],
        exit_statuses: ACCOUNT_STATUSES,
        environment: ACCOUNT_COMMAND,
        files: &[CREDENTIALS],
    },
    HelpText {
        command: "whoami",
        examples: &[
            ("gene-registry whoami", "Show the login to the server last logged in to"),
            (
                "gene-registry whoami --server https://registry.example.org:8081 --json",
                "Show another login, as JSON",
            ),
        ],
        exit_statuses: ACCOUNT_STATUSES,
        environment: ACCOUNT_COMMAND,
        files: &[CREDENTIALS],
        ..COMMON
    },
    HelpText {
        command: "api-key",
        notes: "\
Keys belong to the user who is logged in. With --direct, operators work in the database instead.",
        examples: &[
            ("gene-registry api-key create --name laptop", "Create a key"),
            ("gene-registry api-key list", "List your keys"),
            ("gene-registry api-key revoke --prefix gr_aB3dEf7h", "Revoke a key"),
        ],
        exit_statuses: KEY_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "api-key create",
        notes: "\
Operators may limit the rate, the scopes and the number of the keys that users create on a server.",
        examples: &[
            ("gene-registry api-key create --name laptop", "Create a key of 30 requests a minute"),
            (
                "KEY=$(gene-registry api-key create --name ci --expires 90d)",
                "Create a key that expires, in a script",
            ),
            (
                "gene-registry api-key create --name dashboard --rate-limit 600 --json",
                "Create a key of 600 requests a minute, and show it as JSON",
            ),
            (
                "gene-registry api-key create --direct --owner team-a --name ci",
                "Create a key for somebody else, as an operator",
            ),
        ],
        exit_statuses: ACCOUNT_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "api-key list",
        notes: "Times are in your time zone (TZ, or the system's); in JSON they are in UTC.",
        examples: &[
            ("gene-registry api-key list", "List your keys"),
            ("gene-registry api-key list --json", "List them as JSON"),
            ("gene-registry api-key list --all", "List everyone's keys, as an operator"),
        ],
        exit_statuses: ACCOUNT_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "api-key update",
        notes: "\
What you do not give stays as it is. The change takes effect within two seconds, and the key itself
stays the same. A key that has expired or was revoked cannot be changed.

Operators may limit the rate of the keys of users on a server.",
        examples: &[
            (
                "gene-registry api-key update --prefix gr_aB3dEf7h --rate-limit 600",
                "Allow 600 requests a minute",
            ),
            (
                "gene-registry api-key update --prefix gr_aB3dEf7h --name ci --expires 90d",
                "Rename a key, and let it expire in 90 days",
            ),
            (
                "gene-registry api-key update --prefix gr_aB3dEf7h --expires never",
                "Let it never expire",
            ),
        ],
        exit_statuses: KEY_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "api-key revoke",
        notes: "\
On a terminal the command shows the key and asks for confirmation; in a script it does not. If the
prefix matches no key or several keys, nothing is revoked and the exit status is 2. Revoking a key
twice is harmless.",
        examples: &[
            ("gene-registry api-key revoke --prefix gr_aB3dEf7h", "Revoke a key"),
            ("gene-registry api-key revoke --prefix aB3d --yes", "Revoke it without a question"),
        ],
        exit_statuses: KEY_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "api-key rotate",
        notes: "\
The new key has the owner, name, scopes, limit and lifetime of the old one. Deploy it while both
keys work.

A key can be rotated only once while its replacement is active. If the replacement was lost, rotate
the replacement, by the prefix that the error message shows. After the replacement has expired or was
revoked, the old key can be rotated again, with its original lifetime, as long as it is active.",
        examples: &[
            ("gene-registry api-key rotate --prefix gr_aB3dEf7h", "Replace a key within a day"),
            (
                "KEY=$(gene-registry api-key rotate --prefix gr_aB3dEf7h --overlap 7d)",
                "Replace it within a week, in a script",
            ),
            (
                "gene-registry api-key rotate --prefix gr_aB3dEf7h --overlap 0s",
                "Replace it at once: the old key ends now",
            ),
        ],
        exit_statuses: KEY_STATUSES,
        environment: KEY_COMMAND,
        files: &[CREDENTIALS, CONFIG_FILES],
    },
    HelpText {
        command: "token",
        notes: "The configuration holds only the hash of a token. It accepts the token once it is deployed.",
        examples: &[(
            "gene-registry token new --user alice > token.txt",
            "Create a token, and keep it in a file to pass on",
        )],
        environment: &[COLOURS],
        ..COMMON
    },
    HelpText {
        command: "token new",
        examples: &[
            (
                "gene-registry token new --user alice > token.txt",
                "Create a token, and keep it in a file to pass on",
            ),
            ("gene-registry token new --user alice --expires 90d", "Create one that expires"),
        ],
        environment: &[COLOURS],
        ..COMMON
    },
];
