//! `gene-registry api-key`: keys, straight on the database (`--direct`), for operators.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{ConfigFile, Outcome, block_on};
use crate::keys::store::{Listing, Revoked, Status, StoredKey};
use crate::keys::{KeyStore, NewKey, PostgresKeys, READ_SCOPE};
use crate::registry::{Timestamp, rfc3339_seconds};
use crate::upstream::ApiKeyRecord;

/// The exit status when nothing was done because the wish was not clear.
const UNCLEAR: u8 = 2;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Args)]
pub(super) struct ApiKeyCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key; the key itself is printed once, alone on standard output
    Create(Create),
    /// List keys, newest first
    List(List),
    /// Revoke a key
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct Create {
    #[command(flatten)]
    direct: Direct,
    /// What the key is called
    #[arg(long)]
    name: String,
    /// What the key may do; can be given more than once
    #[arg(long = "scope", default_value = READ_SCOPE)]
    scopes: Vec<String>,
    /// When the key ends: a duration (90d, 12h, 1s), a date or a time; without it, never
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
    /// Requests a minute, 0 to 2147483647
    #[arg(long, default_value_t = ApiKeyRecord::DEFAULT_RATE_LIMIT,
          value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
    rate_limit: u32,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    direct: Direct,
}

#[derive(Debug, Args)]
struct Revoke {
    #[command(flatten)]
    direct: Direct,
    /// The key's beginning, with or without gr_, from 4 characters on
    #[arg(long)]
    prefix: String,
}

#[derive(Debug, Args)]
struct Direct {
    #[command(flatten)]
    config: ConfigFile,
    /// Work straight on the database (DATABASE_URL)
    #[arg(long, required = true)]
    direct: bool,
    /// Whose keys
    #[arg(long, required = true)]
    owner: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Direct {
    fn store(&self) -> Result<PostgresKeys, Error> {
        Ok(PostgresKeys::new(&self.config.read()?.config.upstream)?)
    }
}

impl ApiKeyCommand {
    pub(super) fn run(self) -> Outcome {
        block_on(async {
            match self.action {
                Action::Create(create) => create.run().await,
                Action::List(list) => list.run().await,
                Action::Revoke(revoke) => revoke.run().await,
            }
        })
    }
}

impl Create {
    async fn run(self) -> Outcome {
        let store = self.direct.store()?;
        let new = NewKey {
            owner: self.direct.owner.clone(),
            name: self.name,
            scopes: self.scopes,
            rate_limit_per_minute: self.rate_limit,
            expires_at: self.expires,
        };
        let (key, _) = store.create(&new).await?;
        if self.direct.json {
            let shown = json!({
                "key": key.expose(),
                "prefix": key.prefix(),
                "owner": new.owner,
                "name": new.name,
                "scopes": new.scopes,
                "rate_limit_per_minute": new.rate_limit_per_minute,
                "expires_at": new.expires_at.map(rfc3339_seconds),
            });
            println!("{shown}");
        } else {
            eprintln!("Created {} for {}. The key is shown this once:", key.prefix(), new.owner);
            println!("{}", key.expose());
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    async fn run(self) -> Outcome {
        let store = self.direct.store()?;
        let keys = store.list(Some(&self.direct.owner), Listing::ALL).await?.keys;
        if self.direct.json {
            println!("{}", serde_json::to_string(&keys)?);
        } else {
            print_table(&keys);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Revoke {
    async fn run(self) -> Outcome {
        let store = self.direct.store()?;
        let owner = self.direct.owner.as_str();
        match store.revoke(Some(owner), &self.prefix.parse()?).await? {
            Revoked::Key(key) if self.direct.json => println!("{}", serde_json::to_string(&key)?),
            Revoked::Key(key) => println!("Revoked {} ({}).", key.prefix, key.name),
            Revoked::None => {
                eprintln!("No key of {owner} begins like that; nothing was revoked.");
                return Ok(UNCLEAR.into());
            }
            Revoked::Ambiguous(keys) => {
                eprintln!("Several keys begin like that; nothing was revoked:");
                keys.iter().for_each(|key| eprintln!("  {}  {}", key.prefix, key.name));
                return Ok(UNCLEAR.into());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_table(keys: &[StoredKey]) {
    let time = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), rfc3339_seconds);
    let header = ["PREFIX", "NAME", "SCOPES", "LIMIT", "CREATED", "EXPIRES", "LAST USED", "STATUS"]
        .map(str::to_owned);
    let rows = keys.iter().map(|key| {
        let status = match key.status {
            Status::Active => "active",
            Status::Expired => "expired",
            Status::Revoked => "revoked",
        };
        [
            key.prefix.clone(),
            key.name.escape_debug().to_string(),
            key.scopes.join(","),
            key.rate_limit_per_minute.to_string(),
            rfc3339_seconds(key.created_at),
            time(key.expires_at),
            time(key.last_used_at),
            status.to_owned(),
        ]
    });
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let mut widths = [0; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// A duration from now, a date (its beginning in UTC) or a time.
pub(super) fn expiry(text: &str) -> Result<Timestamp, String> {
    let utc = jiff::tz::TimeZone::UTC;
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return date
            .to_zoned_datetime(utc)
            .map(|at| at.timestamp())
            .map_err(|error| error.to_string());
    }
    let span = text.parse::<jiff::Span>().map_err(|_| {
        "expected a duration such as 90d, 12h or 1s, a date such as 2030-01-31, \
         or a time such as 2030-01-31T12:00:00Z"
            .to_owned()
    })?;
    if !span.is_positive() {
        return Err("the duration must be positive".to_owned());
    }
    let now = Timestamp::now().to_zoned_datetime(utc);
    now.checked_add(span).map(|at| at.timestamp()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_a_duration_a_date_or_a_time() {
        let seconds_from_now = |text| {
            let at = expiry(text).expect(text);
            at.duration_since(Timestamp::now()).as_secs()
        };
        assert!((90 * 86_400 - 5..=90 * 86_400).contains(&seconds_from_now("90d")));
        assert!((0..=1).contains(&seconds_from_now("1s")));
        assert_eq!(expiry("2030-01-31").expect("a date").to_string(), "2030-01-31T00:00:00Z");
        let time = expiry("2030-01-31T12:00:00+02:00").expect("a time");
        assert_eq!(time.to_string(), "2030-01-31T10:00:00Z");
        for wrong in ["", "soon", "-1d", "0s", "90", "2030-02-30"] {
            assert!(expiry(wrong).is_err(), "{wrong}");
        }
    }
}
