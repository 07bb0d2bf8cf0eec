//! Signs JWTs that no issuer would sign.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, Header};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::Value;

fn token(header: &Header, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let parts = [serde_json::to_vec(header).unwrap(), serde_json::to_vec(claims).unwrap()];
    let message = parts.map(|part| BASE64URL_NOPAD.encode(&part)).join(".");
    format!("{message}.{}", BASE64URL_NOPAD.encode(&sign(message.as_bytes())))
}

/// Signed by ES256 with a private key (PKCS #8).
pub(crate) fn signed_by_key(header: &Header, claims: &Value, key: &[u8]) -> String {
    token(header, claims, |message| {
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random).unwrap();
        pair.sign(&random, message).unwrap().as_ref().to_vec()
    })
}

/// Signed by the header's algorithm, which is one of HMAC.
pub(crate) fn signed_by_secret(header: &Header, claims: &Value, secret: &[u8]) -> String {
    let algorithm = match header.alg {
        Algorithm::HS256 => hmac::HMAC_SHA256,
        Algorithm::HS384 => hmac::HMAC_SHA384,
        Algorithm::HS512 => hmac::HMAC_SHA512,
        other => panic!("{other:?} has no secret"),
    };
    token(header, claims, |message| {
        hmac::sign(&hmac::Key::new(algorithm, secret), message).as_ref().to_vec()
    })
}
