//! Wrong tokens, many a second: no valid token is refused, from the same address or another one,
//! directly or behind the balancer.

use gene_registry::config::Config;
use gene_registry::control::LoginToken;
use jsonwebtoken::{Algorithm, Header};
use rcgen::KeyPair;
use reqwest::{Client, RequestBuilder};
use serde_json::json;

use super::replica;
use crate::support::control::new_token;
use crate::support::flood::{Flood, client_from};
use crate::support::haproxy::HaProxy;
use crate::support::issuer::Issuer;
use crate::support::jwt::signed_by_key;

const WRONG_PER_SECOND: u32 = 100;
const STREAMS: u32 = 4;

/// More than an address may send before it gets 429.
const OVER_BUDGET: usize = 60;

/// Tokens that are used for the first time while wrong ones arrive.
const TOKENS: usize = 4;

fn whoami(client: &Client, root: &str, token: &str) -> RequestBuilder {
    client.get(format!("{root}/control/v1/whoami")).bearer_auth(token)
}

fn unknown_token() -> String {
    LoginToken::generate().unwrap().expose().to_owned()
}

fn new_tokens(config: &mut Config) -> Vec<String> {
    (0..TOKENS).map(|number| new_token(config, &format!("user-{number}"))).collect()
}

/// While wrong tokens arrive from 127.0.0.2, each token is accepted from each of these clients.
async fn assert_accepted_beside(
    wrong: impl Fn() -> String + Clone + Send + Sync + 'static,
    tokens: &[String],
    roots: &[(&str, &str)],
) {
    let (stranger, root) = (client_from("127.0.0.2"), roots[0].1.to_owned());
    let flood = Flood::start(STREAMS, WRONG_PER_SECOND, move || whoami(&stranger, &root, &wrong()));
    flood.answered(OVER_BUDGET).await;
    let clients: Vec<_> = roots.iter().map(|(from, root)| (client_from(from), *root)).collect();
    for token in tokens {
        for (client, root) in &clients {
            let response = whoami(client, root, token).send().await.unwrap();
            assert_eq!(response.status(), 200, "{root}: {response:?}");
        }
    }
    let statuses = flood.stop().await;
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_valid_login_token_is_refused_beside_wrong_ones() {
    let mut tokens = Vec::new();
    let (replica, _database) = replica(|config| tokens = new_tokens(config)).await;
    let root = replica.control.as_deref().unwrap();
    let roots = [("127.0.0.2", root), ("127.0.0.3", root)];
    assert_accepted_beside(unknown_token, &tokens, &roots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_valid_login_token_is_refused_beside_wrong_ones_behind_the_balancer() {
    for trusted in [vec!["127.0.0.1".parse().unwrap()], vec![]] {
        let mut tokens = Vec::new();
        let (replica, _database) = replica(|config| {
            tokens = new_tokens(config);
            config.server.trusted_proxies = trusted;
        })
        .await;
        let balancer = HaProxy::start(replica.control.as_deref().unwrap(), &replica.ops).await;
        let (ipv4, ipv6) = (balancer.url("127.0.0.1"), balancer.url("[::1]"));
        let roots = [("127.0.0.2", ipv4.as_str()), ("127.0.0.3", &ipv4), ("::1", &ipv6)];
        assert_accepted_beside(unknown_token, &tokens, &roots).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_valid_access_token_is_refused_beside_forged_ones() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let mut tokens = Vec::new();
    for number in 0..TOKENS {
        tokens.push(issuer.log_in(&format!("user-{number}")).await.access);
    }
    // Of a key that the issuer has, so that the signature is verified each time.
    issuer.rotate("ES256", true).await;
    let keys = issuer.keys().await;
    let keys = keys["keys"].as_array().unwrap();
    let kid = keys.iter().find(|key| key["kty"] == "EC").unwrap()["kid"].as_str().unwrap();
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
    let own = KeyPair::generate().unwrap().serialize_der();
    let forged = signed_by_key(&header, &json!({ "sub": "mallory" }), &own);
    let root = replica.control.as_deref().unwrap();
    let roots = [("127.0.0.2", root), ("127.0.0.3", root)];
    assert_accepted_beside(move || forged.clone(), &tokens, &roots).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_before_the_signature_count_and_unknown_keys_are_never_throttled() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let root = replica.control.as_deref().unwrap();
    let valid = issuer.log_in("alice").await.access;
    let unknown_key = issuer.sign(json!({ "sub": "alice" }), json!({ "kid": "of tomorrow" })).await;
    for (from, wrong) in [("127.0.0.2", &*unknown_key), ("127.0.0.3", "no JWT"), ("127.0.0.4", "")]
    {
        let client = client_from(from);
        let send = async |token: &str| whoami(&client, root, token).send().await.unwrap().status();
        for _ in 0..OVER_BUDGET {
            let status = send(wrong).await;
            let may_be_throttled = wrong != unknown_key && status == 429;
            assert!(status == 401 || may_be_throttled, "{from}: {status}");
        }
        // One of the budget returns each second, however slow the machine is.
        let mut throttled = false;
        for _ in 0..20 {
            throttled = throttled || send(&unknown_token()).await == 429;
        }
        assert!(throttled, "{from}: they count");
        assert_eq!(send(&valid).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_throttled_by_the_client_that_trusted_proxies_report() {
    let (replica, _database) = replica(|config| {
        new_token(config, "alice");
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let (client, root) = (client_from("127.0.0.1"), replica.control.as_deref().unwrap());
    let guess = async |name: &str, hops: &str| {
        let request = whoami(&client, root, &unknown_token()).header(name, hops);
        request.send().await.unwrap()
    };
    for (name, throttled, same, other) in [
        ("X-Forwarded-For", "192.0.2.1", "192.0.2.9, ::ffff:192.0.2.1", "192.0.2.1, 192.0.2.9"),
        ("X-Forwarded-For", "2001:db8:1:1::1", "[2001:db8:1:1::2]:99", "2001:db8:1:2::1"),
        ("Forwarded", "for=192.0.2.2", "for=1.1.1.1, for=192.0.2.2:9", "for=\"[2001:db8:2::1]\""),
    ] {
        let mut guesses = 0;
        while guess(name, throttled).await.status() == 401 {
            guesses += 1;
            // One returns each second, however slow the machine is.
            assert!(guesses < 500, "{name}: {throttled} is not throttled");
        }
        assert!(guesses >= 30, "{name}: {throttled}: {guesses}");
        let mut last = guess(name, same).await;
        for _ in 0..20 {
            if last.status() == 429 {
                break;
            }
            last = guess(name, same).await;
        }
        assert_eq!(last.status(), 429, "{name}: {same} is the same source");
        assert!(last.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
        assert_eq!(guess(name, other).await.status(), 401, "{name}: {other} is another source");
    }
}
