//! The service's behaviour, against a real Postgres and a real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod connections;
mod harness;
mod limit_faults;
mod limits;
mod not_found;
mod poolers;
mod postgres_faults;
mod postgres_scarce;
mod redis_away;
mod redis_faults;
mod secrecy;
mod upstream;
