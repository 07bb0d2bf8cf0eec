//! The service's behaviour, against a real Postgres and a real Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the test harness captures it")]

#[path = "../support/mod.rs"]
mod support;

mod any_database;
mod commands;
mod connections;
mod contract;
mod control;
mod crowds;
mod currency;
mod doctor;
mod documents;
mod failure_log;
mod front_proxies;
mod harness;
mod harness_proxies;
mod limit_faults;
mod limits;
mod limits_batches;
mod limits_clocks;
mod limits_degraded;
mod limits_exact;
mod limits_window;
mod listener;
mod not_found;
mod operators;
mod pages;
mod poolers;
mod postgres_connections;
mod postgres_faults;
mod postgres_locks;
mod read_through;
mod redis_faults;
mod redis_lanes;
mod redis_unavailable;
mod refusals;
mod refused_logins;
mod secrecy;
mod stalled_output;
mod standby;
mod supervision;
mod topology;
mod upstream;
