//! The fuzz targets of `tests/fuzz`: one for each parser of bytes from outside. A target takes any
//! bytes, and panics if the parser breaks one of its promises. Compiled with the feature `fuzzing`
//! only, which no release has.
#![allow(clippy::expect_used, reason = "a panic is how a target reports a fault")]

use std::sync::LazyLock;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jsonwebtoken::DecodingKey;
use poem::http::{HeaderMap, HeaderValue, header};
use poem::web::headers::{HeaderMapExt, IfNoneMatch};
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use crate::api::TrustedProxies;
use crate::cache::{self, ResponseBody};
use crate::control::identity::{ClaimVerifier, accepted_header, bearer_token};
use crate::http::conditional::{accepts_gzip, is_not_modified};
use crate::http::error::InvalidParameter;
use crate::http::parameter::parse_query;
use crate::keys::{ApiKey, is_external_key, is_key};
use crate::redis::ServerMemory;
use crate::registry::{
    Count, DomainName, GeneCounts, GeneFilter, GeneId, GenePage, GeneSearch, Page, Request,
    Timestamp, is_label,
};
use crate::upstream::postgres::parse_scope;
use crate::upstream::{ChangeScope, History, Snapshot};

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by name: that of the program in `tests/fuzz/fuzz_targets`, and of the folder with its
/// seeds.
pub const TARGETS: [(&str, Target); 8] = [
    ("query", query),
    ("api_key", api_key),
    ("if_none_match", if_none_match),
    ("accept_encoding", accept_encoding),
    ("forwarded", forwarded),
    ("redis_values", redis_values),
    ("change_scope", change_scope),
    ("access_token", access_token),
];

/// A query, or an id in a path. The links of an accepted search lead to pages of the same search, and
/// messages of refused ones begin with the parameter.
pub fn query(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else { return };
    if let Ok(id) = query.parse::<GeneId>() {
        assert_eq!(id.to_string(), query.to_ascii_lowercase());
    }
    if let Ok(domain) = parse_query::<DomainName>(query, "domain") {
        let text = domain.as_str();
        assert!((1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control));
    }
    match search(query) {
        Err(InvalidParameter(message)) => {
            let names = ["domain ", "fidelity ", "sort ", "limit ", "offset "];
            assert!(names.iter().any(|name| message.starts_with(name)), "{message}");
            assert!(message.chars().count() < 1_000, "{message}");
        }
        Ok(search) => {
            let total = Count::saturating(i64::MAX);
            let counts = GeneCounts { total, broken: Count::default() };
            let page = GenePage::new(search.page, Vec::new(), counts);
            let link = ResponseBody::page(&search, &page).link;
            let link = link.to_str().expect("ASCII");
            for target in link.split(", ").filter(|link| !link.is_empty()) {
                let (target, _) = target.split_once(">; rel=\"").expect("a relation");
                let target = target.strip_prefix("<?").expect("a query");
                let linked = self::search(target).expect("a valid query");
                let is_same = linked.filter == search.filter && linked.sort == search.sort;
                assert!(is_same && linked.page.limit() == search.page.limit(), "{target}");
            }
        }
    }
}

fn search(query: &str) -> Result<GeneSearch, InvalidParameter> {
    let (domain, fidelity) = (parse_query(query, "domain")?, parse_query(query, "fidelity")?);
    let page = Page::new(parse_query(query, "limit")?, parse_query(query, "offset")?);
    let sort = parse_query(query, "sort")?;
    Ok(GeneSearch { filter: GeneFilter { domain, fidelity }, sort, page })
}

/// The value of `X-API-Key`. A key with another bit set is no key, and none is an external key too.
pub fn api_key(data: &[u8]) {
    if is_external_key(data) {
        assert!((16..=128).contains(&data.len()) && data.iter().all(u8::is_ascii_graphic));
        assert!(!is_key(data));
    }
    let parsed = std::str::from_utf8(data).ok().and_then(|text| text.parse::<ApiKey>().ok());
    assert_eq!(parsed.is_some(), is_key(data));
    let Some(key) = parsed else { return };
    assert_eq!((key.expose().as_bytes(), data.len()), (data, 50));
    assert!(key.expose().starts_with(key.prefix()) && key.prefix().len() == 11);
    let mut changed = data.to_vec();
    for index in 0..data.len() {
        changed[index] ^= 1;
        assert!(!is_key(&changed), "character {index}");
        changed[index] ^= 1;
    }
}

/// The value of `If-None-Match`: only a list that contains the tag, or `*`, means that the client has
/// the response.
pub fn if_none_match(data: &[u8]) {
    const TAG: &str = "\"0123456789abcdef\"";
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let (mut request, mut response) = (HeaderMap::new(), HeaderMap::new());
    request.insert(header::IF_NONE_MATCH, value);
    response.insert(header::ETAG, HeaderValue::from_static(TAG));
    let condition = request.typed_get::<IfNoneMatch>();
    if is_not_modified(condition.as_ref(), &response) {
        let names_tag = data.windows(TAG.len()).any(|part| part == TAG.as_bytes());
        assert!(names_tag || data.trim_ascii() == b"*", "{condition:?}");
    }
}

/// The value of `Accept-Encoding`: gzip only for clients that name it or `*`, however the list is
/// distributed over several headers.
pub fn accept_encoding(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let Ok(text) = value.to_str() else { return };
    let mut separate = HeaderMap::new();
    for item in text.split(',') {
        let item = HeaderValue::from_str(item).expect("a part of a value");
        separate.append(header::ACCEPT_ENCODING, item);
    }
    let together = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.clone())]);
    let accepts = accepts_gzip(&together);
    assert_eq!(accepts, accepts_gzip(&separate));
    assert!(!accepts || text.contains('*') || text.to_ascii_lowercase().contains("gzip"));
}

