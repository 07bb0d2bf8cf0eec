//! The user of the operating system who runs a command, for the audit log.

/// The user's number, and the name that the environment gives, which proves nothing.
pub(super) fn system_user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let name = ["USER", "LOGNAME"].into_iter().find_map(|variable| std::env::var(variable).ok());
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} (uid {uid})"),
        None => format!("uid {uid}"),
    }
}
