//! The served document: its content, that it is the committed one, and that every response matches
//! it.

mod answers;
mod compare;
mod document;
mod foreign;
mod gate;
mod publication;
