//! The signatures of access tokens, verified by `ring`, which TLS uses too.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// It signs nothing, and verifies what [`verifier`] lists.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(SignatureVerifier::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` verify by `ring`, in the whole process.
pub(super) fn use_ring() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails if there is another provider already; nothing else in this process installs one.
        let _ = PROVIDER.install_default();
    });
}

/// How signatures of an algorithm are verified.
enum Scheme {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

struct SignatureVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl SignatureVerifier {
    /// Fails for an algorithm that access tokens may not have, and for a key of another one.
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self> {
        let scheme = match algorithm {
            Algorithm::RS256 => Scheme::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::PS256 => Scheme::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::ES256 => Scheme::Other(&ECDSA_P256_SHA256_FIXED),
            Algorithm::EdDSA => Scheme::Other(&ED25519),
            _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
        };
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(Self { algorithm, scheme, key: key.clone() })
    }
}

impl JwtVerifier for SignatureVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for SignatureVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let (n, e) = (without_leading_zeros(n), without_leading_zeros(e));
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Scheme::Other(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*scheme, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

/// `ring` accepts numbers without them only; some issuers write them.
fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64URL_NOPAD;

    use super::*;

    /// A key of 2,048 bits, made by OpenSSL, and its signatures of `message`.
    const MODULUS: &str = "\
        xYfYWls52BSk8w0DjnZ0PUhwKiE4Xb5zrFDzuErMNMFQhndlSY-kMGbGExMxZHJ1bcQEpZ960D9fzTmIvN\
        0JXVuuxy-V5wcY1HONhhJ0RQGHJlhAGr9D6Nhes2J0dOhZdkRnobdlCCwoAD5HEQ6OuzRyJgCJpScgxORC\
        Mnvz2MhOO3Sn0e5UenxVowU1965WpZDaWQgFMzKKJoVuCHrQkFL3lLJr0UQVJbQorBZudnuMzSkW1KDBhA\
        NCw6L_MaOkHGsvVQw77jSm5mueczJVTlxNNsqIidPFCbhQpXY1mpQIExEBiN3DOEsCzvGuOCggxKLceb8m\
        cwPLAoab7Gf3VQ";
    const RS256: &str = "\
        Hv0O1V6fvjH4tc7Y1kMWxkKq4rChDUPhPJNYw3CgqHT8cn_zjNqA3cU-dUWvfGc70moChL0sntZ1j2gU2q\
        ifwa1oy6dqmT7bFz34GMPW_egdMO8AGyVfFOOJGl91Abe2ZQWc0jrmyBK20hZibm8cuEyIzcbvgj30XEXA\
        b-Z-FUhN_aPVz84dh0_KKrIfKmr4ZxSYgxfvXcHZtm6zo-65OAXhTseQvzImPzKD0jJToqXmj7HctwuTXC\
        _wssUTYNsPl9fPccGy6T-r5lZjsvlElvzfV1a5shE_E1aPx0RqIzxx56yPOsmPb5ceuRbWEIW5mQEZvNjy\
        Mo1ed8ZefF3E-A";
    const PS256: &str = "\
        S789dGLX7qZC0rkxF8C-R1fP41VwRy03SC4OBBIf2kGFxUGkk18UlVsB7KScF7VOfrssLPtP1MoKZfePDP\
        Uzic-OP-vCxQJmDuMjGcHT9zz2U8QujKwXoO_6n3L2-0_KWCW9_ZMBxwQ4lWP-EbfPo1ANWbIqygcxlLjA\
        prQcQKQkBDnsQLPPfWdbgN52At1qP3FyQKMPs2m6ZApsLpKposrcooif1OyE2Ugs6X-2ftNZXhEd8jgT_O\
        pboJB4Ut1rBjmS3E0CxXhGI60YrUA-h0heKicISvWu2ILFLobG5kfa4jKqrms9YeFulBqB4_rPuI5reIx6\
        435unzu1KXxnlQ";

    fn is_valid(algorithm: Algorithm, key: &DecodingKey, message: &str, signature: &str) -> bool {
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).expect("a signature");
        let verifier = SignatureVerifier::new(algorithm, key).expect("a verifier");
        verifier.verify(message.as_bytes(), &signature).is_ok()
    }

    #[test]
    fn signatures_by_rsa_are_verified_whether_or_not_numbers_have_leading_zeros() {
        let modulus = BASE64URL_NOPAD.decode(MODULUS.as_bytes()).expect("a number");
        for zeros in [&[][..], &[0], &[0, 0]] {
            let (n, e) = ([zeros, &modulus].concat(), [zeros, &[1, 0, 1]].concat());
            let key = DecodingKey::from_rsa_raw_components(&n, &e);
            for (algorithm, signature, other) in
                [(Algorithm::RS256, RS256, PS256), (Algorithm::PS256, PS256, RS256)]
            {
                assert!(is_valid(algorithm, &key, "message", signature));
                assert!(!is_valid(algorithm, &key, "massage", signature));
                assert!(!is_valid(algorithm, &key, "message", other));
            }
        }
    }

    #[test]
    fn a_key_of_another_kind_or_algorithm_verifies_nothing() {
        let secret = DecodingKey::from_secret(b"secret");
        for algorithm in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA, Algorithm::HS256] {
            assert!(SignatureVerifier::new(algorithm, &secret).is_err(), "{algorithm:?}");
        }
        let rsa = DecodingKey::from_rsa_raw_components(&[1], &[3]);
        for algorithm in [Algorithm::RS384, Algorithm::PS512, Algorithm::ES256, Algorithm::EdDSA] {
            assert!(SignatureVerifier::new(algorithm, &rsa).is_err(), "{algorithm:?}");
        }
    }
}
