//! Files of credentials with wrong permissions, owners or content.

use super::AccountSetup;
use crate::commands::cli_user::mode;

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_neither_overwritten_nor_printed() {
    let setup = AccountSetup::start().await;
    let good = std::fs::read_to_string(setup.ana.credentials_path()).unwrap();
    let half = &good[..good.len() / 2];
    let wrong_type = good.replace("\"version\": 1", &format!("\"version\": \"{}\"", setup.token));
    let newer = good.replace("\"version\": 1", "\"version\": 2, \"more\": true");
    for text in ["", "\0\0", half, "[]", wrong_type.as_str(), newer.as_str()] {
        setup.ana.set_credentials(text);
        let login = ["login", "--server", setup.server(), "--token-stdin"];
        let tried = [
            setup.ana.run(&["whoami"]).await,
            setup.ana.run(&["api-key", "list"]).await,
            setup.ana.run(&["logout"]).await,
            setup.ana.run_with_input(&login, &setup.token).await,
        ];
        for ended in tried {
            let ended = ended.failed(1, &[&setup.token]);
            assert!(ended.stderr.contains("credentials.json"), "{ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        }
        assert_eq!(std::fs::read_to_string(setup.ana.credentials_path()).unwrap(), text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_readable_by_others_becomes_private_again() {
    use std::os::unix::fs::PermissionsExt;
    let setup = AccountSetup::start().await;
    let path = setup.ana.credentials_path();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ended = setup.ana.run(&["whoami"]).await.ok();
    assert!(ended.stderr.contains("was accessible to other users"), "{ended:?}");
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_accessible_to_others_becomes_private_again() {
    use std::os::unix::fs::PermissionsExt;
    let setup = AccountSetup::start().await;
    let folder = setup.ana.credentials_path().parent().unwrap().to_owned();
    for open in [0o777, 0o770, 0o755, 0o701] {
        for args in [&["whoami"][..], &["api-key", "list"]] {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(open)).unwrap();
            let ended = setup.ana.run(args).await.ok();
            assert!(ended.stderr.contains("its mode is now 0700"), "{open:o}: {ended:?}");
            assert_eq!(mode(&folder), 0o700);
        }
    }
    assert_eq!(setup.ana.run(&["whoami"]).await.ok().stderr, "", "once");
    // Another program created the folder before the first login.
    let other = AccountSetup::with(|_| {}).await;
    let folder = other.ana.credentials_path().parent().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    other.log_in(&other.ana, &other.token).await;
    assert_eq!(mode(&folder), 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_or_file_of_another_user_is_not_used() {
    use crate::support::process::{account, give_to_account};
    // Only root can change the owner.
    if account().is_none() {
        return crate::support::record_not_run("a folder or file of another user");
    }
    for is_folder in [true, false] {
        let setup = AccountSetup::start().await;
        let file = setup.ana.credentials_path();
        let given = if is_folder { file.parent().unwrap() } else { &file };
        give_to_account(given);
        let login = ["login", "--server", setup.server(), "--token-stdin"];
        for ended in [
            setup.ana.run(&["whoami"]).await,
            setup.ana.run(&["logout"]).await,
            setup.ana.run_with_input(&login, &setup.token).await,
        ] {
            let ended = ended.failed(1, &[&setup.token]);
            let told = format!("{} belongs to another user", given.display());
            assert!(ended.stderr.contains(&told), "{ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_folder_is_named_and_nothing_is_lost() {
    let setup = AccountSetup::with(|_| {}).await;
    // A file where the folder should be: not even root can create a folder there.
    std::fs::write(setup.ana.folder.join("config"), "").unwrap();
    let login = ["login", "--server", setup.server(), "--token-stdin"];
    let ended = setup.ana.run_with_input(&login, &setup.token).await.failed(1, &[&setup.token]);
    for told in ["config/gene-registry", "cannot write to", "XDG_CONFIG_HOME"] {
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_logins_are_all_saved() {
    let stands = [
        AccountSetup::with(|_| {}).await,
        AccountSetup::with(|_| {}).await,
        AccountSetup::with(|_| {}).await,
    ];
    let cli_user = &stands[0].ana;
    let logins = stands.iter().map(|setup| setup.log_in(cli_user, &setup.token));
    futures_util::future::join_all(logins).await;
    for setup in &stands {
        cli_user.run(&["whoami", "--server", setup.server()]).await.ok();
    }
    let left: Vec<_> = std::fs::read_dir(cli_user.credentials_path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left.len(), 2, "no temporary file remains: {left:?}");
}
