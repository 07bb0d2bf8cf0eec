//! Pipes whose reader has stalled or is gone.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe::Sender;

/// A full pipe: nothing can be written until the reader reads.
pub(crate) fn full_pipe() -> (PipeReader, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    // Tokio's pipe can be switched between blocking and non-blocking.
    let mut writer =
        File::from(Sender::from_owned_fd(writer.into()).unwrap().into_nonblocking_fd().unwrap());
    for size in [4096, 1] {
        let full = loop {
            if let Err(error) = writer.write_all(&vec![b'\n'; size]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock, "{full}");
    }
    (reader, Sender::from_owned_fd(writer.into()).unwrap().into_blocking_fd().unwrap())
}

/// The end of a pipe whose reader is gone: writing to it fails with EPIPE.
pub(crate) fn closed_pipe() -> OwnedFd {
    std::io::pipe().unwrap().1.into()
}

/// A device that is always full: writing to it fails with ENOSPC.
pub(crate) fn full_device() -> OwnedFd {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Reads until the text so far contains `end`. Blocks.
pub(crate) fn read_until(reader: &mut PipeReader, end: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let mut bytes = [0; 4096];
        let length = reader.read(&mut bytes).unwrap();
        assert_ne!(length, 0, "it ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..length]);
    }
    String::from_utf8(text).unwrap()
}
