//! Access tokens of a real OpenID provider: only valid ones are accepted.

use std::time::{SystemTime, UNIX_EPOCH};

use gene_registry::config::Config;
use jsonwebtoken::{Algorithm, Header};
use rcgen::KeyPair;
use reqwest::Method;
use serde_json::{Value, json};

use super::replica;
use crate::support::authority::Authority;
use crate::support::control::ControlClient;
use crate::support::issuer::{AUDIENCE, CLIENT, Issuer, OTHER_AUDIENCE};
use crate::support::jwt::{signed_by_key, signed_by_secret};
use crate::support::replica::{Replica, Response};

async fn whoami(replica: &Replica, token: &str) -> Response {
    ControlClient::new(replica, Some(token)).get("/whoami").await
}

#[track_caller]
fn assert_authenticated(response: &Response, user: &str) {
    assert_eq!(response.status, 200, "{response:?}");
    let whoami = response.json();
    assert_eq!((whoami["user"].as_str(), whoami["method"].as_str()), (Some(user), Some("oidc")));
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The claims of a valid token.
fn good_claims(issuer: &Issuer) -> Value {
    json!({ "iss": issuer.url, "aud": AUDIENCE, "sub": "alice", "exp": now() + 300, "iat": now() })
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_the_issuer_are_authenticated_and_get_login_metadata() {
    let issuer = Issuer::start().await;
    let configure = |config: &mut Config| {
        issuer.configure(config);
        config.control.operators = vec!["olga".to_owned()];
    };
    let (replica, _database) = replica(configure).await;
    let login = ControlClient::new(&replica, None).get("/login").await.json();
    assert_eq!(login["methods"], json!(["oidc"]));
    let expected = json!({
        "issuer": issuer.url, "client_id": CLIENT, "scopes": "openid offline_access",
        "audience": AUDIENCE, "resource": AUDIENCE,
    });
    assert_eq!(login["oidc"], expected);

    let alice = whoami(&replica, &issuer.log_in("alice").await.access).await;
    assert_authenticated(&alice, "alice");
    assert_eq!(alice.json()["operator"], false);
    let end = alice.json()["expires_at"].as_str().unwrap().to_owned();
    let end: gene_registry::registry::Timestamp = end.parse().unwrap();
    let left = end.as_second() - i64::try_from(now()).unwrap();
    assert!((200..=301).contains(&left), "{left}");
    let olga = whoami(&replica, &issuer.log_in("olga").await.access).await;
    assert_authenticated(&olga, "olga");
    assert_eq!(olga.json()["operator"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_asymmetric_algorithm_is_accepted() {
    let issuer = Issuer::start().await;
    for algorithm in ["RS256", "PS256", "ES256", "EdDSA"] {
        issuer.rotate(algorithm, false).await;
        let (replica, _database) = replica(|config| issuer.configure(config)).await;
        assert_authenticated(
            &whoami(&replica, &issuer.log_in("alice").await.access).await,
            "alice",
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_other_audiences_or_outside_their_lifetime_are_refused() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let tokens = issuer.log_in("alice").await;
    assert_authenticated(&whoami(&replica, &tokens.access).await, "alice");
    let mut refused = vec![
        ("for another audience", issuer.log_in_for("alice", OTHER_AUDIENCE).await.access),
        ("an ID token", tokens.id),
        ("a refresh token", tokens.refresh),
    ];
    let good = good_claims(&issuer);
    assert_authenticated(
        &whoami(&replica, &issuer.sign(good.clone(), json!({})).await).await,
        "alice",
    );
    let (past, future) = (now() - 3_600, now() + 3_600);
    for (what, field, value) in [
        ("expired", "exp", json!(past)),
        ("without an end", "exp", Value::Null),
        ("not valid yet", "nbf", json!(future)),
        ("of another issuer", "iss", json!("https://id.example")),
        ("of several issuers", "iss", json!([issuer.url, "https://id.example"])),
        ("without an issuer", "iss", Value::Null),
        ("without an audience", "aud", Value::Null),
        ("for a longer audience", "aud", json!(format!("{AUDIENCE}x"))),
        ("without a user", "sub", Value::Null),
        ("of an empty user", "sub", json!("")),
        ("of a user who is a number", "sub", json!(5)),
        ("of a user with a line end", "sub", json!("a\nb")),
    ] {
        let mut claims = good.clone();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(field)),
            value => claims[field] = value,
        }
        refused.push((what, issuer.sign(claims, json!({})).await));
    }
    for (what, header) in [
        ("of another type", json!({ "typ": "logout+jwt" })),
        ("signed with a key it names itself", json!({ "kid": "another" })),
    ] {
        refused.push((what, issuer.sign(good.clone(), header).await));
    }
    for (what, token) in refused {
        let response = whoami(&replica, &token).await;
        assert_eq!(response.status, 401, "a token {what}: {response:?}");
        response.assert_refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_audiences_and_all_types_of_access_tokens_are_accepted() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let mut claims = good_claims(&issuer);
    claims["aud"] = json!([OTHER_AUDIENCE, AUDIENCE]);
    for header in [json!({}), json!({ "typ": "JWT" }), json!({ "typ": "application/AT+JWT" })] {
        let token = issuer.sign(claims.clone(), header).await;
        assert_authenticated(&whoami(&replica, &token).await, "alice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let good = issuer.log_in("alice").await.access;
    assert_authenticated(&whoami(&replica, &good).await, "alice");
    let key = issuer.keys().await["keys"][0].clone();
    let kid = key["kid"].as_str().unwrap().to_owned();
    let claims = good_claims(&issuer);

    let own = KeyPair::generate().unwrap().serialize_der();
    // The public key in each form that could be mistaken for an HMAC secret.
    let modulus = key["n"].as_str().unwrap();
    let secrets = [modulus.as_bytes().to_vec(), key.to_string().into_bytes(), Vec::new()];
    let header = |algorithm| Header { kid: Some(kid.clone()), ..Header::new(algorithm) };
    let mut forged = vec![
        signed_by_key(&header(Algorithm::ES256), &claims, &own),
        signed_by_key(&Header::new(Algorithm::ES256), &claims, &own),
    ];
    for secret in secrets {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            forged.push(signed_by_secret(&header(algorithm), &claims, &secret));
        }
    }
    let mut embedded = header(Algorithm::ES256);
    embedded.jku = Some("https://attacker.example/jwks".to_owned());
    forged.push(signed_by_key(&embedded, &claims, &own));
    let mut critical = header(Algorithm::ES256);
    critical.crit = Some(vec!["b64".to_owned()]);
    forged.push(signed_by_key(&critical, &claims, &own));

    let parts: Vec<&str> = good.split('.').collect();
    let [_, body, signature] = parts[..] else { panic!("{good}") };
    // {"alg":"none"}, {"alg":"None"}, {"alg":"none","typ":"at+jwt"}
    for none in
        ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0", "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0"]
    {
        forged.push(format!("{none}.{body}."));
        forged.push(format!("{none}.{body}.{signature}"));
    }
    forged.push(format!("{}.{body}.", parts[0]));
    let other = if body.ends_with('A') { "B" } else { "A" };
    forged.push(format!("{}.{}{other}.{signature}", parts[0], &body[..body.len() - 1]));
    for token in &forged {
        let response = whoami(&replica, token).await;
        // After thirty invalid tokens the address is refused anyway.
        assert!([401, 429].contains(&response.status.as_u16()), "{token}: {response:?}");
        assert!(!response.text.contains(token.as_str()));
    }
    assert!(forged.len() < 30, "all are verified");
    assert_authenticated(&whoami(&replica, &good).await, "alice");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_claim_is_configurable() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| {
        issuer.configure(config);
        config.control.oidc.user_claim = "preferred_username".to_owned();
    })
    .await;
    let response = whoami(&replica, &issuer.log_in("alice").await.access).await;
    assert_authenticated(&response, "alice@example");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_with_an_untrusted_certificate_is_refused() {
    let authority = Authority::new();
    let issuer = Issuer::start_tls(&authority).await;
    let token = issuer.log_in("alice").await.access;
    let (trusting, _database) = replica(|config| {
        issuer.configure(config);
        config.control.oidc.tls_ca_file = Some(authority.file.clone());
    })
    .await;
    assert_authenticated(&whoami(&trusting, &token).await, "alice");
    let (distrusting, _database) = replica(|config| {
        issuer.configure(config);
        config.control.oidc.tls_ca_file = Some(Authority::new().file.clone());
    })
    .await;
    whoami(&distrusting, &token).await.assert_refused(503, "ISSUER_UNAVAILABLE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_accepted_from_exactly_one_header() {
    let issuer = Issuer::start().await;
    let (replica, _database) = replica(|config| issuer.configure(config)).await;
    let token = issuer.log_in("alice").await.access;
    let url = format!("{}/control/v1/whoami", replica.control.as_ref().unwrap());
    let bearer = format!("Bearer {token}");
    let twice = [("Authorization", bearer.as_str()), ("Authorization", bearer.as_str())];
    assert_authenticated(&replica.send(Method::GET, &url, &twice[..1]).await, "alice");
    let in_query = format!("{url}?access_token={token}");
    for (url, headers) in [
        (&url, &twice[..]),
        (&in_query, &[]),
        (&url, &[("X-API-Key", token.as_str())]),
        (&url, &[("Authorization", token.as_str())]),
    ] {
        replica.send(Method::GET, url, headers).await.assert_refused(401, "UNAUTHORIZED");
    }
}
