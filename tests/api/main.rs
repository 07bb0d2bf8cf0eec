//! The service's behaviour, against a real Postgres and a real Redis.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod upstream;
