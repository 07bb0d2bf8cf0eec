//! The command line: each command is one file that parses its arguments and runs it.

mod api_key;
mod canary;
mod command;
mod completions;
mod config;
mod config_file;
mod database;
mod demo;
mod doctor;
mod healthcheck;
mod help;
mod key_file;
mod login;
mod logout;
mod maintain;
mod man;
mod man_page;
mod migrate;
mod openapi;
mod output;
mod report_file;
mod run;
mod seed;
mod serve;
mod service_manager;
mod session;
mod setup;
mod signals;
mod system_user;
mod terminal;
mod token;
mod value_parsers;
mod whoami;

pub use run::run;
