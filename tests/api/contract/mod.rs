//! The served document: what it says, that it is the committed one, and that every answer keeps
//! to it.

mod answers;
mod compare;
mod document;
mod foreign;
mod gate;
mod publication;
