//! Whether the service accepts the form of the registry's API keys.

use tokio_postgres::Error;

use super::finding::Finding;
use super::rows::PREFIX;
use super::session::Session;
use super::values::{failed, is_about_values};
use crate::config::KeysConfig;

pub(super) const CHECK: &str = "keys";

/// A small sample, because this runs at the start of each replica, too.
fn prefixes() -> String {
    format!(
        "SELECT count(*) AS count, min({PREFIX}) AS example,
            count(*) FILTER (WHERE starts_with(prefix::text, 'gr_')) AS own
        FROM (SELECT prefix FROM registry_read.api_key LIMIT 100) sample"
    )
}

pub(super) async fn check(
    session: &mut Session,
    config: &KeysConfig,
) -> Result<Vec<Finding>, Error> {
    if config.accept_foreign {
        return Ok(Vec::new());
    }
    let row = match session.row(&prefixes()).await {
        Err(error) if is_about_values(&error) => return Ok(vec![failed(CHECK, "api_key", &error)]),
        row => row?,
    };
    let (count, own): (i64, i64) = (row.try_get("count")?, row.try_get("own")?);
    if count == 0 || own > 0 {
        return Ok(Vec::new());
    }
    let example: Option<String> = row.try_get("example")?;
    let example = example.map_or(String::new(), |it| format!(" (such as {it})"));
    let message = format!(
        "the prefixes in registry_read.api_key{example} do not begin with gr_, and \
         keys.accept_foreign is false: these keys get 401"
    );
    let remedy = "Set keys.accept_foreign = true (GENE_REGISTRY__KEYS__ACCEPT_FOREIGN=true). If this \
                  service created the keys, show the beginning of each as its prefix.";
    Ok(vec![Finding::warning(CHECK, message, remedy)])
}
