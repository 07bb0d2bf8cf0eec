//! The clocks of the database and of Redis against that of this machine.

use std::time::Duration;

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use crate::registry::Timestamp;

pub(super) const CHECK: &str = "clocks";

/// A difference up to this is no finding.
const TOLERANCE: Duration = Duration::from_secs(2);

pub(super) async fn check(session: &mut Session) -> Result<Vec<Finding>, Error> {
    let before = Timestamp::now();
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros";
    let micros = session.row(sql).await?.try_get("micros")?;
    Ok(compare("the database", before, micros).into_iter().collect())
}

/// Compares a clock that was read since `before`; `micros`: what it showed, in microseconds since 1970.
pub(super) fn compare(server: &str, before: Timestamp, micros: i64) -> Option<Finding> {
    let after = Timestamp::now().as_microsecond();
    let before = before.as_microsecond();
    let (difference, direction) =
        if micros > after { (micros - after, "ahead of") } else { (before - micros, "behind") };
    let difference = Duration::from_micros(u64::try_from(difference).unwrap_or(0));
    (difference > TOLERANCE).then(|| {
        let seconds = difference.as_secs();
        let message = format!("the clock of {server} is {seconds} s {direction} that of this machine");
        let remedy = "Synchronize the clocks (NTP): keys expire by the clock of the database, access \
                      tokens by that of the replica.";
        Finding::warning(CHECK, message, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_beyond_the_tolerance_are_found_in_both_directions() {
        let now = Timestamp::now();
        for (seconds, expected) in
            [(0, None), (-1, None), (60, Some("ahead")), (-60, Some("behind"))]
        {
            let found = compare("x", now, now.as_microsecond() + seconds * 1_000_000);
            let message = found.map(|finding| finding.message);
            match expected {
                None => assert_eq!(message, None, "{seconds}"),
                Some(word) => assert!(message.is_some_and(|it| it.contains(word)), "{seconds}"),
            }
        }
    }
}