/// Headers of a proxy, one a line, whose first byte selects the name. The address is a path, or an
/// URL without characters that need escaping, and of bounded length.
pub fn forwarded(data: &[u8]) {
    const NAMES: [&str; 5] = [
        "forwarded",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-prefix",
        "x-forwarded-for",
    ];
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some((selector, value)) = line.split_first() else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        headers.append(NAMES[usize::from(*selector) % NAMES.len()], value);
    }
    let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
    let proxies = TrustedProxies::new(trusted.to_vec());
    let Some(address) = proxies.reported_address(&headers, Some("inner:8080")) else { return };
    let rest = ["/", "http://", "https://"].iter().find_map(|start| address.strip_prefix(start));
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:[]".contains(&byte);
    assert!(rest.is_some_and(|rest| rest.bytes().all(is_allowed)), "{address}");
    assert!(address.len() <= "https://".len() + 255 + 255, "{address}");
}

/// Values in Redis. An entry with a right checksum, as anyone who can write to Redis can make it, is read
/// back as it was read.
pub fn redis_values(data: &[u8]) {
    const KEY: &str = "gr:entry:{phenotype}";
    let request = Request::Phenotype(uuid::Uuid::nil().into());
    let decode = |bytes: Vec<u8>| cache::decode(KEY, &request, &bytes.into());
    drop(decode(data.to_vec()));
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(ServerMemory::parse(text).is_none() || text.contains("used_memory:"));
        drop(serde_json::from_str::<(History, Option<u64>)>(text));
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(KEY.as_bytes());
    hasher.update(data);
    let head = [&[cache::FORMAT][..], &hasher.finalize().to_be_bytes()].concat();
    let Some(entry) = decode([&head[..], data].concat()) else { return };
    let again = decode(cache::encode(KEY, &entry)).expect("an entry");
    let headers = |entry: &cache::Entry| [entry.link.clone(), entry.etag(false), entry.etag(true)];
    assert_eq!(again.body, entry.body);
    assert_eq!(headers(&again), headers(&entry));
    assert_eq!(again.seen, entry.seen);
}

/// A scope of the change log, or a snapshot. A scope that names one thing names all of the text.
pub fn change_scope(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let named = match parse_scope(text) {
        ChangeScope::Gene(id) => Some(format!("gene:{id}")),
        ChangeScope::Domain(name) => Some(format!("domain:{name}")),
        ChangeScope::Key(hash) => Some(format!("key:{}", HEXLOWER.encode(&hash.0))),
        ChangeScope::Genes => Some("genes".to_owned()),
        ChangeScope::Keys => Some("keys".to_owned()),
        ChangeScope::All => None,
    };
    assert!(named.is_none_or(|named| named.eq_ignore_ascii_case(text)), "{text}");
    if let Ok(snapshot) = text.parse::<Snapshot>() {
        assert_eq!(snapshot.to_string().parse::<Snapshot>().as_ref(), Ok(&snapshot));
        let transactions = snapshot.transactions();
        assert!(transactions <= snapshot.xmax() && !snapshot.sees(snapshot.xmax()));
    }
}

/// The value of `Authorization`; and claims, or a header and claims on two lines, which are signed
/// here with the issuer's key. Nothing else is accepted, and no claims but those that are required.
pub fn access_token(data: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(data) {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        if let Ok(token) = bearer_token(&headers) {
            assert!(
                (1..=8_192).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic())
            );
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(user_of(text).is_none(), "a token that nobody signed");
    let (head, claims) = text.split_once('\n').unwrap_or((r#"{"alg":"EdDSA"}"#, text));
    let message = [head, claims].map(|part| BASE64URL_NOPAD.encode(part.as_bytes())).join(".");
    let signature = BASE64URL_NOPAD.encode(ISSUER_KEYS.0.sign(message.as_bytes()).as_ref());
    let Some(user) = user_of(&format!("{message}.{signature}")) else { return };
    let claims: Value = serde_json::from_str(claims).expect("claims");
    assert_eq!((claims["iss"].as_str(), claims["sub"].as_str()), (Some(ISSUER), Some(&*user)));
    assert!(is_label(&user), "{user:?}");
    let is_ours = |audience: &Value| audience == AUDIENCE;
    let audience = &claims["aud"];
    assert!(is_ours(audience) || audience.as_array().is_some_and(|all| all.iter().any(is_ours)));
    let now = Timestamp::now().as_second() as f64;
    assert!(claims["exp"].as_f64().is_some_and(|expiry| expiry > now - 60.0), "{claims}");
}

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://keys.example";

/// The key pair of RFC 8037, appendix A.1, which everybody knows.
static ISSUER_KEYS: LazyLock<(Ed25519KeyPair, [DecodingKey; 1])> = LazyLock::new(|| {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let seed = HEXLOWER.decode(seed.as_bytes()).expect("digits");
    let public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let public = DecodingKey::from_ed_components(public).expect("a key");
    (Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed"), [public])
});

/// The user of a token, if it is accepted.
fn user_of(token: &str) -> Option<String> {
    let verifier = ClaimVerifier {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        user_claim: "sub".to_owned(),
    };
    let header = accepted_header(token).ok()?;
    let (user, _, _) = verifier.verify(token, header.alg, &ISSUER_KEYS.1).ok()?;
    Some(user)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    #[test]
    fn the_seeds_of_each_target_pass() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds");
        for (name, target) in TARGETS {
            let files = fs::read_dir(seeds.join(name)).expect("a folder").collect::<Vec<_>>();
            assert!(files.len() >= 3, "{name}");
            for file in files {
                target(&fs::read(file.expect("a file").path()).expect("bytes"));
            }
        }
    }
}
