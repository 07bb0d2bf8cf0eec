//! The service's behaviour, against a real Postgres and a real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod connections;
mod harness;
mod limits;
mod poolers;
mod postgres_faults;
mod redis_faults;
mod secrecy;
mod upstream;
