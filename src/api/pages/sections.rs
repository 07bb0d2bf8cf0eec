//! The sections of the front page that depend on the configuration and on the registry, as HTML.

use std::fmt::Write;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::config::PagesConfig;
use crate::registry::{DomainName, RegistryNumbers, deceptions};

/// What is encoded in an address: all but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Maximum number of genes that are shown of a domain.
const LEADERS: usize = 3;

/// Names of genes are cut to so many characters.
const NAME_CHARS: usize = 200;

/// One of the best genes of a domain.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Leader {
    id: String,
    name: String,
    fitness_score: f64,
}

/// A gene and a domain that the commands of the page use.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExampleGene {
    /// Encoded for a query.
    pub(super) domain: Bytes,
    pub(super) gene: Bytes,
    /// The explanation of the gene.
    pub(super) note: &'static str,
}

impl ExampleGene {
    /// One of these genes; of the sample registry if there is none.
    pub(super) fn of(leaders: &[(DomainName, Vec<Leader>)]) -> Self {
        let first = leaders.iter().find_map(|(domain, genes)| Some((domain, genes.first()?)));
        first.map_or_else(Self::default, |(domain, gene)| Self {
            domain: utf8_percent_encode(domain.as_str(), ENCODED).to_string().into(),
            gene: escaped(&gene.id).into(),
            note: "This id is that of the best gene of a domain; a search returns others.",
        })
    }
}

impl Default for ExampleGene {
    /// A gene of the sample registry.
    fn default() -> Self {
        Self {
            domain: Bytes::from_static(b"search"),
            gene: Bytes::from_static(b"db8dde37-1518-4afb-94b1-f5723d34ff6e"),
            note: "This id is from the sample registry; a search returns others.",
        }
    }
}

/// The numbers of genes and domains, and the leaders of some domains.
pub(super) fn numbers(registry: &RegistryNumbers, leaders: &[(DomainName, Vec<Leader>)]) -> Bytes {
    let mut html = String::from("<section class=\"block\" aria-labelledby=\"numbers\">\n");
    let _ = writeln!(
        html,
        "<h2 id=\"numbers\">{} in {}</h2>\n<p>The best by fitness in some of them. \
         <a href=\"arena\">See all in the arena</a></p>\n<div class=\"facts\">",
        counted(registry.genes.get(), "gene"),
        counted(registry.total_domains.get(), "domain")
    );
    for (domain, genes) in leaders.iter().filter(|(_, genes)| !genes.is_empty()) {
        let query = utf8_percent_encode(domain.as_str(), ENCODED);
        let name = escaped(domain.as_str());
        let _ = writeln!(
            html,
            "<div class=\"card\"><h3><a href=\"arena?domain={query}\">{name}</a></h3><ol class=\"leaders\">"
        );
        for gene in genes.iter().take(LEADERS) {
            let (id, fitness) = (utf8_percent_encode(&gene.id, ENCODED), gene.fitness_score);
            let shown: String = gene.name.chars().take(NAME_CHARS).collect();
            let name = if shown.is_empty() { "(unnamed)".to_owned() } else { escaped(&shown) };
            let _ = writeln!(
                html,
                "<li><a href=\"genes/{id}\">{name}</a> <span class=\"soft\">{fitness:.3}</span></li>"
            );
        }
        html.push_str("</ol></div>\n");
    }
    html.push_str("</div>\n</section>\n");
    html.into()
}

/// How to get a key. `control`: the address of the control listener, if there is one.
pub(super) fn key(config: &PagesConfig, control: Option<&str>) -> Bytes {
    let mut html = String::new();
    if let Some(text) = &config.key_help {
        let _ = writeln!(html, "<p>{}</p>", escaped(text));
    }
    if let Some(url) = &config.key_url {
        let url = escaped(url);
        let _ = writeln!(html, "<p><a class=\"button quiet\" href=\"{url}\">Get a key</a></p>");
    }
    match control {
        _ if !html.is_empty() => {}
        Some(address) => {
            let address = escaped(address);
            let _ = writeln!(
                html,
                "<p>Create one on <a href=\"{address}/keys\">the page for keys</a>, or by the command line:</p>"
            );
            let _ = writeln!(
                html,
                "<div class=\"command\" data-name=\"log in and create a key\"><pre><code>gene-registry \
                 login --server {address}\nexport API_KEY=$(gene-registry api-key create --name mine)</code></pre></div>"
            );
        }
        None => html.push_str("<p>Ask the operator of this service for one.</p>\n"),
    }
    html.into()
}

fn counted(number: u64, noun: &str) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Text in HTML. Deceptive characters are shown as their numbers, as the scripts of the pages do.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for (character, is_deceptive) in deceptions(text) {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' => html.push('\n'),
            _ if is_deceptive => {
                let _ = write!(html, "\\u{{{:x}}}", u32::from(character));
            }
            _ => html.push(character),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Count;

    fn leaders(domain: &str, name: &str) -> Vec<(DomainName, Vec<Leader>)> {
        let leader = Leader { id: "an id".to_owned(), name: name.to_owned(), fitness_score: 0.5 };
        vec![(domain.parse().expect("a domain"), vec![leader])]
    }

    fn text(html: Bytes) -> String {
        String::from_utf8(html.into()).expect("UTF-8")
    }

    #[test]
    fn texts_of_the_registry_are_escaped_and_cut() {
        let registry = RegistryNumbers {
            genes: Count::saturating(1_234_567),
            total_domains: Count::saturating(1),
            domains: Vec::new(),
        };
        let html = text(numbers(&registry, &leaders("a&b'", "<b>\u{202e}")));
        assert!(html.contains("1,234,567 genes in 1 domain<"), "{html}");
        assert!(html.contains("arena?domain=a%26b%27\">a&amp;b&#39;</a>"), "{html}");
        assert!(html.contains("genes/an%20id\">&lt;b&gt;\\u{202e}</a>"), "{html}");
        let html = text(numbers(&registry, &leaders("a", &"é".repeat(100_000))));
        assert!(html.len() < 1_000, "{}", html.len());
    }

    #[test]
    fn examples_are_those_that_exist() {
        assert_eq!(ExampleGene::of(&[]), ExampleGene::default());
        let example = ExampleGene::of(&leaders("a b", "x"));
        assert_eq!((&*example.domain, &*example.gene), (&b"a%20b"[..], &b"an id"[..]));
    }

    #[test]
    fn the_operators_text_replaces_the_commands_for_a_key() {
        let none = PagesConfig::default;
        assert!(text(key(&none(), None)).contains("Ask the operator"));
        let html = text(key(&none(), Some("https://keys.example")));
        assert!(html.contains("login --server https://keys.example"), "{html}");
        assert!(html.contains("href=\"https://keys.example/keys\""), "{html}");
        let help = PagesConfig { key_help: Some("<i>".to_owned()), ..none() };
        assert_eq!(text(key(&help, Some("https://keys.example"))), "<p>&lt;i&gt;</p>\n");
        let url = PagesConfig { key_url: Some("https://x.example/?a&b".to_owned()), ..none() };
        assert!(text(key(&url, None)).contains("href=\"https://x.example/?a&amp;b\""));
    }
}
