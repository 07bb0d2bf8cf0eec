//! The service's behaviour, against a real Postgres and a real Redis.

mod upstream;
