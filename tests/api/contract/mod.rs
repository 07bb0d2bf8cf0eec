//! The served document: its content, that the committed file is up to date, and that every response
//! matches it.

mod answers;
mod compare;
mod document;
mod foreign;
mod gate;
mod publication;
